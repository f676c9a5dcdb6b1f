"""Requests of a test to one chosen broker, where a client library would ask whoever is right."""

import itertools
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import confluent_kafka as ck

from ottla.errors import error
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from ottla.wire.k43_elect_leaders import ELECT_LEADERS, ElectLeadersRequest, TopicPartitions
from ottla.wire.k45_alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.k66_list_transactions import LIST_TRANSACTIONS, ListTransactionsRequest
from tests.cluster.stand import OTTLA, Cluster, Member
from tests.faults.broker.load import CLIENT
from tests.peers.apache import SCRIPT, environment
from tests.support.client import Client, batch
from tests.support.operations import EARLIEST, delete, list_offset
from tests.support.transactions import producers
from tests.support.waiting import PATIENCE_S, eventually

GROUP, TRANSACTIONAL_ID = 0, 1
#: Where a log starts and ends after `delete_inside_a_batch`.
AFTER_DELETION = (5, 11)
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
LATEST = -1


def client(cluster: Cluster, member: Member, timeout_ms: int = 60_000) -> Client:
    """A connection from the clients' node to this broker."""
    with cluster.clients.inside():
        return Client.connect(member.node.address, member.port, "test", timeout_ms=timeout_ms)


def name_of(code: int) -> str:
    return error(code).name if code else "NONE"


def produced(answer: Any) -> tuple[str, int]:
    """The error and the base offset in an answer about one partition."""
    ((row,),) = [topic.partitions for topic in answer.responses]
    return name_of(row.error_code), row.base_offset


def coordinator(cluster: Cluster, name: str, kind: int) -> Member:
    """The broker that coordinates the group or the transactional id now, as another one says; it waits for that."""

    def found() -> int:
        with client(cluster, next(member for member in cluster.brokers if member.running)) as connection:
            answer = connection.call(FIND_COORDINATOR, FindCoordinatorRequest(key=name, key_type=kind))
        return 0 if answer.error_code else answer.node_id

    return cluster.broker(eventually(f"{name} has a coordinator", found))


def comes_to(cluster: Cluster, name: str, kind: int, wanted: Member) -> None:
    """Waits until the others say that this broker coordinates: they hear of it after it leads."""
    eventually(f"{wanted.name} coordinates {name}", lambda: coordinator(cluster, name, kind) is wanted)


def created(cluster: Cluster, topic: str, name: str, kind: int) -> None:
    """Makes the internal topic by asking for a coordinator."""
    coordinator(cluster, name, kind)
    cluster.all_in_sync(topic)


def make_controller(cluster: Cluster, wanted: Member) -> None:
    """By an administrator's hand; the other brokers stand still meanwhile, and so come second."""
    if cluster.observer.controller()[0] != wanted.id:
        others = [member for member in cluster.brokers if member is not wanted and member.running]
        for member in others:
            member.pause()
        try:
            cluster.observer.tree.delete("/controller")
            eventually(f"{wanted.name} controls", lambda: cluster.observer.controller()[0] == wanted.id)
        finally:
            for member in others:
                member.resume()
    for member in [member for member in cluster.brokers if member.running]:
        eventually(
            f"{member.name} knows the controller",
            lambda: cluster.observer.controller_known_to(member.id) == wanted.id,  # noqa: B023
        )


def elect_first_of(cluster: Cluster, topics: Sequence[str], replicas: list[int]) -> None:
    """Makes the first of the replicas, which hold the partitions already, their preferred one, and elects it. When this
    returns, it leads: the controller writes the state of a partition before it tells the leader.
    """
    controller, _ = cluster.observer.controller()
    indexes = {topic: [*cluster.observer.assignment(topic)] for topic in topics}
    rows = [
        ReassignableTopic(topic, [ReassignablePartition(index, replicas) for index in indexes[topic]])
        for topic in topics
    ]
    with client(cluster, cluster.broker(controller)) as connection:
        moved = connection.call(ALTER_PARTITION_REASSIGNMENTS, AlterPartitionReassignmentsRequest(topics=rows))
        assert moved.error_code == 0
        assert {row.error_code for topic in moved.responses for row in topic.partitions} <= {0}

        def ordered() -> bool:
            return all(
                assigned == replicas for topic in topics for assigned in cluster.observer.assignment(topic).values()
            )

        eventually(f"{replicas} are assigned", ordered)
        wanted = [TopicPartitions(topic, indexes[topic]) for topic in topics]

        def elected() -> bool:
            connection.call(ELECT_LEADERS, ElectLeadersRequest(topic_partitions=wanted))
            states = [state for topic in topics for state in cluster.observer.states(topic).values()]
            return all(state is not None and state.leader == replicas[0] for state in states)

        eventually(f"broker {replicas[0]} leads", elected, facts=lambda: [*map(cluster.observer.states, topics)])
    led = [(topic, index) for topic in topics for index in indexes[topic]]
    with client(cluster, cluster.broker(replicas[0])) as connection:
        eventually(
            f"broker {replicas[0]} knows that it leads",
            lambda: all(last_offset(connection, topic, index) is not None for topic, index in led),
        )


def last_offset(connection: Client, topic: str, partition: int = 0, level: int = READ_UNCOMMITTED) -> int | None:
    """The high watermark or, for readers of what is committed, the last stable offset; None if it is not told now."""
    row = ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=level, topics=[ListOffsetsTopic(name=topic, partitions=[row])]
    )
    ((answer,),) = [one.partitions for one in connection.call(LIST_OFFSETS, request, 5).topics]
    return answer.offset if answer.error_code == 0 else None


def delete_inside_a_batch(cluster: Cluster, leader: Member, topic: str) -> None:
    """Writes a batch of ten records and one more, and deletes the first five."""
    start, end = AFTER_DELETION
    with client(cluster, leader) as connection:
        for records in (batch(*[b"x"] * (end - 1)), batch(b"more")):
            assert produced(connection.produce(topic, records))[0] == "NONE"
        assert delete(connection, topic, start) == (0, start)


def log_range(cluster: Cluster, leader: Member, topic: str) -> tuple[int, int | None]:
    """Where a partition's log starts and ends, as its leader says."""
    with client(cluster, leader) as connection:
        return list_offset(connection, topic, EARLIEST).offset, last_offset(connection, topic)


def wrote(connection: Client, topic: str, name: str, producer: Any, value: bytes, sequence: int = 0) -> int:
    """Sends a record of a transaction to the partition's leader; the error."""
    records = batch(
        value,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
        transactional=True,
    )
    ((row,),) = [one.partitions for one in connection.produce(topic, records, transactional_id=name).responses]
    return row.error_code


def committed(cluster: Cluster, topic: str) -> list[bytes]:
    """The values that readers of committed records see in the topic's only partition, up to the last stable offset."""
    with cluster.clients.inside():
        consumer = ck.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                **CLIENT,
                "group.id": "reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
            }
        )
    consumer.assign([ck.TopicPartition(topic, 0, 0)])
    found: list[bytes] = []

    def at_the_end() -> bool:
        (message,) = consumer.consume(1, 1.0) or (None,)
        if message is None:
            return False
        if message.error() is None:
            found.append(message.value())
        return bool(message.error() and message.error().code() == ck.KafkaError._PARTITION_EOF)

    eventually(f"{topic} is read", at_the_end)
    consumer.close()
    return found


def open_transactions(cluster: Cluster, *topics: str) -> list[str]:
    """The transactions that are left open in the partitions of these topics and by the coordinators, in words; empty if
    all have ended.
    """
    found: list[str] = []
    for topic in topics:
        for index, state in cluster.observer.states(topic).items():
            if state is None or state.leader == -1:
                found.append(f"{topic}-{index} has no leader")
                continue
            with client(cluster, cluster.broker(state.leader)) as connection:
                end, stable = (last_offset(connection, topic, index, level) for level in (0, 1))
                if end is None or stable != end:
                    found.append(f"{topic}-{index} ends at {end} and is stable up to {stable}")
                if cluster.broker(state.leader).kind == OTTLA:
                    _, rows = producers(connection, topic, index)
                    found += [f"{topic}-{index} has an open transaction of {row}" for row in rows if row[-1] != -1]
    for member in cluster.brokers:
        if member.kind == OTTLA and member.running:
            with client(cluster, member) as connection:
                asked = ListTransactionsRequest(state_filters=["Ongoing", "PrepareCommit", "PrepareAbort"])
                answer = connection.call(LIST_TRANSACTIONS, asked, 0)
                if answer.error_code:
                    found.append(f"{member.name} does not tell: {name_of(answer.error_code)}")
                found += [f"{member.name} coordinates {row}" for row in answer.transaction_states]
    return found


class Refusals(threading.Thread):
    """Writes to one partition on one broker, acks=all, one record after the other, until it is told to stop; what the
    broker answered. A write without an answer counts as LOST. `timeout_ms` is what the broker has for each.
    """

    def __init__(self, cluster: Cluster, member: Member, topic: str, timeout_ms: int = 60_000) -> None:
        super().__init__(name=f"refusals of {member.name}", daemon=True)
        self.cluster, self.member, self.topic, self.timeout_ms = cluster, member, topic, timeout_ms
        self.next_value = 1
        self.answers: list[tuple[float, str]] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        with client(self.cluster, self.member) as connection:
            while not self.stopping.is_set():
                try:
                    answer = connection.produce(self.topic, batch(b"%d" % self.next_value), timeout_ms=self.timeout_ms)
                except OSError:
                    self.answers.append((time.monotonic(), "LOST"))
                    return
                self.next_value += 1
                self.answers.append((time.monotonic(), produced(answer)[0]))

    def __enter__(self) -> "Refusals":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.join(70)


class Pulse(threading.Thread):
    """A producer with the client library's defaults that writes a record to each partition of a topic all `period_s`,
    and notes when each was acknowledged: how long an application was without an answer.
    """

    def __init__(self, cluster: Cluster, topic: str, partitions: int, period_s: float = 0.01) -> None:
        super().__init__(name=f"pulse of {topic}", daemon=True)
        self.cluster, self.topic, self.partitions, self.period_s = cluster, topic, partitions, period_s
        self.acknowledged: list[list[float]] = [[] for _ in range(partitions)]
        self.refused: list[str] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        with self.cluster.clients.inside():
            producer = ck.Producer({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
        while not self.stopping.wait(self.period_s):
            for partition in range(self.partitions):
                producer.produce(self.topic, b"1", partition=partition, on_delivery=self._told(partition))
            producer.poll(0)
        producer.flush(PATIENCE_S)

    def _told(self, partition: int) -> Callable[[Any, Any], None]:
        def told(problem: Any, _: Any) -> None:
            if problem is None:
                self.acknowledged[partition].append(time.monotonic())
            else:
                self.refused.append(str(problem))

        return told

    def __enter__(self) -> "Pulse":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.join(70)

    def longest_gap(self, since: float, until: float) -> tuple[float, float]:
        """The longest time in which no record of a partition was acknowledged, of those that touch this time, and when
        it began.
        """
        gaps = [
            (after - before, before)
            for times in self.acknowledged
            for before, after in itertools.pairwise(times)
            if after >= since and before <= until
        ]
        return max(gaps)


class JavaPulse(Pulse):
    """The same with Java's producer of a release."""

    def __init__(
        self, cluster: Cluster, topic: str, partitions: int, period_s: float = 0.01, release: str = "3.9.2"
    ) -> None:
        super().__init__(cluster, topic, partitions, period_s)
        self.release = release

    def run(self) -> None:
        arguments = [self.cluster.bootstrap, self.topic, str(self.partitions), str(int(self.period_s * 1000))]
        with self.cluster.clients.inside():
            process = subprocess.Popen(
                [str(SCRIPT), "java", self.release, str(Path(__file__).with_name("Beat.java")), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **environment(512)},
            )
        assert process.stdin is not None
        assert process.stdout is not None
        with process:
            threading.Thread(target=self._end, args=[process.stdin], daemon=True).start()
            for line in process.stdout:
                partition, _, when = line.partition(" ")
                if partition.isdigit():
                    self.acknowledged[int(partition)].append(int(when) / 1e9)
                else:
                    self.refused.append(line.strip())

    def _end(self, stdin: IO[str]) -> None:
        self.stopping.wait()
        stdin.write("\n")
        stdin.close()


def producer_id(connection: Client) -> int:
    """A new one, of an idempotent producer."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    while (answer := connection.call(INIT_PRODUCER_ID, request)).error_code:
        assert error(answer.error_code).retriable, name_of(answer.error_code)
    return answer.producer_id


def sent(connection: Client, topic: str, value: bytes, timeout_ms: int = 5000) -> bytes:
    """Sends a record, acks=all; `answered` gives the answers in the order of sending."""
    rows = [TopicProduceData(name=topic, partitions=[PartitionProduceData(records=batch(value))])]
    connection.send(PRODUCE, ProduceRequest(transactional_id=None, acks=-1, timeout_ms=timeout_ms, topics=rows), 8)
    return value


def answered(connection: Client) -> str:
    """The error of the next answer to what was `sent`; LOST if there is none."""
    return after_all(connection.receive)


def after_all(answer: Callable[[], Any]) -> str:
    """The error in an answer about one partition, or LOST where the connection ended before it."""
    try:
        return produced(answer())[0]
    except OSError:
        return "LOST"
