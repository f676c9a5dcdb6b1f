"""The work of somebody else's clients while a broker is killed, and the history of it: each client is a thread.

It runs until its `stop` is set, then finishes what it has begun; an exception in it is kept in `failure`. Records hold
unique numbers, written as text. `bootstrap` may name several brokers of a cluster: HOST:PORT,HOST:PORT. A `prefix`
gives a round topics of its own, where several share a cluster.
"""

import json
import queue
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import confluent_kafka as ck

from tests.faults.checker import Operation, Outcome, Poll, Send

PLAIN, COPIED, COMPACTED = "plain", "copied", "compacted"
PARTITIONS = 2
CALL_S = 15.0
SHIFT = 40  # bits of a value below the number of the transaction that copied it
Partition = tuple[str, int]
T = TypeVar("T")

#: The settings that librdkafka needs to come back at once instead of after seconds, and to try for as long as a run
#: lasts. It does not begin anew with its bootstrap servers when all brokers are down: it would forget them, and where
#: one of them was the coordinator of a group go on waiting for it (librdkafka 5511; the same beside Apache Kafka).
CLIENT = {
    "metadata.recovery.strategy": "none",
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "socket.timeout.ms": 10_000,
    "topic.metadata.refresh.interval.ms": 5_000,
    "log_level": 0,
    "enable.sparse.connections": False,
}
CONSUMER = {
    "enable.auto.commit": False,
    "fetch.wait.max.ms": 50,
    "fetch.error.backoff.ms": 20,
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 500,
    "auto.offset.reset": "earliest",
}
PRODUCER = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 300_000}


def persist(call: Callable[..., T], *arguments: Any) -> T:
    """Calls again while librdkafka says that calling again is right."""
    for _ in range(1000):
        try:
            return call(*arguments)
        except ck.KafkaException as error:
            if not error.args[0].retriable():
                raise
    raise AssertionError(f"{call} could be retried a thousand times")


class Stuck(Exception):
    """A call of the client library that does not come back."""


class Left(Exception):
    """A producer went without a word, and left its transaction open."""


def within(seconds: float, call: Callable[..., T], *arguments: Any) -> T:
    """The call's result, or Stuck: librdkafka's send_offsets_to_transaction waits for the group's coordinator for ever,
    whatever time limit it is given (librdkafka 5456).
    """
    results: queue.SimpleQueue[T | BaseException] = queue.SimpleQueue()

    def work() -> None:
        try:
            results.put(call(*arguments))
        except BaseException as error:
            results.put(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        result = results.get(timeout=seconds)
    except queue.Empty:
        raise Stuck(f"{call}") from None
    if isinstance(result, BaseException):
        raise result
    return result


def offset_of(message: Any) -> int | None:
    """Of a delivered record. None where librdkafka was not told: the answer was lost, and that to a later batch of the
    same producer says that the record is stored. (An exception in its callback comes as a SystemError from `poll`.)
    """
    offset: int | None = message.offset()
    return None if offset is None or offset < 0 else offset


def by_partition(messages: list[Any], *, committed: bool) -> tuple[Poll, ...]:
    rows: dict[Partition, list[tuple[int, int]]] = defaultdict(list)
    for message in messages:
        rows[message.topic(), message.partition()].append((message.offset(), int(message.value())))
    return tuple(Poll(partition, tuple(records), committed) for partition, records in rows.items())


class Client(threading.Thread):
    def __init__(self, name: str, bootstrap: str, seed: int, *, prefix: str = "") -> None:
        super().__init__(name=prefix + name, daemon=True)
        self.bootstrap = bootstrap
        self.plain, self.copied, self.compacted = (prefix + topic for topic in (PLAIN, COPIED, COMPACTED))
        self.chance = random.Random(f"{seed} {name}")
        self.stop = threading.Event()
        self.history: list[Operation] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self.live()
        except BaseException as error:
            self.failure = error

    def live(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """Tells it to stop, waits, and raises what it died of."""
        self.stop.set()
        self.join(120)
        self.check()
        assert not self.is_alive(), f"{self.name} did not come to an end"

    def check(self) -> None:
        """Raises what it died of."""
        if self.failure is not None:
            raise AssertionError(f"{self.name} failed: {self.failure!r}") from self.failure

    def producer(self, **options: object) -> ck.Producer:
        return ck.Producer({"bootstrap.servers": self.bootstrap, **CLIENT, **PRODUCER, **options})

    def transactional(self) -> ck.Producer:
        """By this client's name: whatever an earlier one of that name left open is aborted now."""
        times = {"transaction.timeout.ms": 60_000, "message.timeout.ms": 60_000}
        producer = self.producer(**{"transactional.id": self.name, **times})
        persist(producer.init_transactions, CALL_S)
        return producer

    def consumer(self, **options: object) -> ck.Consumer:
        return ck.Consumer(
            {"bootstrap.servers": self.bootstrap, **CLIENT, **CONSUMER, "group.id": self.name, **options}
        )

    def consumed(self, consumer: ck.Consumer, most: int = 500, timeout_s: float = 0.2) -> list[Any]:
        """The messages that have come. An offset that is out of range is no passing trouble, but lost data."""
        messages = consumer.consume(most, timeout_s)
        for message in messages:
            if message.error() is not None:
                self.troubled(message.error())
        return [message for message in messages if message.error() is None]

    def troubled(self, error: ck.KafkaError) -> None:
        """Raises unless the error that a consumer met is a passing one."""
        assert error.retriable() or error.code() in PASSING, error


PLACES_UNKNOWN = "Failed to fetch committed offsets"
PASSING = {
    ck.KafkaError._PARTITION_EOF,
    ck.KafkaError._TRANSPORT,
    ck.KafkaError._ALL_BROKERS_DOWN,
    ck.KafkaError._TIMED_OUT,
    ck.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    ck.KafkaError.NOT_COORDINATOR,
    ck.KafkaError.UNKNOWN_TOPIC_OR_PART,
}


class Writer(Client):
    """An idempotent producer, acks=all, to one topic; what it was told of each record, in the order of sending.

    `acknowledged` counts, for others to look at while it runs; `refused` are the errors of records that it gave up.
    """

    def __init__(
        self, name: str, bootstrap: str, seed: int, *, first: int, per_round: int, prefix: str = "", **options: object
    ) -> None:
        super().__init__(name, bootstrap, seed, prefix=prefix)
        self.next_value, self.per_round, self.options = first, per_round, options
        self.acknowledged = 0
        self.refused: list[str] = []

    def live(self) -> None:
        producer = self.producer(**self.options)
        told: list[tuple[Outcome, Send]] = []
        waiting = [0] * PARTITIONS

        def send(value: int, partition: int) -> None:
            place = len(told)
            told.append((Outcome.UNKNOWN, Send((self.plain, partition), value)))
            waiting[partition] += 1

            def delivered(error: Any, message: Any) -> None:
                waiting[partition] -= 1
                if error is None:
                    self.acknowledged += 1
                    told[place] = (Outcome.OK, Send((self.plain, partition), value, offset_of(message)))
                else:
                    self.refused.append(str(error))

            producer.produce(self.plain, str(value), partition=partition, on_delivery=delivered)

        while not self.stop.is_set():
            for _ in range(self.per_round):
                partition = self.chance.randrange(PARTITIONS)
                # With more than librdkafka may have on its way at once, a thread of its own spins for as long as a
                # partition stands still.
                if waiting[partition] < self.per_round:
                    send(self.next_value, partition)
                    self.next_value += 1
            producer.poll(0.02)
            self.stop.wait(0.02)
        left = producer.flush(90)
        self.history = [Operation(self.name, outcome, (sent,)) for outcome, sent in told]
        assert left == 0, f"{left} records were not answered 90 s after the last fault"


class Copier(Client):
    """Transactions that consume, transform and produce, some of them aborted; begins anew whenever it is thrown out.

    What it writes names the transaction too, since one that is aborted is written again: `original` takes that away.

    A producer that waits for a coordinator for ever is a failure after a minute. With `stuck_s`, as is right where
    coordinators move between brokers, it is left alone after so long and counted in `stuck`: the next one of its name
    aborts what it left open. With `leaves`, such a part of all transactions is left open on purpose, as by a client
    that dies in the middle of one; they are counted in `left`.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str,
        seed: int,
        *,
        prefix: str = "",
        stuck_s: float | None = None,
        leaves: float = 0.0,
    ) -> None:
        super().__init__(name, bootstrap, seed, prefix=prefix)
        self.stuck_s = stuck_s
        self.stuck = 0
        self.leaves = leaves
        self.left = 0
        #: The state of its consumer a few seconds ago, by partition, for who wants to know why it does not go on.
        self.fetching: dict[str, str] = {}
        self.transactions = 0
        self.thrown_out: list[str] = []
        self.fatal: list[str] = []

    def live(self) -> None:
        while not self.stop.is_set():
            consumer = self.consumer(
                **{"isolation.level": "read_committed", "statistics.interval.ms": 5000, "stats_cb": self.told}
            )
            try:
                # In this order: until the predecessor's transaction is aborted, the group's offsets are not stable.
                producer = self.transactional()
                consumer.subscribe([self.plain])
                self.copy(producer, consumer)
            except ck.KafkaException as error:
                self.thrown_out.append(str(error))
                if error.args[0].fatal():
                    self.fatal.append(str(error))
            except Stuck:
                if self.stuck_s is None:
                    raise
                self.stuck += 1
            except Left:
                self.left += 1
            finally:
                consumer.close()

    def told(self, statistics: str) -> None:
        shown = ("fetch_state", "leader", "broker", "next_offset", "ls_offset", "hi_offset", "fetchq_cnt", "msgq_cnt")
        for topic in json.loads(statistics)["topics"].values():
            for index, row in topic["partitions"].items():
                self.fetching[index] = ", ".join(f"{name} {row.get(name)}" for name in shown)

    def troubled(self, error: ck.KafkaError) -> None:
        """librdkafka asks for the group's offsets again after most errors, but not after NOT_COORDINATOR, as a broker
        answers that came back and coordinates no longer. Then nothing is fetched until the next rebalance, and a member
        that is alone in the group waits for that in vain.
        """
        if PLACES_UNKNOWN in error.str():
            raise ck.KafkaException(error)
        super().troubled(error)

    def copy(self, producer: ck.Producer, consumer: ck.Consumer) -> None:
        while not self.stop.is_set():
            if messages := self.consumed(consumer, 200):
                self.transactions += 1
                self.copy_once(producer, consumer, messages)

    def copy_once(self, producer: ck.Producer, consumer: ck.Consumer, messages: list[Any]) -> None:
        steps: list[Send | Poll] = list(by_partition(messages, committed=True))
        outcome = Outcome.FAIL
        try:
            producer.begin_transaction()
            for message in messages:
                self.send(producer, int(message.value()) + (self.transactions << SHIFT), message.partition(), steps)
            ends = {message.partition(): message.offset() + 1 for message in messages}
            positions = [ck.TopicPartition(self.plain, partition, offset) for partition, offset in ends.items()]
            group = consumer.consumer_group_metadata()
            within(self.stuck_s or 60, persist, producer.send_offsets_to_transaction, positions, group, CALL_S)
            if self.leaves and self.chance.random() < self.leaves:
                persist(producer.flush, CALL_S)
                raise Left
            if self.chance.random() < 0.15:
                persist(producer.flush, CALL_S)
                persist(producer.abort_transaction, CALL_S)
                self.rewind(consumer)
            else:
                outcome = Outcome.UNKNOWN
                persist(producer.commit_transaction, CALL_S)
                outcome = Outcome.OK
        except ck.KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            outcome = Outcome.FAIL
            persist(producer.abort_transaction, CALL_S)
            self.rewind(consumer)
        finally:
            # Its group can give it other partitions at any time, so its polls need not continue.
            self.history.append(Operation(self.name, outcome, tuple(steps), moved=True, transaction=True))

    def send(self, producer: ck.Producer, value: int, partition: int, steps: list[Send | Poll]) -> None:
        place = len(steps)
        steps.append(Send((self.copied, partition), value))

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                steps[place] = Send((self.copied, partition), value, offset_of(message))

        producer.produce(self.copied, str(value), partition=partition, on_delivery=delivered)

    @staticmethod
    def original(value: int) -> int:
        return value & ((1 << SHIFT) - 1)

    @staticmethod
    def rewind(consumer: ck.Consumer) -> None:
        for place in persist(consumer.committed, consumer.assignment(), CALL_S):
            if place.error is not None:
                raise ck.KafkaException(place.error)
            place.offset = place.offset if place.offset >= 0 else ck.OFFSET_BEGINNING
            consumer.seek(place)


class Reader(Client):
    """Reads both topics from their beginnings, every partition, at one isolation level."""

    def __init__(self, name: str, bootstrap: str, seed: int, *, committed: bool, prefix: str = "") -> None:
        super().__init__(name, bootstrap, seed, prefix=prefix)
        self.committed = committed
        self.seen: set[tuple[Partition, int]] = set()
        self.position: dict[Partition, int] = {}

    def live(self) -> None:
        level = "read_committed" if self.committed else "read_uncommitted"
        consumer = self.consumer(**{"isolation.level": level, "auto.offset.reset": "error"})
        consumer.assign([ck.TopicPartition(*partition, 0) for partition in self.partitions()])
        while not self.stop.is_set():
            if messages := self.consumed(consumer):
                polls = by_partition(messages, committed=self.committed)
                self.history.append(Operation(self.name, Outcome.OK, polls))
            places = consumer.position([ck.TopicPartition(*one) for one in self.partitions()])
            self.position = {(place.topic, place.partition): place.offset for place in places}
        consumer.close()

    def partitions(self) -> Iterator[Partition]:
        return ((topic, partition) for topic in (self.plain, self.copied) for partition in range(PARTITIONS))

    def reached(self, ends: dict[Partition, int]) -> bool:
        """True if it has read to these offsets. A marker at the end is passed without a message."""
        self.check()
        return all(self.position.get(partition, -1) >= end for partition, end in ends.items())


class Committer(Client):
    """A static member of a group, which comes and goes; it commits what it has read, and asks what is committed: never
    less than it was told. It asks before it commits too, since after a kill the new commit would hide that the one
    before it is lost.
    """

    def live(self) -> None:
        self.members = 0
        consumer = self.member()
        self.acknowledged: dict[int, int] = {}
        self.asked: dict[int, int] = {}
        self.backwards: list[str] = []
        self.commits = 0
        ends: dict[int, int] = {}  # read, but not told that it is committed
        while not self.stop.is_set():
            if self.chance.random() < 0.005:
                consumer.close()
                consumer, ends = self.member(), {}
            ends |= {message.partition(): message.offset() + 1 for message in self.consumed(consumer)}
            offsets = [ck.TopicPartition(self.plain, partition, offset) for partition, offset in ends.items()]
            try:
                self.look(consumer)
                if offsets:
                    self.asked |= {index: max(end, self.asked.get(index, -1)) for index, end in ends.items()}
                    consumer.commit(offsets=offsets, asynchronous=False)
                    self.acknowledged |= ends
                    self.commits += 1
                    ends = {}
                    self.look(consumer)
            except ck.KafkaException:
                continue  # not told: the commit may have happened or not
        consumer.close()

    def member(self) -> ck.Consumer:
        self.members += 1
        # Longer than any restart: a static member whose session ends by its own clock sends requests with no member id
        # before it has joined again, is told that it is fenced, and never reads on (librdkafka 3437).
        consumer = self.consumer(**{"group.instance.id": self.name, "session.timeout.ms": 45_000})
        consumer.subscribe([self.plain])
        return consumer

    def look(self, consumer: ck.Consumer) -> None:
        for place in consumer.committed([ck.TopicPartition(self.plain, index) for index in range(PARTITIONS)], CALL_S):
            least, most = self.acknowledged.get(place.partition, -1), self.asked.get(place.partition, -1)
            offset = max(place.offset, -1)
            if not least <= offset <= max(most, least):
                self.backwards.append(f"{place.partition}: {offset} is not in {least}..{most}")
            self.acknowledged[place.partition] = max(offset, least)


class Churn(Client):
    """Few keys written again and again to a compacted topic: by an idempotent producer, and in transactions of which
    half are aborted. `model` is the last value of each key that was acknowledged, None for a tombstone.
    """

    def __init__(self, name: str, bootstrap: str, seed: int, *, in_transactions: bool, prefix: str = "") -> None:
        super().__init__(name, bootstrap, seed, prefix=prefix)
        self.in_transactions = in_transactions
        self.model: dict[str, str | None] = {}
        self.doubtful: dict[str, set[str | None]] = defaultdict(set)  # what may be a key's last value as well
        self.written = 0

    def live(self) -> None:
        producer = self.transactional() if self.in_transactions else self.producer()
        while not self.stop.is_set():
            changes = self.changes()
            if not self.in_transactions:
                self.send(producer, changes)
                if producer.flush(90):
                    raise AssertionError("records were not answered within 90 s")
                self.model |= changes
                continue
            producer = self.transact(producer, changes)

    def transact(self, producer: ck.Producer, changes: dict[str, str | None]) -> ck.Producer:
        committing = False
        try:
            producer.begin_transaction()
            self.send(producer, changes)
            if self.chance.random() < 0.5:
                persist(producer.flush, CALL_S)
                persist(producer.abort_transaction, CALL_S)
                return producer
            committing = True
            persist(producer.commit_transaction, CALL_S)
        except ck.KafkaException as error:
            if error.args[0].txn_requires_abort():
                persist(producer.abort_transaction, CALL_S)
                return producer
            producer = self.transactional()
            if committing:
                for key, value in changes.items():
                    self.doubtful[key].add(value)
            return producer
        for key in changes:
            self.doubtful.pop(key, None)
        self.model |= changes
        return producer

    def changes(self) -> dict[str, str | None]:
        keys = [f"{self.name}-{self.chance.randrange(40)}" for _ in range(self.chance.randrange(1, 20))]
        self.written += len(set(keys))
        return {key: None if self.chance.random() < 0.1 else f"{self.written}-{key}" + "x" * 60 for key in keys}

    def send(self, producer: ck.Producer, changes: dict[str, str | None]) -> None:
        for key, value in changes.items():
            producer.produce(self.compacted, value, key, partition=0)
        producer.poll(0)
        self.stop.wait(0.02)
