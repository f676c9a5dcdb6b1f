"""Records that were acknowledged with acks=1 are there after a kill of the broker: they were written before, leases or
not.
"""

import random
import threading
from collections import defaultdict

import confluent_kafka as ck

from tests.faults.broker.load import CLIENT, offset_of
from tests.peers.ottla import Broker, Brokers
from tests.support.client import connect
from tests.support.waiting import PATIENCE_S, eventually

KILLS = 5
PARTITIONS = 3


class Writer(threading.Thread):
    """Sends each record once, with acks=1; `acknowledged` says where each is that was answered."""

    def __init__(self, bootstrap: str, number: int) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.number = number
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        # A record that is sent again may be there twice, and then one of them is not where it was said to be.
        once = {"acks": 1, "retries": 0, "linger.ms": 0, "message.timeout.ms": 60_000}
        self.producer = ck.Producer({"bootstrap.servers": bootstrap, **CLIENT, **once})

    def run(self) -> None:
        count = 0
        while not self.stop.is_set():
            for _ in range(20):
                count += 1
                self.send(b"%d of %d" % (count, self.number), count % PARTITIONS)
            self.producer.poll(0.002)
        self.producer.flush(PATIENCE_S)

    def send(self, value: bytes, partition: int) -> None:
        def delivered(error: object, message: ck.Message) -> None:
            if error is None and (offset := offset_of(message)) is not None:
                assert self.acknowledged.setdefault((partition, offset), value) == value

        self.producer.produce("t", value, partition=partition, on_delivery=delivered)


def test_what_was_acknowledged_survives_kills(brokers: Brokers) -> None:
    chance = random.Random(5)
    broker = brokers()
    with connect(broker) as client:
        client.create("t", PARTITIONS)
    writers = [Writer(broker.bootstrap, number) for number in range(3)]
    for writer in writers:
        writer.start()
    for _ in range(KILLS):
        known = [len(writer.acknowledged) for writer in writers]
        more = chance.randrange(300, 1500)
        broker.wait_until(
            lambda known=known, more=more: all(
                len(writer.acknowledged) > count + more for writer, count in zip(writers, known, strict=True)
            )
        )
        broker.kill()
        broker = brokers.restart(broker)
    for writer in writers:
        writer.stop.set()
    for writer in writers:
        writer.join(120)
        assert not writer.is_alive()
    stored = read(broker)
    for writer in writers:
        lost = {place: value for place, value in writer.acknowledged.items() if stored.get(place) != value}
        assert lost == {}
    assert len(stored) == sum(1 + max(offsets) for offsets in by_partition(stored).values()), "offsets have no gaps"


def read(broker: Broker) -> dict[tuple[int, int], bytes | None]:
    options = {"group.id": "reader", "enable.partition.eof": True, "auto.offset.reset": "earliest"}
    consumer = ck.Consumer({"bootstrap.servers": broker.bootstrap, **CLIENT, **options})
    consumer.assign([ck.TopicPartition("t", partition, 0) for partition in range(PARTITIONS)])
    stored: dict[tuple[int, int], bytes | None] = {}
    ended: set[int] = set()

    def is_read() -> bool:
        for message in consumer.consume(1000, 1.0):
            if message.error() is None:
                stored[message.partition(), message.offset()] = message.value()
            else:
                assert message.error().code() == ck.KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
        return len(ended) == PARTITIONS

    eventually("the end of each partition", is_read, 120, lambda: ended)
    consumer.close()
    return stored


def by_partition(stored: dict[tuple[int, int], bytes | None]) -> dict[int, list[int]]:
    offsets: dict[int, list[int]] = defaultdict(list)
    for partition, offset in stored:
        offsets[partition].append(offset)
    return offsets
