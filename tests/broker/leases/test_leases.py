"""Plain Produces and Fetches are served without asking Python, and nothing else is.

How many come to Python all the same is no exact number: behind a write that took long the next append is a thread's.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla._core import BatchBuilder, RecordReader
from ottla.errors import (
    CorruptMessage,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    OutOfOrderSequenceNumber,
    TransactionalIdAuthorizationFailed,
    UnknownLeaderEpoch,
)
from ottla.metrics.families import TIMES
from ottla.replication.partition import Partition
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.support.client import Client, batch, values
from tests.support.leased import One, produce, started
from tests.support.message_sets import message_set
from tests.support.settings import alter
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = [pytest.mark.trio, pytest.mark.usefixtures("leases_on")]


async def test_plain_produces_come_to_python_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, monkeypatch) as one:
        partition = await one.create("plain")
        answers = []

        def talk(client: Client) -> None:
            for number in range(20):
                answers.append(produce(client, "plain", b"%d" % number, b"x"))
                client.produce_silently("plain", batch(b"silent"))

        assert await one.needed(talk) < 20
        assert answers == [(0, 3 * number) for number in range(20)]
        assert await one.talk(lambda client: values(client.fetch("plain"))) == [
            value for number in range(20) for value in (b"%d" % number, b"x", b"silent")
        ]
        assert partition.log.high_watermark == 60


class Waiting:
    """Fetches from the end of a partition that wait for records, each on a connection of its own: at most 20 s."""

    def __init__(self, one: One, partition: Partition, nursery: trio.Nursery) -> None:
        self.answers: list[FetchResponse] = []
        self._one = one
        self._partition = partition
        self._nursery = nursery

    @property
    def count(self) -> int:
        return self._one.broker.server.hub.waiting_fetches

    async def add(self, **options: Any) -> None:
        """Returns when it waits in the hub."""
        options = {"max_wait_ms": 300_000, "min_bytes": 1, **options}
        topic, offset, before = self._partition.topic, self._partition.log.high_watermark, self.count

        async def wait() -> None:
            self.answers.append(await self._one.talk(lambda client: client.fetch(topic, offset, **options)))

        self._nursery.start_soon(wait)
        await comes_true("one more call", lambda: self.count != before)

    async def answered(self, count: int) -> list[list[bytes]]:
        """The values that each of them got."""
        await comes_true(f"answer {count}", lambda: len(self.answers) >= count)
        return [values(answer) for answer in self.answers]


@asynccontextmanager
async def waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch, **settings: str
) -> AsyncIterator[tuple[One, Any, Waiting]]:
    """A partition with a lease and one record, and those who wait for more."""
    async with started(path, monkeypatch, **settings) as one:
        partition = await one.create("awaited")
        await one.talk(lambda client: produce(client, "awaited", b"a"))
        await one.writes_quickly()
        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                yield one, partition, Waiting(one, partition, nursery)


async def test_who_waits_for_records_is_woken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(client: Client) -> None:
        assert produce(client, "awaited", b"b") == (0, 1)

    async with waited_for(tmp_path, monkeypatch) as (one, partition, waiting):
        before = one.asked
        await waiting.add()
        await waiting.add()
        await one.talk(write)
        assert await waiting.answered(2) == [[b"b"]] * 2
        assert waiting.count == 0
        assert one.asked == before
        assert partition.log.high_watermark == 2


async def test_who_waits_in_python_is_woken_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with waited_for(tmp_path, monkeypatch) as (one, partition, waiting):
        await waiting.add()
        got = []

        async def wait() -> None:
            in_a_session = {"max_wait_ms": 300_000, "min_bytes": 1, "session_epoch": 0}
            got.append(values(await one.talk(lambda client: client.fetch("awaited", 1, **in_a_session))))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await comes_true("a Fetch that waits", lambda: partition.waiting_fetches.consumers)
            await one.talk(lambda client: produce(client, "awaited", b"b"))
            # Not left to the nursery: a thread cannot be cancelled, and comes back when its Fetch has waited in vain.
            await comes_true("an answer", lambda: got)
        assert got == [[b"b"]]
        assert await waiting.answered(1) == [[b"b"]]


async def test_records_that_python_appends_wake_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(client: Client) -> None:
        rows = [PartitionProduceData(partition_index=0, records=batch(b"twice"))] * 2
        topics = [TopicProduceData(name="awaited", partitions=rows)]
        client.send_only(PRODUCE, 8, ProduceRequest(transactional_id=None, acks=0, timeout_ms=60_000, topics=topics))

    def durably(client: Client) -> None:
        assert produce(client, "awaited", b"durable", acks=-1)[0] == 0

    async with waited_for(tmp_path, monkeypatch) as (one, _, waiting):
        for count, write in enumerate((twice, durably)):
            await waiting.add()
            before = one.asked
            await one.talk(write)
            await waiting.answered(count + 1)
            assert one.asked == before + 1
        assert await waiting.answered(2) == [[b"twice", b"twice"], [b"durable"]]


async def test_who_waits_for_more_bytes_is_not_woken_by_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with waited_for(tmp_path, monkeypatch) as (one, _, waiting):
        await waiting.add(min_bytes=300)
        await one.talk(lambda client: produce(client, "awaited", b"b"))
        assert waiting.count == 1
        await one.talk(lambda client: produce(client, "awaited", b"c" * 300))
        assert await waiting.answered(1) == [[b"b", b"c" * 300]]


async def test_who_waited_long_enough_gets_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with waited_for(tmp_path, monkeypatch) as (one, partition, waiting):
        await waiting.add(max_wait_ms=15_000)
        before = one.asked
        for max_wait_ms in (30, 10, 1):
            await waiting.add(max_wait_ms=max_wait_ms, min_bytes=100_000)
        assert await waiting.answered(3) == [[]] * 3
        assert waiting.count == 1
        assert one.asked == before
        answer = waiting.answers[0].responses[0].partition_responses[0]
        assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 1, 1)
        partition.end_lease()


async def test_the_end_of_a_lease_is_the_end_of_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next Fetch is told what happened."""
    async with waited_for(tmp_path, monkeypatch) as (one, partition, waiting):
        await waiting.add()
        await waiting.add()
        partition.resign()
        assert await waiting.answered(2) == [[], []]
        assert waiting.count == 0
        rows = [answer.responses[0].partition_responses[0] for answer in waiting.answers]
        assert [(row.error_code, row.high_watermark) for row in rows] == [(0, 1)] * 2
        answer = await one.talk(lambda client: client.fetch("awaited", 1))
        assert answer.responses[0].partition_responses[0].error_code == NotLeaderOrFollower.code


async def test_a_client_that_waits_and_goes_away_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask_and_leave(client: Client) -> None:
        rows = [FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)]
        topics = [FetchTopic(topic="awaited", partitions=rows)]
        client.send_only(FETCH, 11, FetchRequest(replica_id=-1, max_wait_ms=300_000, min_bytes=1, topics=topics))

    async with waited_for(tmp_path, monkeypatch) as (one, _, waiting):
        await one.talk(ask_and_leave)
        await comes_true("a request that waits", lambda: waiting.count != 0)
        await waiting.add()
        await one.talk(lambda client: produce(client, "awaited", b"b"))
        assert await waiting.answered(1) == [[b"b"]]
        assert waiting.count == 0


async def test_a_broker_that_stops_lets_nobody_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            async with started(tmp_path, monkeypatch) as one:
                partition = await one.create("awaited")
                await one.talk(lambda client: produce(client, "awaited", b"a"))
                waiting = Waiting(one, partition, nursery)
                await waiting.add()
            assert await waiting.answered(1) == [[]]


async def test_where_the_hub_sees_no_deadlines_nobody_waits_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second broker in the same run is served by a task."""
    async with started(tmp_path / "one", monkeypatch), started(tmp_path / "other", monkeypatch) as other:
        partition = await other.create("awaited")
        await other.talk(lambda client: produce(client, "awaited", b"a"))
        assert partition.lease is not None
        assert values(await other.talk(lambda client: client.fetch("awaited", 1, max_wait_ms=30, min_bytes=1))) == []
        got = []

        async def wait() -> None:
            got.append(
                values(await other.talk(lambda client: client.fetch("awaited", 1, max_wait_ms=300_000, min_bytes=1)))
            )

        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await comes_true("a Fetch that waits", lambda: partition.waiting_fetches.consumers)
                assert other.broker.server.hub.waiting_fetches == 0
                await other.talk(lambda client: produce(client, "awaited", b"b"))
                await comes_true("an answer", lambda: got)
        assert got == [[b"b"]]


async def test_acks_all_of_one_replica_is_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where answers do not wait for the disk. With a setting that asks for more replicas it is Python's again."""

    def write(client: Client) -> None:
        for _ in range(5):
            assert produce(client, "all", b"v", acks=-1)[0] == 0

    settings = {"log.flush.on.acks.all": "false"}
    async with started(tmp_path, monkeypatch, **settings) as one:
        partition = await one.create("all")
        await one.talk(lambda client: produce(client, "all", b"v"))
        assert await one.needed(write) < 5
        assert partition.log.high_watermark == 6
        partition.change(min_insync_replicas=2)
        assert partition.lease is None
        await one.talk(lambda client: produce(client, "all", b"v"))

        def refused(client: Client) -> None:
            assert produce(client, "all", b"v", acks=-1)[0] == NotEnoughReplicas.code

        assert partition.lease is not None
        assert await one.needed(refused) == 1


async def test_whether_acks_all_waits_for_the_disk_changes_while_the_broker_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(tmp_path, monkeypatch) as one:
        partition = await one.create("all")

        async def is_flushed(value: str | None) -> bool:
            assert await one.talk(lambda client: alter(client, "log.flush.on.acks.all", value)) == (0, None)
            await comes_true("the change of the setting", lambda: partition.flush_on_acks_all == (value is None))
            await one.talk(lambda client: [produce(client, "all", b"v", acks=-1) for _ in range(3)])
            return partition.log.flushed_offset == partition.log.end_offset

        assert [await is_flushed(value) for value in (None, "false", None)] == [True, False, True]


async def test_with_another_replica_in_sync_the_high_watermark_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(tmp_path, monkeypatch) as one:
        partition = await one.create("shared")
        changed = _next(partition, leader_epoch=1, replicas=(one.broker.id, 7), isr=(one.broker.id, 7))
        await one.broker.replicas.apply("shared", {0: changed})

        def write(client: Client) -> list[tuple[int, int]]:
            return [produce(client, "shared", b"v") for _ in range(3)]

        assert await one.talk(write) == [(0, 0), (0, 1), (0, 2)]
        assert partition.lease is not None
        assert (partition.log.end_offset, partition.log.high_watermark) == (3, 0)


def others() -> dict[str, Callable[[Client], None]]:
    """What is not plain, or not right."""
    damaged = bytearray(batch(b"damaged"))
    damaged[-1] ^= 1

    def refused(records: bytes, code: int) -> Callable[[Client], None]:
        def talk(client: Client) -> None:
            answer = client.produce("t", records, acks=1)
            assert answer.responses[0].partitions[0].error_code == code

        return talk

    def two(client: Client) -> None:
        rows = [PartitionProduceData(partition_index=index, records=batch(b"two")) for index in range(2)]
        topics = [TopicProduceData(name="t", partitions=rows)]
        answer = client.call(PRODUCE, ProduceRequest(transactional_id=None, acks=1, timeout_ms=60_000, topics=topics))
        assert [row.error_code for row in answer.responses[0].partitions] == [0, 0]

    def old(client: Client) -> None:
        answer = client.produce("t", message_set(1, "none", (0, None, b"old")), acks=1, version=2)
        assert answer.responses[0].partitions[0].error_code == 0

    builder = BatchBuilder(compression="zstd")
    builder.append(1_700_000_000_000, None, b"z" * 100)
    zstd = builder.finish()

    def early_zstd(client: Client) -> None:
        assert client.produce("t", zstd, acks=1, version=6).responses[0].partitions[0].error_code == 76

    return {
        "acks=all": lambda client: assert_equal(produce(client, "t", b"all", acks=-1)[0], 0),
        "two partitions": two,
        "an old format": old,
        "zstd too early": early_zstd,
        "no records": refused(b"", 87),
        "of a transaction": refused(
            batch(b"t", producer_id=8, producer_epoch=0, base_sequence=0, transactional=True),
            TransactionalIdAuthorizationFailed.code,
        ),
        "damaged": refused(bytes(damaged), CorruptMessage.code),
        "too large": refused(batch(b"x" * 1_200_000), MessageTooLarge.code),
        "large": lambda client: assert_equal(produce(client, "t", b"x" * 300_000)[0], 0),
        "a gap in the sequence": refused(
            batch(b"gap", producer_id=9, producer_epoch=0, base_sequence=5), OutOfOrderSequenceNumber.code
        ),
    }


def assert_equal(one: object, other: object) -> None:
    assert one == other


async def test_what_is_not_plain_comes_to_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = batch(b"first", producer_id=9, producer_epoch=0, base_sequence=0)
    refused = {"of a transaction", "zstd too early", "no records", "damaged", "too large", "a gap in the sequence"}
    async with started(tmp_path, monkeypatch) as one:
        partition = await one.create("t", 2)
        await one.talk(lambda client: client.produce("t", first, acks=1))
        for name, conversation in others().items():
            end = partition.log.end_offset

            assert partition.lease is not None
            assert await one.needed(conversation) == 1, name
            assert partition.log.end_offset == end + (name not in refused), name


async def test_a_repeated_batch_keeps_its_offset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, monkeypatch) as one:
        await one.create("retried")
        answers: list[tuple[int, int]] = []

        def talk(client: Client) -> list[tuple[int, int]]:
            me = {"producer_id": 5, "producer_epoch": 0}
            return [produce(client, "retried", b"v", base_sequence=at, **me) for at in (0, 1, 1, 0, 2)]

        assert await one.needed(lambda client: answers.extend(talk(client))) < 5
        assert answers == [(0, 0), (0, 1), (0, 1), (0, 0), (0, 2)]


async def test_whatever_happens_to_the_partition_ends_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(client: Client) -> None:
        assert produce(client, "moving", b"v")[0] == 0

    def refused(client: Client) -> None:
        assert [produce(client, "moving", b"v")[0] for _ in range(2)] == [6, 6]

    async with started(tmp_path, monkeypatch) as one:
        partition = await one.create("moving")
        me = one.broker.id

        async def led_by(broker_id: int) -> None:
            epoch = partition.leader_epoch + 1
            await one.broker.replicas.apply("moving", {0: _next(partition, leader_epoch=epoch, leader=broker_id)})
            assert partition.lease is None

        for end in (lambda: led_by(7), partition.resign):
            await led_by(me)
            await one.talk(write)
            assert partition.lease is not None
            await led_by(me)
            assert await one.needed(write) == 1
            assert partition.lease is not None
            if (ending := end()) is not None:
                await ending
            assert await one.needed(refused) == 2


def _next(partition: Partition, **changes: object) -> Any:
    from msgspec.structs import replace

    return replace(partition.state, **changes)


async def test_a_topic_of_the_same_name_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, monkeypatch) as one:
        await one.create("again")

        def write(client: Client) -> tuple[int, int]:
            produce(client, "again", b"v")
            return produce(client, "again", b"v")

        assert await one.talk(write) == (0, 1)
        await one.talk(lambda client: client.delete_topic("again"))
        await one.broker.metadata.wait_until(lambda: "again" not in one.broker.metadata.topics)
        await one.create("again")
        assert await one.talk(write) == (0, 1)


async def test_a_stopped_broker_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub holds the partition, and that (by what ends its lease) the hub: a cycle that no collector sees."""
    async with started(tmp_path, monkeypatch) as one:
        partition = await one.create("left")
        await one.talk(lambda client: produce(client, "left", b"v"))
        assert partition.lease is not None
    assert partition.lease is None


async def test_measured_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, monkeypatch) as one:
        hub = one.broker.server.hub
        hub.measure(one.broker.logs.directories.traffic)
        await one.create("measured")
        await one.talk(lambda client: [produce(client, "measured", b"v") for _ in range(5)])
        api = next(api for api in hub.measured() if api.key == 0)
        assert api.versions == [(8, 5)]
        assert [getattr(api, part).count for part in TIMES] == [5] * len(TIMES)
        assert api.size_bytes.count == 5
        assert api.errors == [(0, 5)]


async def test_plain_fetches_need_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, monkeypatch) as one:
        partition = await one.create("read", 2)
        for index in range(2):
            one.broker.replicas.partitions["read", index].log.append_bytes(batch(b"a%d" % index, b"b", b"c"), 0)
            one.broker.replicas.partitions["read", index].advance_high_watermark()
        first = await one.talk(lambda client: client.fetch("read"))
        assert partition.lease is not None

        def talk(client: Client) -> None:
            for _ in range(3):
                assert client.fetch("read") == first
                assert client.fetch("read", max_wait_ms=300_000, min_bytes=10, current_leader_epoch=0) == first
                assert values(client.fetch("read", 3)) == []

        assert await one.needed(talk) == 0
        assert values(first) == [b"a0", b"b", b"c"]

        def both(client: Client) -> list[bytes]:
            rows = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in (0, 1)]
            request = FetchRequest(replica_id=-1, max_wait_ms=0, topics=[FetchTopic(topic="read", partitions=rows)])
            answer = client.call(FETCH, request, 11)
            return [next(iter(RecordReader(row.record_set))).value for row in answer.responses[0].partition_responses]

        got: list[list[bytes]] = []
        for needed in (1, 0):
            # The first one grants the other partition a lease.
            assert await one.needed(lambda client: got.append(both(client))) == needed
        assert got == [[b"a0", b"a1"]] * 2


async def test_fetches_that_are_not_plain_come_to_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def error(answer: FetchResponse) -> int:
        return answer.responses[0].partition_responses[0].error_code

    conversations: dict[str, tuple[Callable[[Client], FetchResponse], int]] = {
        "an unknown isolation": (lambda client: client.fetch("read", isolation_level=2), 0),
        "a session": (lambda client: client.fetch("read", session_epoch=0), 0),
        "a version without batches": (lambda client: client.fetch("read", version=3), 0),
        "a newer epoch": (lambda client: client.fetch("read", current_leader_epoch=5), UnknownLeaderEpoch.code),
        "beyond the end": (lambda client: client.fetch("read", 9), OffsetOutOfRange.code),
    }
    async with started(tmp_path, monkeypatch) as one:
        partition = await one.create("read")
        await one.talk(lambda client: produce(client, "read", b"a"))
        for name, (conversation, code) in conversations.items():
            assert partition.lease is not None

            def talk(client: Client, ask: Callable[[Client], FetchResponse] = conversation, code: int = code) -> None:
                assert error(ask(client)) == code

            assert await one.needed(talk) == 1, name


async def test_fetches_are_measured_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, monkeypatch) as one:
        hub = one.broker.server.hub
        hub.measure(one.broker.logs.directories.traffic)
        await one.create("measured")
        await one.talk(lambda client: produce(client, "measured", b"v"))
        assert await one.needed(lambda client: [client.fetch("measured") for _ in range(5)]) == 0
        api = next(api for api in hub.measured() if api.key == 1)
        assert api.versions == [(11, 5)]
        assert [getattr(api, part).count for part in TIMES] == [5] * len(TIMES)
        assert api.errors == [(0, 10)]
