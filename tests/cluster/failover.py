"""The answers of living brokers while coordinators fail over: each is asked all that clients ask coordinators, again
and again, from before the kill until the next coordinator serves.
"""

import itertools
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from ottla.replication.internal_topic import partition_for
from ottla.wire.k09_offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.wire.k12_heartbeat import HEARTBEAT, HeartbeatRequest
from ottla.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from ottla.wire.k24_add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest
from ottla.wire.k26_end_txn import END_TXN, EndTxnRequest
from ottla.wire.k28_txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.cluster import asking
from tests.cluster.stand import Cluster, Member
from tests.support import group_client, transactions
from tests.support.client import Client
from tests.support.waiting import eventually

GROUPS, STATES = "__consumer_offsets", "__transaction_state"
PERIOD_S = 0.003
#: Good answers of each kind after a kill, until which it is asked.
SERVED = 20
Ask = Callable[[Client], tuple[str, int]]
"""Asks, and returns the name of the request and the error code of the answer."""


class Producer(NamedTuple):
    """A producer with a transactional id."""

    name: str
    producer_id: int
    producer_epoch: int


class Asked:
    """Which codes came for which request, and how many of the answers were good since the failure was over."""

    def __init__(self) -> None:
        #: By the broker that answered, and the request.
        self.codes: dict[tuple[int, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.good: dict[str, int] = defaultdict(int)
        self.is_over = threading.Event()
        self.stopping = threading.Event()
        self._lock = threading.Lock()

    def note(self, broker: int, name: str, code: int) -> None:
        with self._lock:
            self.codes[broker, name][asking.name_of(code)] += 1
            if code == 0 and self.is_over.is_set():
                self.good[name] += 1

    def __repr__(self) -> str:
        with self._lock:
            return repr({place: dict(codes) for place, codes in sorted(self.codes.items())})

    def found(self, *brokers: int) -> dict[str, set[str]]:
        """The codes by request, of these brokers alone if any are named."""
        found: dict[str, set[str]] = defaultdict(set)
        for (broker, name), codes in self.codes.items():
            if not brokers or broker in brokers:
                found[name] |= codes.keys()
        return dict(found)


def names() -> Iterator[str]:
    """New names that belong to the first of two partitions of an internal topic."""
    while True:
        name = uuid.uuid4().hex
        if partition_for(name, 2) == 0:
            yield name


def ask_around(cluster: Cluster, topic: str, fail: Callable[[Asked], None]) -> Asked:
    """Asks every broker, of which the first coordinates everything, from before it fails until its successors serve.
    The topic has two partitions, and so has each internal topic.
    """
    group, of_init, of_add, of_offsets, of_commit = itertools.islice(names(), 5)
    asking.created(cluster, GROUPS, group, asking.GROUP)
    asking.created(cluster, STATES, of_init, asking.TRANSACTIONAL_ID)
    for each in (GROUPS, STATES):
        asking.elect_first_of(cluster, [each], [1, 2, 3])
    victim = cluster.broker(1)
    asking.comes_to(cluster, group, asking.GROUP, victim)
    asking.comes_to(cluster, of_init, asking.TRANSACTIONAL_ID, victim)
    asked = Asked()
    with asking.client(cluster, victim) as client:
        add, offsets, commit = (_producer(client, name, topic) for name in (of_add, of_offsets, of_commit))
        assert transactions.again(lambda: _add_offsets(client, commit, group)).error_code == 0
        member = group_client.Member(client, group)
        assert member.join() == 0
        assert member.sync({member.id: b""}).error_code == 0
        assert member.commit(topic, 1) == 0
        kinds: list[list[Ask]] = [
            [_find(group, asking.GROUP), _find(of_add, asking.TRANSACTIONAL_ID), _fetched(group, topic), _beat(member)],
            [_init(of_init)],
            [_added(add, topic), _ended(add)],
            [_offsets_added(offsets, group), _ended(offsets)],
            [_offsets_committed(commit, group, topic)],
        ]
        with _asking(cluster, kinds, asked):
            eventually("all is asked", lambda: len(asked.codes) == 8 * len(cluster.brokers), facts=lambda: asked)
            fail(asked)
            asked.is_over.set()
            eventually(
                "the next coordinators serve",
                lambda: len(asked.good) == 8 and min(asked.good.values()) >= SERVED,
                facts=lambda: (asked.good, asked),
            )
    print(f"figures: {asked}")
    return asked


@contextmanager
def _asking(cluster: Cluster, kinds: list[list[Ask]], asked: Asked) -> Iterator[None]:
    threads = [
        threading.Thread(target=_ask, args=[cluster, member, several, asked], daemon=True)
        for member in cluster.brokers
        for several in kinds
    ]
    try:
        for thread in threads:
            thread.start()
        yield
    finally:
        asked.stopping.set()
        for thread in threads:
            thread.join(70)


def _ask(cluster: Cluster, member: Member, several: list[Ask], asked: Asked) -> None:
    """Until it is told to stop, or the broker is gone."""
    with asking.client(cluster, member) as client:
        while not asked.stopping.wait(PERIOD_S):
            for ask in several:
                try:
                    name, code = ask(client)
                except OSError:
                    return
                asked.note(member.id, name, code)


def _producer(client: Client, name: str, topic: str) -> Producer:
    """One that has aborted a transaction, so that another abort is right at any time."""
    made = transactions.init(client, name)
    assert made.error_code == 0
    assert transactions.add(client, name, made, 0, topic=topic) == [0]
    assert transactions.end(client, name, made, commit=False) == 0
    return Producer(name, made.producer_id, made.producer_epoch)


def _add_offsets(client: Client, producer: Producer, group: str) -> Any:
    return client.call(
        ADD_OFFSETS_TO_TXN,
        AddOffsetsToTxnRequest(
            transactional_id=producer.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id=group,
        ),
        2,
    )


def _find(name: str, kind: int) -> Ask:
    request = FindCoordinatorRequest(key=name, key_type=kind)
    return lambda client: ("FindCoordinator", client.call(FIND_COORDINATOR, request, 3).error_code)


def _fetched(group: str, topic: str) -> Ask:
    request = OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(topic, [0])])
    return lambda client: ("OffsetFetch", client.call(OFFSET_FETCH, request, 7).error_code)


def _beat(member: group_client.Member) -> Ask:
    request = HeartbeatRequest(group_id=member.group, member_id=member.id, generation_id=member.generation)
    return lambda client: ("Heartbeat", client.call(HEARTBEAT, request, 4).error_code)


def _init(name: str) -> Ask:
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    return lambda client: ("InitProducerId", client.call(INIT_PRODUCER_ID, request, 4).error_code)


def _added(producer: Producer, topic: str) -> Ask:
    request = AddPartitionsToTxnRequest(
        transactional_id=producer.name,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
    )

    def ask(client: Client) -> tuple[str, int]:
        ((row,),) = [one.results for one in client.call(ADD_PARTITIONS_TO_TXN, request, 2).results]
        return "AddPartitionsToTxn", row.error_code

    return ask


def _offsets_added(producer: Producer, group: str) -> Ask:
    return lambda client: ("AddOffsetsToTxn", _add_offsets(client, producer, group).error_code)


def _ended(producer: Producer) -> Ask:
    request = EndTxnRequest(
        transactional_id=producer.name,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=False,
    )
    return lambda client: ("EndTxn", client.call(END_TXN, request, 2).error_code)


def _offsets_committed(producer: Producer, group: str, topic: str) -> Ask:
    rows = [TxnOffsetCommitRequestPartition(partition_index=1, committed_offset=1)]
    request = TxnOffsetCommitRequest(
        transactional_id=producer.name,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=rows)],
    )

    def ask(client: Client) -> tuple[str, int]:
        ((row,),) = [one.partitions for one in client.call(TXN_OFFSET_COMMIT, request, 3).topics]
        return "TxnOffsetCommit", row.error_code

    return ask


def beyond(found: Mapping[str, set[str]], allowed: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The codes that are not allowed, by request."""
    return {name: more for name, codes in found.items() if (more := codes - allowed[name])}
