"""A topic that is made, written, read and deleted again and again under one name, while its brokers come and go."""

import contextlib
from collections.abc import Callable
from typing import Any

import confluent_kafka as ck
from confluent_kafka import admin

from tests.faults.broker.load import CALL_S, CLIENT, PARTITIONS, Client
from tests.support.waiting import eventually

#: A deletion waits for replicas whose broker is away.
LIFE_S = 180.0
TAKEN, GONE = ck.KafkaError.TOPIC_ALREADY_EXISTS, ck.KafkaError.UNKNOWN_TOPIC_OR_PART
PAUSE_S = 1.0


class Lives(Client):
    """Nothing of a former life of the topic is read, and what was acknowledged in this one is there. `lives` counts
    those that are over.
    """

    def __init__(self, name: str, bootstrap: str, seed: int, *, prefix: str = "") -> None:
        super().__init__(name, bootstrap, seed, prefix=prefix)
        self.topic = f"{prefix}{name}"
        self.lives = 0
        self.met: list[str] = []

    def live(self) -> None:
        self.admin = admin.AdminClient({"bootstrap.servers": self.bootstrap, **CLIENT})
        while not self.stop.wait(PAUSE_S):
            self._patiently("made", self._make, {TAKEN})
            acknowledged, sent = self._write()
            found = self._read()
            assert acknowledged <= {*found} <= sent, (self.lives, acknowledged - {*found}, {*found} - sent)
            assert len({*found}) == len(found), f"twice in life {self.lives}: {found}"
            self._patiently("deleted", self._delete, {GONE})
            self.lives += 1

    def _make(self) -> Any:
        return self.admin.create_topics([admin.NewTopic(self.topic, PARTITIONS, 3)], operation_timeout=5)

    def _delete(self) -> Any:
        return self.admin.delete_topics([self.topic], operation_timeout=5)

    def _patiently(self, what: str, ask: Callable[[], Any], done: set[int]) -> None:
        """Asks until it is done. What an earlier question brought about, whose answer was lost, is done too; so a topic
        that is there still may be one whose deletion was answered. It is not: a deletion is answered when all is gone.
        """

        def told() -> bool:
            try:
                ask()[self.topic].result(CALL_S)
            except (ck.KafkaException, TimeoutError) as problem:
                self.met.append(f"{what} in life {self.lives}: {problem}")
                return isinstance(problem, ck.KafkaException) and problem.args[0].code() in done
            return True

        eventually(f"{self.topic} is {what}", told, LIFE_S, facts=lambda: self.met[-5:])

    def _write(self) -> tuple[set[bytes], set[bytes]]:
        acknowledged: set[bytes] = set()
        sent: set[bytes] = set()
        producer = self.producer(**{"message.timeout.ms": 60_000})
        for number in range(self.chance.randrange(2, 30)):
            value = b"%d of life %d" % (number, self.lives)
            sent.add(value)

            def delivered(error: Any, _: Any, value: bytes = value) -> None:
                if error is None:
                    acknowledged.add(value)
                else:
                    self.met.append(f"written in life {self.lives}: {error}")

            producer.produce(self.topic, value, partition=number % PARTITIONS, on_delivery=delivered)
        assert producer.flush(90) == 0
        return acknowledged, sent

    def _read(self) -> list[bytes]:
        """All that is there: up to the high watermarks, which the acknowledged are below."""
        found: list[bytes] = []
        consumer = self.consumer(**{"group.id": f"{self.topic}-{self.lives}"})
        places = [ck.TopicPartition(self.topic, index, 0) for index in range(PARTITIONS)]
        ends: dict[int, int] = {}
        with contextlib.closing(consumer):

            def known() -> bool:
                for place in places:
                    with contextlib.suppress(ck.KafkaException):
                        ends[place.partition] = consumer.get_watermark_offsets(place, 10.0)[1]
                return len(ends) == PARTITIONS

            eventually(f"{self.topic} has ends", known, LIFE_S, facts=lambda: (ends, self.met[-5:]))
            consumer.assign(places)

            def at_the_end() -> bool:
                found.extend(message.value() for message in self.consumed(consumer))
                return all(place.offset >= ends[place.partition] for place in consumer.position(places))

            at_once = not any(ends.values())
            eventually(f"{self.topic} is read", lambda: at_once or at_the_end(), LIFE_S, facts=lambda: (ends, found))
        return found
