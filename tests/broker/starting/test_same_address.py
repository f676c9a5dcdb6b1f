"""Two brokers cannot advertise one address: clients and the controller would reach one of them under both ids."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from ottla.coordination.znodes import BrokerRegistration, Endpoint
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.support.client import connect
from tests.support.settings import alter
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.zookeeper

INVALID_REQUEST = 42
#: `ottla`, where another's session is not waited for as long.
IMPATIENT = """
from ottla.controller.registration import Registration
Registration.register.__kwdefaults__["wait_ms"] = 100
from ottla.cli.main import main
main()
"""


@contextmanager
def registered(zookeeper: str, broker_id: int, host: str, port: int) -> Iterator[None]:
    """Another broker is registered in this block: only its node."""
    client = KazooClient(zookeeper)
    client.start()
    data = BrokerRegistration((Endpoint("PLAINTEXT", host, port),)).encode()
    client.create(f"/brokers/ids/{broker_id}", data, ephemeral=True, makepath=True)
    try:
        yield
    finally:
        client.stop()
        client.close()


def test_the_second_to_start_is_refused_in_one_line(zookeeper: str, brokers: Brokers, tmp_path: Path) -> None:
    first = brokers(zookeeper=zookeeper, broker_id=1)
    command = [sys.executable, "-c", IMPATIENT, "serve", "--id", "2", "--zookeeper", zookeeper]
    command += ["--data-dir", str(tmp_path / "second"), "--listen", "127.0.0.1:0", "--log-level", "error"]
    command += ["--set", f"advertised.listeners=PLAINTEXT://{first.bootstrap}"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert second.returncode == 1
    assert second.stdout == ""
    (line,) = second.stderr.splitlines()
    for words in ("cannot start the broker", "broker 1", f"PLAINTEXT://{first.bootstrap}", "advertised.listeners"):
        assert words in line
    with connect(first) as client:
        client.create("t")


def test_a_change_to_anothers_address_is_refused(zookeeper: str, brokers: Brokers) -> None:
    first = brokers(zookeeper=zookeeper, broker_id=1)
    port = free_port()
    with registered(zookeeper, 2, "127.0.0.1", port), connect(first) as client:
        code, message = alter(client, "advertised.listeners", f"PLAINTEXT://127.0.0.1:{port}", broker="1")
        assert code == INVALID_REQUEST
        assert f"broker 2 advertises PLAINTEXT://127.0.0.1:{port}" in (message or "")
        assert alter(client, "log.retention.ms", "1000000", broker="1") == (0, None)
    with connect(first) as client:
        assert alter(client, "advertised.listeners", f"PLAINTEXT://127.0.0.1:{port}", broker="1") == (0, None)


def test_a_change_past_the_check_has_no_effect(zookeeper: str, brokers: Brokers) -> None:
    """Kafka's tools write it to ZooKeeper."""
    first = brokers(zookeeper=zookeeper, broker_id=1)
    client = KazooClient(zookeeper)
    client.start()
    with registered(zookeeper, 2, "elsewhere.example", 9092):
        before, _ = client.get("/brokers/ids/1")
        change = b'{"version":1,"config":{"advertised.listeners":"PLAINTEXT://elsewhere.example:9092"}}'
        client.create("/config/brokers/1", change, makepath=True)
        client.create("/config/changes/config_change_", b'{"version":2,"entity_path":"brokers/1"}', sequence=True)
        said = "has no effect, for an address is another's: broker 2 advertises PLAINTEXT://elsewhere.example:9092"
        eventually("a line", lambda: said in first.output(), facts=first.output)
        assert client.get("/brokers/ids/1")[0] == before
    client.stop()
    client.close()
