"""AlterReplicaLogDirs while the broker serves: nobody loses or sees twice anything, and a restart goes on."""

import threading
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.peers.ottla import Brokers
from tests.support.client import batch, connect, values
from tests.support.directories import described
from tests.support.moves import move, places, throttle
from tests.support.waiting import PATIENCE_S, eventually


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
            | {"message.timeout.ms": 60_000, "max.in.flight.requests.per.connection": 5}
        )
        while not stop.is_set() or sent < 2000:
            key = str(sent).encode()
            producer.produce("t", key, partition=0, on_delivery=lambda error, _: error and problems.append(error))
            sent += 1
            while len(producer) > 500:
                producer.poll(0.01)
        assert producer.flush(PATIENCE_S) == 0

    with connect(broker) as client:
        client.create("t", 1)
        thread = threading.Thread(target=produce, daemon=True)
        thread.start()
        try:
            for path in (b, a, b):
                eventually("load", lambda: client.fetch("t").responses[0].partition_responses[0].high_watermark > 0)
                assert move(client, "t", 0, path) == 0
                eventually("the move", lambda path=path: places(client, "t") == {(0, False): str(path)})  # type: ignore[misc]
        finally:
            stop.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert problems == []
        assert not list(a.glob("t-0"))
        assert len(list(a.glob("t-0.*-delete"))) == 2
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
    received = [record.value() for record in consumer.consume(sent, timeout=PATIENCE_S)]
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
        eventually("the copy", lambda: places(client, "t") == {(0, False): str(a), (0, True): str(b)})
        (copy,) = (part for part in described(client)[str(b)].topics[0].partitions)
        assert 0 < copy.offset_lag <= 20
        # Another goal: the first is given up. Its own directory: all is.
        assert move(client, "t", 0, c) == 0
        assert places(client, "t") == {(0, False): str(a), (0, True): str(c)}
        assert move(client, "t", 0, a) == 0
        assert places(client, "t") == {(0, False): str(a)}
        assert move(client, "t", 0, b) == 0
        eventually("a part of it", lambda: described(client)[str(b)].topics[0].partitions[0].partition_size > 0)
    broker.kill()
    broker = brokers.restart(broker, arguments=arguments)
    with connect(broker) as client:
        assert places(client, "t") == {(0, False): str(a), (0, True): str(b)}
        throttle(client, 1 << 40)
        eventually("the end of the move", lambda: places(client, "t") == {(0, False): str(b)})
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
        eventually("the failure", lambda: described(client)[str(b)].error_code == 56)
        assert move(client, "t", 0, b) == 56
