"""Consumers read from the replica in their rack (KIP-392): what the leader tells them, and what a follower serves."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla._core import RecordReader
from ottla.broker.broker import Broker
from ottla.broker.fetch.delayed_fetch import DelayedFetch
from ottla.broker.metadata_cache import BrokerMetadata
from ottla.config import BrokerConfig, ConfigError
from ottla.errors import (
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from ottla.replication import leading
from ottla.replication.in_sync import now_ms
from ottla.replication.partition import Partition
from ottla.replication.roles import PartitionState
from ottla.replication.waiting_fetches import Waiter
from ottla.wire.k01_fetch import (
    FETCH,
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.k23_offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.log.batches import batch
from tests.log.transactions import TRANSACTIONAL
from tests.support.client import Client
from tests.support.leased import One, produce, started
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = pytest.mark.trio

SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
#: Longer than a test takes.
FOR_LONG_MS = 60_000
DEBUGGER = -2
#: The attribute of markers, and the keys of their only records.
CONTROL = 0x20
ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"
Row = FetchablePartitionResponse


def asked(
    topic: str,
    offsets: dict[int, int],
    *,
    epoch: int = -1,
    replica_id: int = -1,
    rack: str = "",
    **options: Any,
) -> FetchRequest:
    rows = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=epoch)
        for index, offset in offsets.items()
    ]
    topics = [FetchTopic(topic=topic, partitions=rows)] if rows else []
    return FetchRequest(replica_id=replica_id, rack_id=rack, topics=topics, **{"max_wait_ms": 0, **options})


def fetch(client: Client, offset: int = 0, *, version: int = 12, **options: Any) -> Row:
    """The answer about partition 0 of topic t."""
    if version < 9:
        options["epoch"] = -1
    (topic,) = client.call(FETCH, asked("t", {0: offset}, **options), version).responses
    (row,) = topic.partition_responses
    return row


def values(row: Row) -> list[bytes | None]:
    assert row.error_code == 0
    return [record.value for record in RecordReader(row.record_set or b"")]


def shared(leader: int, epoch: int, me: int, other: int) -> PartitionState:
    return PartitionState(1, leader, epoch, (me, other), (me, other), epoch)


class Replicated:
    """Topic t, of which this broker leads or follows a partition. Another broker, in another rack, has the other
    replica.
    """

    def __init__(self, one: One, partition: Partition) -> None:
        assert partition.state is not None
        self.one, self.partition = one, partition
        self.me = partition.state.leader
        self.other = self.me + 1

    async def leads(self, epoch: int = 1) -> None:
        await self.one.broker.replicas.apply("t", {0: shared(self.me, epoch, self.me, self.other)})

    async def follows(self, epoch: int = 1) -> None:
        await self.one.broker.replicas.apply("t", {0: shared(self.other, epoch, self.me, self.other)})

    def other_is_in(self, rack: str) -> None:
        other = BrokerMetadata(self.other, rack, {"PLAINTEXT": ("127.0.0.1", 1)})
        self.one.broker.metadata.brokers[self.other] = other

    def other_has(self, end_offset: int) -> None:
        """The other broker fetches from this one."""
        log = self.partition.log
        assert leading.followed(self.partition, self.other, end_offset, 0, log.end_offset, now_ms())

    async def moves_to(self, high_watermark: int) -> None:
        """A fetcher moves the high watermark, on its own thread."""

        def move() -> None:
            self.partition.log.high_watermark = high_watermark

        await trio.to_thread.run_sync(move)


@asynccontextmanager
async def replicated(
    path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int = 1, **settings: str
) -> AsyncIterator[Replicated]:
    async with started(path, monkeypatch, **{"broker.rack": "east", **settings}) as one:
        with trio.fail_after(PATIENCE_S):
            yield Replicated(one, await one.create("t", partitions))


# --- what the leader tells ---


@pytest.mark.usefixtures("leases_on")
@pytest.mark.parametrize("has_lease", [False, True])
@pytest.mark.parametrize("version", [11, 12])
async def test_a_consumer_is_sent_to_the_follower_in_its_rack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, has_lease: bool
) -> None:
    async with replicated(tmp_path, monkeypatch, **SELECTOR) as made:
        await made.leads()
        made.other_is_in("west")
        await made.one.talk(lambda client: produce(client, "t", b"a", b"b"))
        made.other_has(2)
        assert values(await made.one.talk(fetch)) == [b"a", b"b"]
        assert made.partition.lease is not None
        if not has_lease:
            made.partition.end_lease()

        def talk(client: Client) -> None:
            # Also who would wait for more than there is gets an answer at once.
            there = fetch(client, rack="west", version=version, min_bytes=1 << 20, max_wait_ms=FOR_LONG_MS)
            assert (there.error_code, there.preferred_read_replica) == (0, made.other)
            assert (there.high_watermark, there.last_stable_offset, there.log_start_offset) == (2, 2, 0)
            assert not there.record_set
            for rack in ("east", "south", ""):
                here = fetch(client, rack=rack, version=version)
                assert (here.preferred_read_replica, values(here)) == (-1, [b"a", b"b"])
            # The follower does not have this one yet.
            beyond = fetch(client, 3, rack="west", version=version)
            assert (beyond.error_code, beyond.preferred_read_replica) == (OffsetOutOfRange.code, -1)
            fenced = fetch(client, epoch=0, rack="west", version=version)
            assert (fenced.error_code, fenced.preferred_read_replica) == (FencedLeaderEpoch.code, -1)
            assert values(fetch(client, rack="west", version=10)) == [b"a", b"b"], "it would not understand"
            debugging = fetch(client, rack="west", version=version, replica_id=DEBUGGER)
            assert debugging.preferred_read_replica == made.other

        await made.one.talk(talk)


@pytest.mark.usefixtures("leases_on")
async def test_without_a_selector_a_rack_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with replicated(tmp_path, monkeypatch) as made:
        await made.leads()
        made.other_is_in("west")
        await made.one.talk(lambda client: produce(client, "t", b"a"))
        made.other_has(1)

        def talk(client: Client) -> None:
            for _ in range(20):
                row = fetch(client, rack="west")
                assert (row.preferred_read_replica, values(row)) == (-1, [b"a"])

        assert await made.one.needed(talk) < 5, "they are as plain as those without"


async def test_who_waits_at_the_leader_is_sent_away_when_the_follower_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicated(tmp_path, monkeypatch, **SELECTOR) as made:
        await made.leads()
        made.other_is_in("west")
        rows: list[Row] = []

        async def wait() -> None:
            row = await made.one.talk(lambda client: fetch(client, rack="west", min_bytes=1, max_wait_ms=FOR_LONG_MS))
            rows.append(row)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await comes_true("a Fetch that waits", lambda: made.partition.waiting_fetches.consumers)
            await made.one.talk(lambda client: produce(client, "t", b"a"))
            assert rows == []
            made.other_has(1)
            await comes_true("an answer", lambda: rows)
        assert (rows[0].preferred_read_replica, rows[0].record_set or b"") == (made.other, b"")


@pytest.mark.parametrize("partitions", [1, 2])
async def test_a_session_is_told_as_often_as_it_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    """Also where nothing else is news; and the others of the session are not disturbed."""
    async with replicated(tmp_path, monkeypatch, partitions, **SELECTOR) as made:
        await made.leads()
        made.other_is_in("west")
        made.other_has(0)

        def talk(client: Client) -> list[list[tuple[int, int]]]:
            told = []
            session_id = 0
            for epoch in range(4):
                offsets = dict.fromkeys(range(partitions), 0) if epoch == 0 else {}
                request = asked(
                    "t", offsets, rack="west", session_id=session_id, session_epoch=epoch, max_wait_ms=FOR_LONG_MS
                )
                answer = client.call(FETCH, request, 12)
                assert answer.error_code == 0
                session_id = answer.session_id
                told.append(
                    [
                        (row.partition, row.preferred_read_replica)
                        for topic in answer.responses
                        for row in topic.partition_responses
                    ]
                )
            return told

        first, *others = await made.one.talk(talk)
        assert dict(first) == {0: made.other, **dict.fromkeys(range(1, partitions), -1)}
        assert others == [[(0, made.other)]] * 3


# --- what a follower serves ---


async def test_a_follower_serves_consumers_up_to_its_high_watermark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicated(tmp_path, monkeypatch) as made:
        await made.leads()
        for value in (b"a", b"b", b"c"):
            await made.one.talk(lambda client, value=value: produce(client, "t", value))
        await made.follows(epoch=5)
        assert (made.partition.log.high_watermark, made.partition.log.end_offset) == (0, 3)
        await made.moves_to(2)

        def talk(client: Client) -> None:
            def code(offset: int = 0, **options: Any) -> tuple[int, int]:
                row = fetch(client, offset, **options)
                assert not row.record_set
                return row.error_code, row.high_watermark

            for version in (11, 12):
                assert values(fetch(client, version=version)) == [b"a", b"b"]
                assert values(fetch(client, 1, version=version, epoch=5)) == [b"b"]
                assert values(fetch(client, version=version, replica_id=DEBUGGER)) == [b"a", b"b"]
                assert code(2, version=version) == code(3, version=version) == (0, 2), (
                    "not yet committed, as far as it knows"
                )
                # Clients tell by the high watermark that this is not for good, and ask the leader.
                assert code(4, version=version) == code(-1, version=version) == (OffsetOutOfRange.code, -1)
                assert code(epoch=4, version=version) == (FencedLeaderEpoch.code, -1)
                assert code(epoch=6, version=version) == (UnknownLeaderEpoch.code, -1)
            for version in (4, 10):
                assert code(version=version) == (NotLeaderOrFollower.code, -1)
                assert code(version=version, replica_id=DEBUGGER) == (NotLeaderOrFollower.code, -1)
            assert code(replica_id=made.other) == (NotLeaderOrFollower.code, -1)
            # Where a log ends only its leader says.
            listed = client.call(
                LIST_OFFSETS,
                ListOffsetsRequest(
                    replica_id=-1,
                    topics=[
                        ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
                    ],
                ),
                5,
            )
            assert listed.topics[0].partitions[0].error_code == NotLeaderOrFollower.code
            wanted = OffsetForLeaderPartition(partition_index=0, current_leader_epoch=-1, leader_epoch=1)
            ends = client.call(
                OFFSET_FOR_LEADER_EPOCH,
                OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(name="t", partitions=[wanted])]),
                3,
            )
            assert ends.topics[0].partitions[0].error_code == NotLeaderOrFollower.code
            assert produce(client, "t", b"d")[0] == NotLeaderOrFollower.code

        await made.one.talk(talk)


async def test_readers_of_what_is_committed_read_from_a_follower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to its own last stable offset, and told which transactions were aborted."""
    async with replicated(tmp_path, monkeypatch) as made:
        log = made.partition.log

        def write(producer: int, value: bytes, *, sequence: int = 0, attributes: int = 0, **fields: bytes) -> None:
            at, epoch = log.end_offset, log.leader_epoch
            place = {"producer": (producer, 0, sequence), "offset": at, "epoch": epoch}
            records = batch(value, **place, attributes=TRANSACTIONAL | attributes, **fields)
            log.append_as_follower(records, epoch)

        def end(producer: int, key: bytes) -> None:
            write(producer, bytes(6), sequence=-1, attributes=CONTROL, key=key)

        write(7, b"aborted")
        end(7, ABORT)
        write(8, b"committed")
        end(8, COMMIT)
        write(9, b"open")
        await made.follows()

        def read(client: Client) -> tuple[int, list[tuple[int, int]], list[bytes | None]]:
            row = fetch(client, isolation_level=1)
            aborted = [(one.producer_id, one.first_offset) for one in row.aborted_transactions or []]
            found = [one.value for one in RecordReader(row.record_set or b"")]
            return row.last_stable_offset, aborted, found

        for high_watermark, stable, aborted, found in (
            (1, 0, [], []),
            (2, 2, [(7, 0)], [b"aborted"]),
            (3, 2, [(7, 0)], [b"aborted"]),
            (4, 4, [(7, 0)], [b"aborted", b"committed"]),
            (5, 4, [(7, 0)], [b"aborted", b"committed"]),
        ):
            await made.moves_to(high_watermark)
            assert await made.one.talk(read) == (stable, aborted, found), high_watermark


Ask = Callable[[Client, int], list[bytes | None]]


def plainly(client: Client, partitions: int) -> list[bytes | None]:
    offsets = dict.fromkeys(range(partitions), 0)
    return _values(client, asked("t", offsets, min_bytes=1, max_wait_ms=FOR_LONG_MS))


def in_session(client: Client, partitions: int) -> list[bytes | None]:
    """The second of the session: its partitions rest already."""
    offsets = dict.fromkeys(range(partitions), 0)
    session_id = client.call(FETCH, asked("t", offsets, session_epoch=0), 12).session_id
    assert session_id
    request = asked("t", {}, session_id=session_id, session_epoch=1, min_bytes=1, max_wait_ms=FOR_LONG_MS)
    return _values(client, request)


def _values(client: Client, request: FetchRequest) -> list[bytes | None]:
    answer = client.call(FETCH, request, 12)
    assert answer.error_code == 0
    rows = [row for topic in answer.responses for row in topic.partition_responses]
    return [value for row in rows for value in values(row)]


class Waiting:
    """A Fetch that waits at a follower for records."""

    def __init__(self, made: Replicated, ask: Callable[[Client], Any], nursery: trio.Nursery) -> None:
        self.made = made
        self.answers: list[Any] = []

        async def wait() -> None:
            self.answers.append(await made.one.talk(ask))

        nursery.start_soon(wait)

    async def begins(self) -> None:
        def waits() -> bool:
            heap = self.made.one.broker.deadlines._heap
            return any(isinstance(each, DelayedFetch) and not each.done for _, _, each in heap)

        await comes_true("a Fetch that waits", lambda: waits() or self.answers)
        assert self.answers == []

    async def answer(self) -> Any:
        await comes_true("an answer", lambda: self.answers)
        return self.answers[0]


@pytest.mark.parametrize("ask", [plainly, in_session])
@pytest.mark.parametrize("partitions", [1, 2])
async def test_who_waits_at_a_follower_is_woken_when_its_high_watermark_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask, partitions: int
) -> None:
    async with replicated(tmp_path, monkeypatch, partitions) as made, trio.open_nursery() as nursery:
        await made.leads()
        await made.one.talk(lambda client: produce(client, "t", b"a", b"b"))
        await made.one.talk(lambda client: produce(client, "t", b"c"))
        await made.follows(epoch=2)
        waiting = Waiting(made, lambda client: ask(client, partitions), nursery)
        await waiting.begins()
        await made.moves_to(2)
        assert await waiting.answer() == [b"a", b"b"]
        assert not made.partition.waiting_fetches.consumers or ask is in_session
        # What waits next is heard of as well.
        again = Waiting(made, lambda client: fetch(client, 2, min_bytes=1, max_wait_ms=FOR_LONG_MS), nursery)
        await again.begins()
        await made.moves_to(3)
        assert values(await again.answer()) == [b"c"]


@pytest.mark.parametrize("moves", ["after it was listened to", "before"])
async def test_a_session_at_a_follower_is_told_what_moved_between_its_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: str
) -> None:
    async with replicated(tmp_path, monkeypatch, 2) as made:
        await made.leads()
        await made.one.talk(lambda client: produce(client, "t", b"a"))
        await made.follows(epoch=2)
        park = Partition.park

        def moved(partition: Partition, waiter: Waiter[Partition], *, is_follower: bool = False) -> None:
            # A fetcher is just quicker.
            if partition is made.partition:
                partition.log.high_watermark = 1
            park(partition, waiter, is_follower=is_follower)

        def begin(client: Client) -> int:
            return client.call(FETCH, asked("t", {0: 0, 1: 0}, session_epoch=0), 12).session_id

        if moves == "before":
            monkeypatch.setattr(Partition, "park", moved)
        session_id = await made.one.talk(begin)
        if moves != "before":
            await made.moves_to(1)
            await comes_true("it is known", lambda: not made.partition.waiting_fetches.consumers)
        request = asked("t", {}, session_id=session_id, session_epoch=1, max_wait_ms=0)
        assert await made.one.talk(lambda client: _values(client, request)) == [b"a"]


async def test_who_waits_for_much_waits_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with replicated(tmp_path, monkeypatch) as made, trio.open_nursery() as nursery:
        await made.leads()
        for _ in range(3):
            await made.one.talk(lambda client: produce(client, "t", b"x" * 1000))
        await made.follows(epoch=2)
        waiting = Waiting(made, lambda client: fetch(client, min_bytes=2500, max_wait_ms=FOR_LONG_MS), nursery)
        await waiting.begins()
        heard: list[Partition] = []
        hear = Partition.heard

        def noted(partition: Partition) -> None:
            hear(partition)
            heard.append(partition)

        monkeypatch.setattr(Partition, "heard", noted)
        for high_watermark in (1, 2):
            await made.moves_to(high_watermark)
            await comes_true("it was looked at", lambda count=high_watermark: len(heard) == count)
        assert waiting.answers == []
        await made.moves_to(3)
        assert len(values(await waiting.answer())) == 3


@pytest.mark.parametrize("epoch", [-1, 1])
async def test_a_change_of_roles_ends_a_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: int) -> None:
    """Of those who believe in the older leader epoch; others wait on, at whom they have become a client of."""
    async with replicated(tmp_path, monkeypatch) as made, trio.open_nursery() as nursery:
        await made.follows()

        def ask(client: Client) -> Row:
            return fetch(client, epoch=epoch, min_bytes=1, max_wait_ms=FOR_LONG_MS)

        waiting = Waiting(made, ask, nursery)
        await waiting.begins()
        await made.follows(epoch=2)
        if epoch == 1:
            assert (await waiting.answer()).error_code == FencedLeaderEpoch.code
            return
        assert waiting.answers == []
        await made.leads(epoch=3)
        assert waiting.answers == []
        await made.one.talk(lambda client: produce(client, "t", b"a"))
        made.other_has(1)
        assert values(await waiting.answer()) == [b"a"]


async def test_who_waits_at_a_leader_may_go_on_at_the_follower_that_it_becomes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicated(tmp_path, monkeypatch) as made, trio.open_nursery() as nursery:
        await made.leads()
        await made.one.talk(lambda client: produce(client, "t", b"a"))
        in_a_session = {"session_epoch": 0, "min_bytes": 1, "max_wait_ms": FOR_LONG_MS}
        waiting = Waiting(made, lambda client: fetch(client, **in_a_session), nursery)
        await waiting.begins()
        await made.follows(epoch=2)
        await made.moves_to(1)
        assert values(await waiting.answer()) == [b"a"]


async def test_a_replica_that_goes_away_ends_a_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with replicated(tmp_path, monkeypatch) as made, trio.open_nursery() as nursery:
        await made.follows()
        waiting = Waiting(made, lambda client: fetch(client, min_bytes=1, max_wait_ms=FOR_LONG_MS), nursery)
        await waiting.begins()
        await made.one.broker.replicas.stop("t", 0, delete=False)
        assert (await waiting.answer()).error_code != 0


# --- the setting ---


@pytest.mark.parametrize("name", ["", "org.apache.kafka.common.replica.LeaderSelector", "com.example.Nearest"])
async def test_no_other_selector_is_to_be_had(tmp_path: Path, name: str) -> None:
    given = {"log.dirs": str(tmp_path), "replica.selector.class": name}
    with pytest.raises(ConfigError, match=r"replica\.selector\.class: it must be org\.apache\.kafka\..*Rack"):
        async with Broker.start(BrokerConfig(given)):
            pass
