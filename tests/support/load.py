"""Numbers that are written and read while something happens to a cluster: each must be there once, and in order."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError

from tests.support.waiting import PATIENCE_S, eventually

#: So many records are acknowledged, and as many are read, after each step before the next one.
BETWEEN_STEPS = 200
#: What a consumer may not be told.
FAULTS = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
)


class Load:
    """Writes numbers to the partitions of a topic in turn, and reads them in a group, until it ends. The numbers that
    were acknowledged and those that were read are kept by partition, in order. `settings` are librdkafka's.
    """

    def __init__(self, settings: dict[str, Any], *, topic: str, group: str, partitions: int) -> None:
        self._topic, self._group, self._partitions = topic, group, partitions
        self.acknowledged: dict[int, list[int]] = defaultdict(list)
        self.read: dict[int, list[int]] = defaultdict(list)
        #: Of the numbers that were read: one that comes twice was read again, or written again.
        self._offsets: dict[int, list[int]] = defaultdict(list)
        self._assignments: list[dict[int, int]] = []
        self.faults: list[object] = []
        self._next = 0
        self._begin(settings)

    def _begin(self, settings: dict[str, Any]) -> None:
        quick = {"retry.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0, **settings}
        self._stopping, self._written = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._kept, args=(work, quick), daemon=True) for work in (self._write, self._follow)
        ]
        for thread in self._threads:
            thread.start()

    def _kept(self, work: Any, settings: dict[str, Any]) -> None:
        try:
            work(settings)
        except BaseException as error:
            self.faults.append(error)

    def _write(self, settings: dict[str, Any]) -> None:
        producer = confluent_kafka.Producer({"enable.idempotence": True, "acks": "all", "linger.ms": 5, **settings})
        while not self._stopping.is_set() and not self.faults:
            if len(producer) < 50:
                self._send(producer)
            producer.poll(0.001)
        assert producer.flush(PATIENCE_S) == 0
        self._written.set()

    def _send(self, producer: confluent_kafka.Producer) -> None:
        number, self._next = self._next, self._next + 1

        def told(error: KafkaError | None, message: confluent_kafka.Message) -> None:
            if error is None:
                self.acknowledged[number % self._partitions].append(number)
            else:
                self.faults.append((number, error))

        partition = number % self._partitions
        producer.produce(self._topic, str(number).encode(), partition=partition, on_delivery=told)

    def _follow(self, settings: dict[str, Any]) -> None:
        consumer = confluent_kafka.Consumer(
            {
                "group.id": self._group,
                # An offset that is out of range, or whose record is gone, is told and not passed over.
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 20,
                **settings,
            }
        )
        consumer.subscribe([self._topic], on_assign=self._assigned)
        while not self.faults and not (self._written.is_set() and self.is_read()):
            for message in consumer.consume(500, 0.05):
                self._take(message)
        consumer.commit(asynchronous=False)
        consumer.close()

    def _assigned(self, consumer: confluent_kafka.Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        """The first consumer begins at the beginning, and others where the one before has committed."""
        if not self._offsets:
            for each in partitions:
                each.offset = confluent_kafka.OFFSET_BEGINNING
        consumer.assign(partitions)
        self._assignments.append({each.partition: each.offset for each in partitions})

    def _take(self, message: confluent_kafka.Message) -> None:
        error, value = message.error(), message.value()
        if error is None:
            assert value is not None
            partition = message.partition() or 0
            self.read[partition].append(int(value))
            self._offsets[partition].append(message.offset() or 0)
        elif error.code() in FAULTS:
            self.faults.append((error, message.partition(), message.offset()))

    def is_read(self) -> bool:
        return sum(map(len, self.read.values())) >= sum(map(len, self.acknowledged.values()))

    def goes_on(self) -> None:
        """Waits until so much was acknowledged and read that was not before."""

        def counts() -> tuple[int, ...]:
            return tuple(sum(map(len, kept.values())) for kept in (self.acknowledged, self.read))

        wanted = [count + BETWEEN_STEPS for count in counts()]
        eventually(
            "records are acknowledged and read",
            lambda: self.faults or all(count >= least for count, least in zip(counts(), wanted, strict=True)),
            facts=lambda: (counts(), wanted, self.faults),
        )
        assert self.faults == []

    def end(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), (self.faults, sum(map(len, self.read.values())), self._next)
        assert self.faults == []

    def is_whole(self) -> None:
        """Each record was acknowledged, and is there once and in order."""
        count = self._partitions
        assert self.acknowledged == {each: list(range(each, self._next, count)) for each in range(count)}
        for each in range(count):
            assert self.read[each] == self.acknowledged[each], self._where(each)

    def _where(self, partition: int) -> str:
        """Where what was read differs first from what was acknowledged, with what stands there and its offsets."""
        found, wanted = self.read[partition], self.acknowledged[partition]
        pairs = enumerate(zip(found, wanted, strict=False))
        at = next((at for at, (one, other) in pairs if one != other), min(len(found), len(wanted)))
        near = slice(max(0, at - 2), at + 3)
        rows = [*zip(self._offsets[partition][near], found[near], strict=True)]
        where = f"partition {partition}, at {at} of {len(found)}: {rows} instead of {wanted[near]} of {len(wanted)}"
        return f"{where}; it was assigned {self._assignments}"

    def move(self, settings: dict[str, Any]) -> None:
        """Goes on with clients that have other settings."""
        self.end()
        self._begin(settings)
