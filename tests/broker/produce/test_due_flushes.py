"""A flush that is due (`flush.messages`) is done before the append that made it due is acknowledged, as with Kafka.

The disk is slow: flushes that are asked for begin when a test lets them go.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from ottla.errors import StorageError
from ottla.replication import leading
from ottla.replication.in_sync import now_ms
from ottla.replication.partition import Partition
from tests.support.another_replica import with_another_replica
from tests.support.leased import One, produce, started
from tests.support.slow_disk import SlowDisk
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = pytest.mark.trio

EACH = {"log.flush.interval.messages": "1"}
ACKS = pytest.mark.parametrize("acks", [1, -1])
#: On the loop, and on an I/O thread.
SIZES = pytest.mark.parametrize("size", [10, 200_000], ids=["small", "large"])


class Writes:
    """Produces under way to partition 0 of topic "t", and their answers (error code, offset) in the order in which they
    came.
    """

    def __init__(self, one: One, nursery: trio.Nursery) -> None:
        self.answers: list[tuple[int, int]] = []
        self._one = one
        self._nursery = nursery

    def begin(self, acks: int, size: int = 10) -> None:
        async def write() -> None:
            self.answers.append(await self._one.talk(lambda client: produce(client, "t", b"x" * size, acks=acks)))

        self._nursery.start_soon(write)


@asynccontextmanager
async def slow(
    path: Path, monkeypatch: pytest.MonkeyPatch, **settings: str
) -> AsyncIterator[tuple[One, Partition, SlowDisk, Writes]]:
    """A broker that leads a partition alone."""
    async with started(path, monkeypatch, **settings) as one, trio.open_nursery() as nursery:
        partition = await one.create("t")
        yield one, partition, SlowDisk(one, monkeypatch), Writes(one, nursery)


@ACKS
@SIZES
async def test_the_answer_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acks: int, size: int
) -> None:
    async with slow(tmp_path, monkeypatch, **EACH) as (_, partition, disk, writes):
        writes.begin(acks, size)
        await comes_true("a flush is asked for", lambda: bool(disk.asked))
        await comes_true("the record is there", lambda: partition.log.end_offset == 1)
        assert partition.waiting_produces, "its answer waits"
        assert (writes.answers, partition.log.settled_offset) == ([], 0)
        disk.go_on()
        await comes_true("the answer", lambda: writes.answers == [(0, 0)])
        assert partition.log.flushed_offset == 1


@ACKS
async def test_under_a_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acks: int) -> None:
    settings = {"log.flush.interval.messages": "2", "log.flush.on.acks.all": "false"}
    async with started(tmp_path, monkeypatch, **settings) as one, trio.open_nursery() as nursery:
        partition = await one.create("t")
        assert await one.talk(lambda client: produce(client, "t", b"grants")) == (0, 0)
        await one.writes_quickly()
        assert partition.lease is not None, "the next one comes under a lease"
        disk, writes = SlowDisk(one, monkeypatch), Writes(one, nursery)
        asked = one.asked
        writes.begin(acks)
        await comes_true("a flush is asked for", lambda: bool(disk.asked))
        assert one.asked == asked, "nobody in Python decided"
        assert partition.waiting_produces, "its answer waits"
        disk.go_on()
        await comes_true("the answer", lambda: writes.answers == [(0, 1)])
        assert partition.log.flushed_offset == 2


async def test_what_others_have_waits_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, monkeypatch, **EACH) as one, trio.open_nursery() as nursery:
        partition = await with_another_replica(one)
        disk, writes = SlowDisk(one, monkeypatch), Writes(one, nursery)
        writes.begin(-1)
        await comes_true("a flush is asked for", lambda: bool(disk.asked))
        assert partition.in_sync is not None
        other = one.broker.id + 1
        assert leading.followed(partition, other, 1, 0, 1, now_ms())
        assert (partition.log.high_watermark, bool(partition.waiting_produces)) == (1, True), (
            "the disk does not have it"
        )
        disk.go_on()
        await comes_true("the answer", lambda: writes.answers == [(0, 0)])


async def test_a_flush_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with slow(tmp_path, monkeypatch, **EACH) as (_, partition, disk, writes):
        writes.begin(1)
        await comes_true("a flush is asked for", lambda: bool(disk.asked))
        await comes_true("its answer waits", lambda: bool(partition.waiting_produces))
        partition.flush_failed()
        await comes_true("the answer", lambda: writes.answers == [(StorageError.code, -1)])


async def test_what_comes_before_a_flush_is_due_waits_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with slow(tmp_path, monkeypatch, **{"log.flush.interval.messages": "3"}) as (one, partition, disk, _):
        with trio.fail_after(PATIENCE_S):
            for offset in range(2):
                assert await one.talk(lambda client: produce(client, "t", b"a")) == (0, offset)
        assert (disk.asked, partition.log.flushed_offset) == ([], 0)
