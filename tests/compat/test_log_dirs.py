"""Several log directories, and settings of running brokers, judged by Kafka's own tools, brokers and controller."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.apache import Apache, tool
from tests.peers.ottla import Broker, Brokers
from tests.support.client import batch, connect, values
from tests.support.directories import produced_acks_1
from tests.support.kafka_on_our_disk import MIGRATION
from tests.support.lanes import judged_by
from tests.support.moves import move, places, throttle
from tests.support.waiting import eventually

pytestmark = [pytest.mark.java]
TOOLS = ("2.7.2", "3.9.2")


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("log-dirs")
    return [folder / name for name in "abc"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, directories: list[Path]) -> Iterator[Broker]:
    with Brokers(tmp_path_factory.mktemp("brokers")) as brokers:
        yield brokers(arguments=("--data-dir", ",".join(map(str, directories))))


@pytest.mark.parametrize("version", judged_by(TOOLS, TOOLS[:1]))
def test_log_dirs_and_reassign_partitions(
    broker: Broker, directories: list[Path], tmp_path: Path, version: str
) -> None:
    server, topic = ["--bootstrap-server", broker.bootstrap], f"t-{version}"
    with connect(broker) as client:
        client.create(topic, 2)
        for partition in range(2):
            for _ in range(5):
                client.produce(topic, batch(b"x" * 1000), partition=partition)
        before = places(client, topic)
        goals = [next(str(path) for path in directories if str(path) != before[index, False]) for index in range(2)]
        rows = [
            {"topic": topic, "partition": index, "replicas": [broker.id], "log_dirs": [goals[index]]}
            for index in range(2)
        ]
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": rows}))
        reassign = [*server, "--reassignment-json-file", str(plan)]
        printed = tool(version, "reassign-partitions", *reassign, "--execute")
        assert printed.count("tarted moving log directory") == 2 or "started log directory moves for:" in printed
        moved = {(index, False): goals[index] for index in range(2)}
        eventually("the move", lambda: places(client, topic) == moved)
        assert "completed successfully" in tool(version, "reassign-partitions", *reassign, "--verify")
        assert len(values(client.fetch(topic, 4, partition=1))) == 1
    described = tool(version, "log-dirs", *server, "--describe", "--topic-list", topic)
    (line,) = [line for line in described.splitlines() if line.startswith("{")]
    (row,) = json.loads(line)["brokers"]
    seen = {
        (int(part["partition"].rpartition("-")[2]), part["isFuture"]): entry["logDir"]
        for entry in row["logDirs"]
        for part in entry["partitions"]
    }
    assert seen == moved
    assert {entry["error"] for entry in row["logDirs"]} == {None}
    assert all(part["size"] > 5000 for entry in row["logDirs"] for part in entry["partitions"])


@pytest.mark.parametrize("version", judged_by(TOOLS, TOOLS[:1]))
@pytest.mark.judge
def test_configs_of_brokers_and_log_levels(broker: Broker, version: str) -> None:
    server, own = ["--bootstrap-server", broker.bootstrap], str(broker.id)

    def configs(*arguments: str, check: bool = True) -> str:
        return tool(version, "configs", *server, *arguments, check=check)

    every, one = ("--entity-type", "brokers", "--entity-default"), ("--entity-type", "brokers", "--entity-name", own)
    levels = ("--entity-type", "broker-loggers", "--entity-name", own)
    configs(*every, "--alter", "--add-config", "message.max.bytes=3000,log.retention.ms=7200000")
    configs(*one, "--alter", "--add-config", "message.max.bytes=4000")
    seen = configs(*one, "--describe")
    assert "message.max.bytes=4000" in seen
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=3000" in seen
    assert "log.retention.ms=7200000" in configs(*every, "--describe")
    configs(*one, "--alter", "--delete-config", "message.max.bytes")
    assert "message.max.bytes" not in configs(*one, "--describe").replace("DEFAULT_BROKER_CONFIG:message.max", "")
    refused = configs(*every, "--alter", "--add-config", "num.io.threads=100", check=False)
    assert "Completed updating" not in refused
    configs(*every, "--alter", "--delete-config", "message.max.bytes,log.retention.ms")

    configs(*levels, "--alter", "--add-config", "ottla.requests=DEBUG")
    assert "ottla.requests=DEBUG" in configs(*levels, "--describe")
    configs(*levels, "--alter", "--delete-config", "ottla.requests")
    assert "ottla.requests=INFO" in configs(*levels, "--describe")


@pytest.mark.zookeeper
@pytest.mark.parametrize("version", judged_by(TOOLS, TOOLS[:1]))
def test_a_half_done_move_goes_on_in_the_other_broker(
    brokers: Brokers, kafka: Apache, zookeeper: str, tmp_path: Path, version: str
) -> None:
    """Ours begins, Kafka ends; Kafka begins, ours ends. Each is killed while the move is throttled."""
    a, b = tmp_path / "a", tmp_path / "b"
    ends = {"zookeeper.session.timeout.ms": 4000}
    ours = brokers(broker_id=1, zookeeper=zookeeper, settings=ends, arguments=("--data-dir", f"{a},{b}"))
    with connect(ours) as client:
        client.create("t", 1)
        for number in range(30):
            client.produce("t", batch(b"%d" % number + b"x" * 10_000))
        throttle(client, 10_000, "1")
        start, goal = (a, b) if (a / "t-0").is_dir() else (b, a)
        assert move(client, "t", 0, goal) == 0
        eventually("a part of it", lambda: any(file.stat().st_size > 0 for file in goal.glob("t-0.*-future/*.log")))
    ours.stop()
    assert not (goal / "t-0").exists()

    (tmp_path / "server").mkdir()
    # Kafka looks at its throttle between fetches only.
    settings = {"log.dirs": f"{a},{b}", "replica.fetch.max.bytes": 20_000}
    settings |= MIGRATION if version.startswith("3.") else {}
    theirs = kafka.broker(version, zookeeper=zookeeper, settings=settings)
    with connect(theirs) as client:  # type: ignore[arg-type]
        throttle(client, 1 << 40, "1")
        eventually("Kafka ends the move", lambda: places(client, "t") == {(0, False): str(goal)})
        assert [(value or b"")[:2] for value in values(client.fetch("t", 29))] == [b"29"]
        throttle(client, 1000, "1")
        assert move(client, "t", 0, start) == 0
        eventually("a part of it", lambda: any(file.stat().st_size > 0 for file in start.glob("t-0.*-future/*.log")))
    theirs.stop()
    assert not (start / "t-0").exists()

    ours = brokers(broker_id=1, zookeeper=zookeeper, settings=ends, arguments=("--data-dir", f"{a},{b}"))
    with connect(ours) as client:
        throttle(client, 1 << 40, "1")
        eventually("we end the move", lambda: places(client, "t") == {(0, False): str(start)})
        assert [(value or b"")[:2] for value in values(client.fetch("t", 29))] == [b"29"]


@pytest.mark.zookeeper
def test_kafkas_controller_hears_of_our_failing_directory(
    brokers: Brokers, kafka: Apache, zookeeper: str, tmp_path: Path
) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    theirs = kafka.broker("2.7.2", zookeeper=zookeeper, broker_id=2)
    ours = brokers(broker_id=1, zookeeper=zookeeper, arguments=("--data-dir", f"{a},{b}"))
    server = ["--bootstrap-server", theirs.bootstrap]
    tool("2.7.2", "topics", *server, "--create", "--topic", "t", "--replica-assignment", "1:2,1:2")
    with connect(ours) as client:
        eventually("both logs", lambda: len(list(a.glob("t-*")) + list(b.glob("t-*"))) == 2)
        (lost,) = [index for index in range(2) if (b / f"t-{index}").is_dir()]
        b.rename(tmp_path / "away")
        eventually("the failure", lambda: produced_acks_1(client, lost) == 56)

        def leaders() -> dict[str, str]:
            printed = tool("2.7.2", "topics", *server, "--describe", "--topic", "t")
            rows = [line.split() for line in printed.splitlines() if "Leader:" in line]
            return {row[row.index("Partition:") + 1]: row[row.index("Leader:") + 1] for row in rows}

        eventually("the move", lambda: leaders() == {str(lost): "2", str(1 - lost): "1"})
