"""`Move a data directory from Kafka to Ottla, and back` of docs/operations.md is typed as it stands there.

Kafka is 2.7.2 with ZooKeeper; its script, which is not in the jars, is made here. What clients see is compared
after each step: real requests, a compacted topic, all formats, transactions (one is open all the time), and a group
whose member stays.
"""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat import takeover
from tests.compat.takeover import Life
from tests.peers.apache import SCRIPT, environment, fetch, has_controller, need_java
from tests.peers.ports import free_port
from tests.peers.processes import Server
from tests.support.readme import block
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = [pytest.mark.java, pytest.mark.zookeeper, pytest.mark.clients]

ZOOKEEPER, DATA = "127.0.0.1:2181", "/var/lib/kafka"
START = "bin/kafka-server-start.sh config/server.properties"
#: As Kafka's script, which becomes the broker. `pgrep` sees no other broker of this machine.
SCRIPTS = {
    "bin/kafka-server-start.sh": f'echo $$ > kafka.pid; exec {SCRIPT} tool {takeover.KAFKA} kafka.Kafka "$@"',
    "path/pgrep": 'test "$*" = "-f kafka.Kafka config/server.properties" && cat kafka.pid',
    "path/ottla": f'exec {sys.executable} -m ottla "$@"',
}
SETTINGS = {
    **takeover.SETTINGS,
    "broker.id": 1,
    "log.cleaner.dedupe.buffer.size": 16 << 20,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}


class Machine:
    """A folder with Kafka as it is unpacked, and one broker after the other."""

    def __init__(self, folder: Path, zookeeper: str) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self._zookeeper = zookeeper
        self._broker: Server | None = None
        self._typed = 0
        for name, text in SCRIPTS.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/usr/bin/env bash\n{text}\n")
            path.chmod(0o755)
        place = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": self.data,
            "zookeeper.connect": zookeeper,
        }
        (folder / "config").mkdir()
        (folder / "config" / "server.properties").write_text(
            "".join(f"{name}={value}\n" for name, value in {**SETTINGS, **place}.items())
        )

    def type(self, step: str) -> None:
        """Types a block, whose last line is a broker that stays, and waits until that serves."""
        *lines, last = step.replace(ZOOKEEPER, self._zookeeper).replace(DATA, str(self.data)).splitlines()
        self._typed += 1
        script = self.folder / f"typed-{self._typed}.sh"
        script.write_text("\n".join(["set -eu", f"cd {self.folder}", *lines, f"exec {last}", ""]))
        path = f"{self.folder / 'path'}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        before, self._broker = self._broker, None
        self._broker = Server(
            script.stem,
            ["bash", str(script)],
            script.with_suffix(".log"),
            environment={**environment(512), "PATH": path},
        )
        try:
            if before is not None:
                before.process.wait(PATIENCE_S)
            self._broker.wait_until(lambda: has_controller(self.port))
        finally:
            if before is not None:
                before.kill()

    def stop(self) -> None:
        """As Ctrl-C or a service manager would."""
        assert self._broker is not None
        assert self._broker.signal_and_wait(signal.SIGTERM) in (0, 128 + signal.SIGTERM)

    def close(self) -> None:
        if self._broker is not None:
            self._broker.kill()


@pytest.fixture
def machine(tmp_path: Path, zookeeper: str) -> Iterator[Machine]:
    need_java()
    fetch(takeover.KAFKA)
    machine = Machine(tmp_path, zookeeper)
    yield machine
    machine.close()


@pytest.fixture
def life(machine: Machine) -> Iterator[Life]:
    life = Life(f"127.0.0.1:{machine.port}", seed=31, bulk_bytes=2 << 20)
    yield life
    life.close()


def counts(records: list[tuple[int, int, str]]) -> list[int]:
    return [count for count, _, _ in records]


@pytest.mark.judge
def test_the_steps_of_the_page(machine: Machine, life: Life, test_data: Path) -> None:
    kept = block("sh", "done\nottla serve --config", "docs/operations.md")
    copied = block("sh", "ottla tree import", "docs/operations.md")
    back = block("sh", "ottla tree export", "docs/operations.md")
    assert back.splitlines()[-1] == START
    machine.type(START)
    life.fill()
    life.produce_lines("requests", 3, test_data / "web_access.log")
    life.compact(lambda topic, index: takeover.is_cleaned([machine.data], topic, index))
    before = life.expected()
    requests, payments = (life.records(*topic, "read_committed") for topic in (("requests", 3), ("payments", 2)))
    assert sum(counts(requests)) == 10_000

    machine.type(kept)
    assert life.records("requests", 3, "read_committed") == requests
    machine.stop()
    machine.type(START)

    machine.type(copied)
    assert life.seen() == before
    assert life.records("requests", 3, "read_committed") == requests
    life.commit(2000)
    machine.stop()

    machine.type(back)
    # Who was there before all this goes on: the member in its generation, the producer in its transaction.
    life.commit(3000)
    life.end_transaction()
    committed = sum(counts(payments)) + takeover.LEFT_OPEN + takeover.BEHIND_IT
    # The end of a transaction is answered before its markers are written.
    eventually(
        "the transaction is committed",
        lambda: sum(counts(life.records("payments", 2, "read_committed"))) == committed,
    )
    after = life.seen()
    assert life.records("requests", 3, "read_committed") == requests
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"offsets warehouse", "payments read_committed", "payments read_uncommitted"}
    assert after["offsets warehouse"] == [("bulk", partition, 3000, "at 3000") for partition in range(3)]
    assert life.rebalances == ["assigned 3"]
