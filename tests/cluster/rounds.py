"""Load on a cluster for one round of faults, by somebody else's clients, and what it must have come to.

Each round has topics of its own, so that several share a cluster.
"""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import confluent_kafka as ck
from confluent_kafka import admin

from tests.cluster import asking
from tests.cluster.replicas import misplaced, partitions, sent_anew
from tests.cluster.stand import OTTLA, Cluster
from tests.faults.broker.load import (
    CLIENT,
    COMPACTED,
    COPIED,
    PARTITIONS,
    PLAIN,
    Churn,
    Client,
    Copier,
    Reader,
    Writer,
)
from tests.faults.checker import Anomaly, Operation, Poll, check, illegal
from tests.support.waiting import PATIENCE_S, eventually

#: For what ends only when a transaction does: one that was left open is aborted after a minute.
END_S = 90.0
#: Longer than any coordinator is away, and well below a minute.
STUCK_S = 20.0
#: One question that is asked again.
CALL_S = 30.0
COMPACTION = {
    "cleanup.policy": "compact",
    "segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "86400000",
}
_numbers = itertools.count(1)


class Round:
    """Writers, a copier in transactions, and readers of both isolation levels, inside its `with` block.

    With `churns`, few keys are written again and again to a compacted topic too, in transactions and without. Without
    `copies` there are no transactions: they cannot go on where a fault leaves their coordinator too few replicas. There
    are some by default if all brokers are Ottla's: Kafka 2.7 hands the end of a transaction to its groups on another
    thread, and on a busy machine the offsets of the next transaction fall to it.
    With `leaves`, the copier leaves such a part of its transactions open, and the next one of its name aborts them.
    `led_by` is the broker that leads all partitions at first, or all their replicas with their leader first.
    `flows` and `writes` say that load runs through a fault. `finish` ends everything that was begun and reads all of
    it, then `judge` says whether the promises were kept. After a failure the clients are told to stop and left alone.
    """

    def __init__(
        self,
        cluster: Cluster,
        seed: int,
        *,
        writers: int = 2,
        per_round: int = 5,
        churns: bool = False,
        copies: bool | None = None,
        leaves: float = 0.0,
        led_by: int | Sequence[int] | None = None,
        replicas: int = 3,
        config: Mapping[str, str] | None = None,
    ) -> None:
        number = next(_numbers)
        if copies is None:
            copies = set(cluster.kinds) == {OTTLA}
        self.cluster = cluster
        self.replicas = replicas
        self.led_by = led_by
        self.config = dict(config or {})
        self.prefix = f"round{number}-"
        self.plain, self.copied = self.prefix + PLAIN, self.prefix + COPIED
        self.compacted = self.prefix + COMPACTED
        self.topics = (self.plain, self.copied)
        place = (cluster.bootstrap, seed)
        # Unique over all rounds of a cluster, and below the bits that name a transaction.
        firsts = [(number * 10 + index) << 24 for index in range(writers)]
        self.writers = [
            Writer(f"writer-{index}", *place, first=first, per_round=per_round, prefix=self.prefix)
            for index, first in enumerate(firsts)
        ]
        self.copier = Copier("copier", *place, prefix=self.prefix, stuck_s=STUCK_S, leaves=leaves) if copies else None
        self.readers = [
            Reader(f"reader-{level}", *place, committed=level, prefix=self.prefix) for level in (True, False)
        ]
        self.churns = [
            Churn(f"churn-{kind}", *place, in_transactions=kind, prefix=self.prefix) for kind in (False, True) if churns
        ]
        self.clients: list[Client] = [*self.writers, *self.readers, *self.churns]
        if self.copier is not None:
            self.clients.append(self.copier)
        #: Those that a test has beside them. Their histories are its own to judge.
        self.others: list[Client] = []
        self.onlooker: ck.Consumer | None = None
        self.history: list[Operation] = []

    def __enter__(self) -> "Round":
        with self.cluster.clients.inside():
            self.admin = admin.AdminClient({"bootstrap.servers": self.cluster.bootstrap, **CLIENT})
            rows = [self.new(topic) for topic in self.topics]
            if self.churns:
                rows.append(admin.NewTopic(self.compacted, 1, self.replicas, config=COMPACTION))
            for made in self.admin.create_topics(rows).values():
                made.result(PATIENCE_S)
            self._await_leaders(*(row.topic for row in rows))
            # A client of the group's, since librdkafka's admin ends the process when it asks a broker that no longer
            # is the coordinator (librdkafka 5040).
            if self.copier is not None:
                self.onlooker = self.copier.consumer()
            for client in self.clients:
                client.start()
        self.started = time.monotonic()
        self.flows()
        return self

    def _await_leaders(self, *topics: str) -> None:
        """Until all replicas are in sync, and leaders know that they lead.

        A leader of Kafka's that has not heard of its role may refuse the first batch of a producer and take the
        second a moment later, since it takes any sequence of a producer that it does not know. Then the first is lost,
        and librdkafka says that it was acknowledged, without an offset.
        """
        self.cluster.all_in_sync(*topics)
        partitions = [(topic, index) for topic in topics for index in self.cluster.observer.assignment(topic)]
        for topic, index in partitions:
            eventually(
                f"{topic}-{index} is led",
                lambda: self.cluster.observer.high_watermark(topic, index) is not None,  # noqa: B023
                facts=lambda: self.cluster.observer.states(topic),  # noqa: B023
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in (*self.clients, *self.others):
            client.stop.set()
        for client in (*self.clients, *self.others):
            client.join(PATIENCE_S)
        if self.onlooker is not None:
            self.onlooker.close()

    def another_topic(
        self, name: str, replicas: list[int] | None = None, config: Mapping[str, str] | None = None
    ) -> str:
        """Makes a topic that only the test itself uses; its whole name. With `replicas` it has one partition, on these
        brokers, and the first of them leads.
        """
        if replicas is None:
            row = self.new(self.prefix + name)
        else:
            settings = {**self.config, **(config or {})}
            row = admin.NewTopic(self.prefix + name, 1, replica_assignment=[replicas], config=settings)
        for made in self.admin.create_topics([row]).values():
            made.result(PATIENCE_S)
        self._await_leaders(row.topic)
        return row.topic

    def new(self, topic: str) -> admin.NewTopic:
        """A topic as those of the round are."""
        if self.led_by is None:
            return admin.NewTopic(topic, PARTITIONS, self.replicas, config=self.config)
        if isinstance(self.led_by, int):
            others = [member.id for member in self.cluster.brokers if member.id != self.led_by]
            replicas = [self.led_by, *others][: self.replicas]
        else:
            replicas = [*self.led_by]
        return admin.NewTopic(topic, PARTITIONS, replica_assignment=[replicas] * PARTITIONS, config=self.config)

    @property
    def acknowledged(self) -> int:
        return sum(writer.acknowledged for writer in self.writers)

    def writes(self, records: int = 100, timeout_s: float = 60.0) -> None:
        """Waits until each writer was told of so many more records.

        Transactions may stand still. They do while the group's coordinator is gone, since librdkafka goes on waiting
        for the broker that it was (`load.within`), and while the transaction's coordinator is cut from the leader of a
        partition, since the marker cannot be written.
        """
        wanted = [writer.acknowledged + records for writer in self.writers]
        self.wait(
            "writes go on",
            lambda: all(writer.acknowledged >= most for writer, most in zip(self.writers, wanted, strict=True)),
            timeout_s,
        )

    def flows(self, records: int = 100, timeout_s: float = 60.0) -> None:
        """The same, and the copier has ended a transaction that began later than now."""
        before = self.transactions
        self.writes(records, timeout_s)
        if self.copier is not None:
            self.wait("transactions go on", lambda: self.transactions > before + 1, timeout_s)

    @property
    def transactions(self) -> int:
        return 0 if self.copier is None else self.copier.transactions

    def wait(self, what: str, holds: Callable[[], bool], timeout_s: float) -> None:
        def holds_with_all_alive() -> bool:
            for client in (*self.clients, *self.others):
                client.check()
            return holds()

        eventually(f"{what} in {self.prefix}", holds_with_all_alive, timeout_s, facts=self.facts)

    def facts(self) -> object:
        return {
            "acknowledged": [writer.acknowledged for writer in self.writers],
            "refused": [Counter(writer.refused) for writer in self.writers],
            "transactions": self.transactions,
            "thrown out": [] if self.copier is None else self.copier.thrown_out[-3:],
            "stuck": 0 if self.copier is None else self.copier.stuck,
            "left open": 0 if self.copier is None else self.copier.left,
            "fetching": {} if self.copier is None else self.copier.fetching,
            "failures": {client.name: client.failure for client in self.clients if client.failure is not None},
            "committed": self.committed(),
            "read": {reader.name: reader.position for reader in self.readers},
            "states": {topic: self.cluster.observer.states(topic) for topic in self.topics},
            "open": asking.open_transactions(self.cluster, *self.topics),
        }

    def finish(self) -> None:
        for writer in [*self.writers, *self.churns]:
            writer.end()
        self.seconds = time.monotonic() - self.started
        if self.copier is not None:
            ends = self.ends(self.plain)
            self.wait("the copier commits all there is", lambda: self.committed() == ends, END_S)
            self.copier.end()
        # Of an empty partition a reader knows no position.
        last = {(topic, index): end for topic in self.topics for index, end in self.ends(topic).items() if end}
        for reader in self.readers:
            eventually(
                f"{reader.name} at the end",
                lambda reader=reader: reader.reached(last),  # type: ignore[misc]
                END_S,
                facts=lambda reader=reader: (reader.position, last, self.facts()),  # type: ignore[misc]
            )
            reader.end()
        self.history = [operation for client in self.clients for operation in client.history]

    def ends(self, topic: str) -> dict[int, int]:
        """The high watermark of each partition, once all have a leader that knows it."""
        rows = {ck.TopicPartition(topic, index): admin.OffsetSpec.latest() for index in range(PARTITIONS)}
        found: dict[int, int] = {}

        def told() -> bool:
            answers = self.admin.list_offsets(rows, isolation_level=ck.IsolationLevel.READ_UNCOMMITTED)
            try:
                found.update({place.partition: answer.result(CALL_S).offset for place, answer in answers.items()})
            except (ck.KafkaException, TimeoutError):
                return False
            return True

        eventually(f"the ends of {topic}", told, facts=self.facts)
        return found

    def committed(self) -> dict[int, int]:
        """The offsets that the copier's group has committed, where no transaction may change them any more."""
        if self.onlooker is None:
            return {}
        rows = [ck.TopicPartition(self.plain, index) for index in range(PARTITIONS)]
        try:
            places = self.onlooker.committed(rows, CALL_S)
        except ck.KafkaException:
            return {}
        return {place.partition: place.offset for place in places if place.error is None}

    def judge(self, at_least: int) -> None:
        """Nothing is lost, nothing comes twice but what its writer sent anew and the copies of that, nothing aborted is
        read, each record was copied once and in order; and there was so much load that this means something.
        """
        anomalies = illegal(check(self.history, drained=True))
        own = {anomaly.value for anomaly in anomalies if self._is_writers_own(anomaly)}
        found = [each for each in anomalies if each.kind != "duplicate" or self._written(each) not in own]
        counts = Counter(anomaly.kind for anomaly in found)
        assert not found, "\n".join([str(dict(counts)), *map(str, found[:20]), *self.misplaced()[:20]])
        for writer in self.writers:
            assert writer.refused == [], f"{writer.name} gave up: {Counter(writer.refused)}"
        assert self.acknowledged >= at_least, self.facts()
        if self.copier is None:
            print(f"{self.prefix}: {self.acknowledged} acknowledged in {self.seconds:.1f} s")
            return
        assert self.copier.fatal == [], f"after {self.copier.transactions} transactions: {self.copier.fatal}"
        originals, copies = self._values(self.plain), self._values(self.copied)
        for index in range(PARTITIONS):
            copied = [Copier.original(value) for value in copies[index]]
            assert copied == originals[index], f"partition {index}: {len(originals[index])}, copied {len(copied)}"
        print(
            f"{self.prefix}: {self.acknowledged} acknowledged in {self.seconds:.1f} s, {self.copier.transactions} "
            f"transactions, thrown out {len(self.copier.thrown_out)} times, "
            f"stuck {self.copier.stuck} times, left {self.copier.left} open"
        )

    def misplaced(self) -> list[str]:
        """The acknowledged records that are not in all replicas where they were acknowledged, and where they are."""
        return misplaced(self.cluster.directories, self.history, *self.topics)

    def _written(self, anomaly: Anomaly) -> object:
        """The value that a writer wrote, of one that is there twice. Both copies are in one transaction, if it is one.
        That there are no more copies than there are records is asked of all of them (`judge`).
        """
        assert isinstance(anomaly.value, int)
        return Copier.original(anomaly.value) if anomaly.partition[0] == self.copied else anomaly.value  # type: ignore[index]

    def _is_writers_own(self, anomaly: Anomaly) -> bool:
        """True if a record is there twice because its writer sent it anew."""
        topic, index = anomaly.partition  # type: ignore[misc]
        if anomaly.kind != "duplicate" or topic != self.plain:
            return False
        folders = partitions(self.cluster.directories, topic)[index]
        is_own = any(sent_anew(folder, anomaly.offsets) for folder in folders)
        if is_own:
            print(f"{anomaly}: sent anew under the next producer epoch")
        return is_own

    def _values(self, topic: str) -> dict[int, list[int]]:
        """The values that the reader of committed records saw in each partition."""
        found: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
        for operation in self.readers[0].history:
            for step in operation.steps:
                if isinstance(step, Poll) and step.partition[0] == topic:  # type: ignore[index]
                    found[step.partition[1]] += [value for _, value in step.records]  # type: ignore[index, misc]
        return found
