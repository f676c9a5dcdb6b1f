"""Groups beside Kafka's own: its tools of three releases, its formatters, and one group on two kinds of broker."""

import re
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.matrix import KAFKAS
from tests.peers.apache import Apache, Kafka, tool
from tests.peers.ottla import Broker, Brokers
from tests.support.lanes import judged_by
from tests.support.waiting import PATIENCE_S, eventually

TOPIC = "orders"
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
FORMATTERS = {
    "2.7.2": "kafka.coordinator.group.GroupMetadataManager$",
    "3.9.2": "kafka.coordinator.group.GroupMetadataManager$",
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Brokers(tmp_path_factory.mktemp("groups")) as brokers:
        broker = brokers(settings=SETTINGS)
        fill(broker, 30)
        yield broker
        assert "Traceback" not in broker.output()


def fill(broker: Broker | Kafka, count: int, first: int = 0) -> None:
    """`count` records over three partitions, in turns."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    if not first:
        admin.create_topics([NewTopic(TOPIC, 3, 1)], operation_timeout=PATIENCE_S)[TOPIC].result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(first, first + count):
        producer.produce(TOPIC, b"%d" % number, partition=number % 3)
    assert producer.flush(PATIENCE_S) == 0


def consumer(broker: Broker | Kafka, group: str, **settings: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **settings,
        }
    )


def read(broker: Broker | Kafka, group: str, count: int) -> list[int]:
    """The values that a member of the group reads next, and commits."""
    own = consumer(broker, group)
    own.subscribe([TOPIC])
    seen: list[int] = []

    def has_read() -> bool:
        for message in own.consume(count - len(seen), 0.1):
            assert message.error() is None, message.error()
            seen.append(int(message.value() or b""))
        return len(seen) == count

    eventually(f"{count} records", has_read, facts=lambda: seen)
    own.commit(asynchronous=False)
    own.close()
    return sorted(seen)


def committed(broker: Broker | Kafka, group: str) -> list[int]:
    own = consumer(broker, group)
    places = own.committed([TopicPartition(TOPIC, number) for number in range(3)], 30)
    own.close()
    return [place.offset for place in places]


def groups_tool(version: str, broker: Broker | Kafka, *arguments: str) -> str:
    return tool(version, "consumer-groups", "--bootstrap-server", broker.bootstrap, *arguments)


@pytest.mark.java
@pytest.mark.parametrize("version", judged_by(KAFKAS, KAFKAS[-1:]))
@pytest.mark.judge
def test_kafkas_tool_lists_describes_resets_and_deletes(shared: Broker, version: str) -> None:
    group = f"tool-{version}"
    assert len(read(shared, group, 30)) == 30
    assert group in groups_tool(version, shared, "--list").split()
    described = groups_tool(version, shared, "--describe", "--group", group)
    rows = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert sorted(row[1:6] for row in rows) == [[TOPIC, str(number), "10", "10", "0"] for number in range(3)], described
    state = groups_tool(version, shared, "--describe", "--group", group, "--state")
    assert re.search(r"\bEmpty\b\s+0", state), state
    member = consumer(shared, group, **{"client.id": "reader"})
    member.subscribe([TOPIC])

    def is_assigned() -> bool:
        member.poll(0.05)
        return len(member.assignment()) == 3

    eventually("an assignment", is_assigned)
    members = groups_tool(version, shared, "--describe", "--group", group, "--members", "--verbose")
    assert re.search(r"\breader-\S+ +/127.0.0.1 +reader +3 .*\b0,1,2\b", members), members
    member.close()
    reset = ("--reset-offsets", "--group", group, "--topic", TOPIC, "--to-offset", "4", "--execute")
    groups_tool(version, shared, *reset)
    assert committed(shared, group) == [4, 4, 4]
    groups_tool(version, shared, "--delete-offsets", "--group", group, "--topic", f"{TOPIC}:1")
    assert committed(shared, group) == [4, -1001, 4]
    groups_tool(version, shared, "--delete", "--group", group)
    assert group not in groups_tool(version, shared, "--list").split()


@pytest.mark.java
@pytest.mark.parametrize("version", judged_by(KAFKAS, [KAFKAS[0], KAFKAS[-1]]))
def test_the_console_consumer_in_a_group(shared: Broker, version: str) -> None:
    """Twelve lines, then the rest by a second process of the same group."""
    group = f"console-{version}"
    common = ("--bootstrap-server", shared.bootstrap, "--topic", TOPIC, "--group", group, "--from-beginning")
    first = tool(version, "console-consumer", *common, "--max-messages", "12").split()
    second = tool(version, "console-consumer", *common, "--max-messages", "18").split()
    assert sorted(map(int, first + second)) == list(range(30))
    assert committed(shared, group) == [10, 10, 10]


@pytest.mark.java
@pytest.mark.parametrize("version", judged_by(FORMATTERS, [max(FORMATTERS)]))
def test_kafkas_formatters_print_our_records(brokers: Brokers, version: str) -> None:
    broker = brokers(settings=SETTINGS)
    fill(broker, 30)
    read(broker, "shown", 30)

    def printed(kind: str) -> str:
        arguments = ("--bootstrap-server", broker.bootstrap, "--topic", "__consumer_offsets", "--from-beginning")
        formatter = ("--formatter", f"{FORMATTERS[version]}{kind}MessageFormatter", "--timeout-ms", "5000")
        settings = ("--consumer-property", "exclude.internal.topics=false")
        return tool(version, "console-consumer", *arguments, *formatter, *settings)

    offsets = printed("Offsets")
    for partition in range(3):
        shown = rf"\[shown,{TOPIC},{partition}\]::OffsetAndMetadata\(offset=10, .*commitTimestamp=\d+"
        assert re.search(shown, offsets), offsets
    metadata = printed("GroupMetadata")
    shown = r"shown::GroupMetadata\(groupId=shown, generation=1, protocolType=Some\(consumer\)"
    assert re.search(shown, metadata), metadata
    assert "currentState=Stable" in metadata
    assert "currentState=Empty" in metadata


@pytest.mark.clients
def test_members_outlive_their_coordinator(brokers: Brokers) -> None:
    """It is stopped, and killed, while a member reads: that goes on where it was, in the same generation."""
    broker = brokers(settings=SETTINGS)
    fill(broker, 30)
    member = consumer(broker, "outlives", **{"reconnect.backoff.max.ms": 200, "heartbeat.interval.ms": 200})
    rebalances = 0

    def assigned(_: Consumer, places: list[TopicPartition]) -> None:
        nonlocal rebalances
        rebalances += 1

    member.subscribe([TOPIC], on_assign=assigned)
    seen: list[int] = []

    def read_all(count: int) -> None:
        def has_read() -> bool:
            for message in member.consume(count - len(seen), 0.1):
                if message.error() is None:
                    seen.append(int(message.value() or b""))
            return len(seen) >= count

        eventually(f"{count} records", has_read, facts=lambda: seen)
        member.commit(asynchronous=False)

    read_all(30)
    for turn in (1, 2):
        if turn == 1:
            broker.stop()
        else:
            broker.kill()
        broker = brokers.restart(broker, settings=SETTINGS)
        fill(broker, 30, first=30 * turn)
        read_all(30 * (turn + 1))
    assert sorted(seen) == list(range(90))
    assert rebalances == 1
    assert committed(broker, "outlives") == [30, 30, 30]
    member.close()


@pytest.mark.java
@pytest.mark.zookeeper
def test_a_group_goes_on_at_kafka_and_back(brokers: Brokers, kafka: Apache, zookeeper: str) -> None:
    """One directory, one tree, one broker after the other: each reads the groups that the other wrote."""
    data = kafka.directory / "data"
    small = {**SETTINGS, "zookeeper.session.timeout.ms": 4000}

    def ours() -> Broker:
        return brokers(broker_id=1, zookeeper=zookeeper, data=data, settings=small)

    def theirs() -> Kafka:
        return kafka.broker("2.7.2", zookeeper=zookeeper, settings={**small, "log.dirs": data})

    broker: Broker | Kafka = theirs()
    fill(broker, 30)
    seen = read(broker, "moves", 9)
    first = committed(broker, "moves")
    alone = consumer(broker, "alone")
    alone.commit(offsets=[TopicPartition(TOPIC, 1, 7, "kept by Kafka")], asynchronous=False)
    alone.close()
    broker.stop()

    broker = ours()
    assert committed(broker, "moves") == first
    own = consumer(broker, "alone")
    (place,) = own.committed([TopicPartition(TOPIC, 1)], 30)
    own.close()
    assert (place.offset, place.metadata) == (7, "kept by Kafka")
    assert sorted(seen + read(broker, "moves", 21)) == list(range(30))
    assert committed(broker, "moves") == [10, 10, 10]
    fill(broker, 30, first=30)
    seen = read(broker, "moves", 12)
    second = committed(broker, "moves")
    groups_tool("2.7.2", broker, "--delete", "--group", "alone")
    broker.stop()

    broker = theirs()
    assert committed(broker, "moves") == second
    assert committed(broker, "alone") == [-1001, -1001, -1001], "what we deleted stays deleted"
    described = groups_tool("2.7.2", broker, "--describe", "--group", "moves", "--state")
    assert re.search(r"\bEmpty\b\s+0", described), described
    assert sorted(seen + read(broker, "moves", 18)) == list(range(30, 60))
    assert committed(broker, "moves") == [20, 20, 20]
