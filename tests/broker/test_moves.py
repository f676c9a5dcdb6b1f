"""AlterReplicaLogDirs while the broker serves: nobody loses or sees twice anything, and a restart goes on."""

import threading
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.k34_alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.k44_incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.conftest import Client, batch, connect, values
from tests.broker.test_log_directories import described, until
from tests.peers.ottla import Brokers

BROKER = 4
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def move(client: Client, topic: str, partition: int, path: Path | str) -> int:
    row = AlterReplicaLogDirTopic(name=topic, partitions=[partition])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(path), topics=[row])])
    ((answer,),) = [result.partitions for result in client.call(ALTER_REPLICA_LOG_DIRS, request).results]
    return answer.error_code


def places(client: Client, topic: str) -> dict[tuple[int, bool], str]:
    """The directory of each (partition, is future)."""
    return {
        (part.partition_index, part.is_future_key): path
        for path, row in described(client).items()
        for listed in row.topics
        if listed.name == topic
        for part in listed.partitions
    }


def throttle(client: Client, rate: int, broker: str = "") -> None:
    """Returns when it holds."""
    config = AlterableConfig(name=RATE, config_operation=0, value=str(rate))
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=[config])
    answer = client.call(INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest(resources=[resource]))
    assert [row.error_code for row in answer.responses] == [0]
    described = DescribeConfigsResource(resource_type=BROKER, resource_name=broker, configuration_keys=[RATE])
    request = DescribeConfigsRequest(resources=[described])
    until(
        "the rate",
        lambda: [row.value for row in client.call(DESCRIBE_CONFIGS, request).results[0].configs] == [str(rate)],
    )


def test_replicas_move_back_and_forth_under_load(brokers: Brokers, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    broker = brokers(arguments=("--data-dir", f"{a},{b}"), settings={"log.segment.bytes": 65536})
    stop = threading.Event()
    problems: list[object] = []
    sent = 0

    def produce() -> None:
        nonlocal sent
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "batch.num.messages": 100}
            | {"message.timeout.ms": 20_000, "max.in.flight.requests.per.connection": 5}
        )
        while not stop.is_set() or sent < 2000:
            key = str(sent).encode()
            producer.produce("t", key, partition=0, on_delivery=lambda error, _: error and problems.append(error))
            sent += 1
            while len(producer) > 500:
                producer.poll(0.01)
        assert producer.flush(30) == 0

    with connect(broker) as client:
        client.create("t", 1)
        thread = threading.Thread(target=produce)
        thread.start()
        for path in (b, a, b):
            until("some load", lambda: client.fetch("t").responses[0].partition_responses[0].high_watermark > 0)
            assert move(client, "t", 0, path) == 0
            until("the move", lambda path=path: places(client, "t") == {(0, False): str(path)})  # type: ignore[misc]
        stop.set()
        thread.join()
        assert problems == []
        assert not list(a.glob("t-0"))
        assert len(list(a.glob("t-0.*-delete"))) == 2
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
    received = [record.value() for record in consumer.consume(sent, timeout=30)]
    consumer.close()
    assert received == [str(number).encode() for number in range(sent)]


def test_a_throttled_move_is_seen_goes_on_after_a_crash_and_can_be_given_up(brokers: Brokers, tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    arguments = ("--data-dir", f"{a},{b},{c}")
    broker = brokers(arguments=arguments)
    with connect(broker) as client:
        throttle(client, 10_000)
        client.create("t", 1)
        for _ in range(20):
            client.produce("t", batch(b"x" * 10_000))
        assert move(client, "t", 0, b) == 0
        until("the copy", lambda: places(client, "t") == {(0, False): str(a), (0, True): str(b)})
        (copy,) = (part for part in described(client)[str(b)].topics[0].partitions)
        assert 0 < copy.offset_lag <= 20
        # Another goal: the first is given up. Its own directory: all is.
        assert move(client, "t", 0, c) == 0
        assert places(client, "t") == {(0, False): str(a), (0, True): str(c)}
        assert move(client, "t", 0, a) == 0
        assert places(client, "t") == {(0, False): str(a)}
        assert move(client, "t", 0, b) == 0
        until("a part of it", lambda: described(client)[str(b)].topics[0].partitions[0].partition_size > 0)
    broker.kill()
    broker = brokers.restart(broker, arguments=arguments)
    with connect(broker) as client:
        assert places(client, "t") == {(0, False): str(a), (0, True): str(b)}
        throttle(client, 1 << 40)
        until("the end of the move", lambda: places(client, "t") == {(0, False): str(b)})
        assert values(client.fetch("t", 19)) == [b"x" * 10_000]


def test_what_cannot_be_moved(brokers: Brokers, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    broker = brokers(arguments=("--data-dir", f"{a},{b}"))
    with connect(broker) as client:
        client.create("t", 1)
        assert move(client, "t", 0, "/nowhere") == 57
        assert move(client, "t" * 249, 0, b) == 17
        assert move(client, "t", 0, a) == 0  # it is there
        # A partition that is not here yet: told, and remembered for when it comes.
        assert move(client, "u", 0, a) == 9
        client.create("u", 1)
        assert places(client, "u") == {(0, False): str(a)}
        b.rename(tmp_path / "away")
        client.create("v", 2)
        until("the failure", lambda: described(client)[str(b)].error_code == 56)
        assert move(client, "t", 0, b) == 56
