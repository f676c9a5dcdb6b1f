"""The replica fetcher as Python has it: a leader's logs behind a real hub, a follower's beside them. What each kind of
answer does is tested in Rust (`rust/replication/tests`).
"""

from collections.abc import Callable
from contextlib import closing

import pytest

from ottla._core import (
    FetcherFigures,
    FetchRow,
    Log,
    PartitionToFetch,
    Request,
)
from tests.net.support import batch, serving
from tests.replication.scripted_leader import Leader, fetcher, following, leading, listen

__all__ = ["following", "leading"]

pytestmark = pytest.mark.trio


def content(log: Log) -> bytes:
    read = log.read(log.start_offset, 1 << 20)
    return b"" if read.slice is None else read.slice.read()


def write(log: Log, *values: bytes) -> None:
    log.append_bytes(batch(*values), 4)


def lags(figures: FetcherFigures) -> list[tuple[str, int, int]]:
    return [(each.topic, each.partition, each.lag) for each in figures.lags]


def to_fetch(logs: list[Log]) -> list[PartitionToFetch]:
    """The topic's partitions from 0 on, in the epoch of `write`."""
    return [PartitionToFetch("t", partition, log, leader_epoch=4) for partition, log in enumerate(logs)]


@pytest.mark.parametrize("version", [11, 12])
async def test_a_follower_gets_what_its_leader_has(version: int, leading: list[Log], following: list[Log]) -> None:
    leader = Leader(leading)
    write(leading[0], b"a", b"b")
    leading[0].high_watermark = 1
    async with serving(leader) as one:
        with closing(fetcher(one, fetch_version=version)) as fetching:
            heard = listen(one, fetching)
            fetching.add(to_fetch(following))
            await one.until(lambda: following[0].end_offset == 2 and len(leader.asked) == 2)
            epoch = 4 if version == 12 else -1
            assert leader.asked == [(0, 0, [(0, 0, 4, -1), (1, 0, 4, -1)]), (7, 1, [(0, 2, 4, epoch)])]
            assert following[0].high_watermark == 1
            for number in range(20):
                write(leading[number % 2], b"x" * number)
                leading[number % 2].advance_high_watermark()
                leader.answer()
                log, other = following[number % 2], leading[number % 2]
                await one.until(lambda log=log, other=other: log.high_watermark == other.end_offset)  # type: ignore[misc]
            assert [content(log) for log in following] == [content(log) for log in leading]
            assert following[0].leader_epochs == leading[0].leader_epochs
            figures = fetching.figures()
            assert figures.partitions == 2
            assert figures.requests >= 21
            assert figures.bytes > sum(log.size_bytes for log in leading)
            assert 0 < figures.buffer_bytes <= 65536
            assert lags(figures) == [("t", 0, 0), ("t", 1, 0)]
            assert heard == []


async def test_an_empty_follower_of_a_log_that_starts_inside_a_batch(leading: list[Log], following: list[Log]) -> None:
    """Records were deleted up to there, and the leader sends the batch whole."""
    (log, _), (follower, _) = leading, following
    write(log, *(b"%d" % number for number in range(10)))
    write(log, b"more")
    log.advance_high_watermark()
    log.set_start_offset(5)
    async with serving(Leader(leading)) as one:
        with closing(fetcher(one)) as fetching:
            heard = listen(one, fetching)
            # As `Following` does when it hears that 0 is out of range.
            follower.truncate_fully_and_start_at(5, 4)
            fetching.add(to_fetch([follower]))
            await one.until(lambda: bool(heard) or follower.high_watermark == 11)
            await one.until(lambda: bool(heard) or follower.start_offset == 5)
            assert heard == []
    assert (follower.start_offset, follower.end_offset) == (5, 11)
    assert content(follower) == content(log)
    assert follower.leader_epochs == log.leader_epochs


async def test_events_wake_the_loop_again_and_again(leading: list[Log], following: list[Log]) -> None:
    leader = Leader(leading)
    leader.instead = {0: FetchRow(high_watermark=0, log_start_offset=0, diverging_epoch=(3, 0)), 1: FetchRow(6)}
    async with serving(leader) as one:
        with closing(fetcher(one)) as fetching:
            heard = listen(one, fetching)
            fetching.add(to_fetch(following))
            await one.until(lambda: len(heard) == 2)
            heard.sort(key=lambda event: event.partition)
            told = [(event.topic, event.partition, event.leader_epoch, event.kind, event.code) for event in heard]
            assert told == [("t", 0, 4, "diverged", 0), ("t", 1, 4, "delayed", 6)]
            assert (heard[0].epoch, heard[0].offset) == (3, 0)
            assert "diverged" in repr(heard[0])
            assert heard[0].message in repr(heard[0])
            # The delayed one is asked for again, the diverged one when it is added again.
            write(leading[0], b"a")
            write(leading[1], b"b")
            leader.instead = {}
            await one.until(lambda: following[1].end_offset == 1)
            assert following[0].end_offset == 0
            assert fetching.figures().partitions == 1
            fetching.add(to_fetch(following[:1]))
            # The Fetch that asks without it may still be on its way.
            await one.until(lambda: leader.kept is not None)
            leader.answer(is_due=True)
            await one.until(lambda: following[0].end_offset == 1)
            # Events are news again after they were taken.
            del heard[:]
            leader.instead = {1: FetchRow(74)}
            leader.answer()
            await one.until(lambda: heard)
            assert [(event.partition, event.kind, event.code) for event in heard] == [(1, "fenced", 74)]
            assert fetching.events() == []


async def test_a_lost_connection_is_told_and_made_anew(leading: list[Log], following: list[Log]) -> None:
    leader: Callable[[Request], None] = Leader(leading)
    is_refusing = True

    def handler(request: Request) -> None:
        if is_refusing:
            request.close("not now")
        else:
            leader(request)

    async with serving(handler) as one:
        with closing(fetcher(one)) as fetching:
            heard = listen(one, fetching)
            fetching.add(to_fetch(following[:1]))
            await one.until(lambda: len(one.gone) >= 3)
            (event,) = heard
            assert (event.topic, event.partition, event.leader_epoch, event.kind) == ("", -1, -1, "connection")
            assert "closed the connection" in event.message
            write(leading[0], b"a")
            is_refusing = False
            await one.until(lambda: following[0].end_offset == 1)


async def test_nothing_is_appended_after_remove_and_close(leading: list[Log], following: list[Log]) -> None:
    leader = Leader(leading)
    async with serving(leader) as one:
        with closing(fetcher(one)) as fetching:
            fetching.add(to_fetch(following))
            await one.until(lambda: len(leader.asked) == 2 and leader.kept)
            fetching.remove([("t", 0), ("gone", 3)])
            for log in leading:
                write(log, b"a")
            leader.answer()
            await one.until(lambda: following[1].end_offset == 1)
            assert following[0].end_offset == 0
            assert lags(fetching.figures()) == [("t", 1, 0)]
            # A read that is in progress is interrupted.
            fetching.close()
            fetching.add(to_fetch(following[:1]))
            leader.answer(is_due=True)
            await one.until(lambda: one.hub.connections == 0)
            assert following[0].end_offset == 0


async def test_versions_that_it_does_not_speak() -> None:
    async with serving(lambda request: None) as one:
        for version in (10, 13):
            with pytest.raises(ValueError, match=f"fetch_version {version}: 11 or 12"):
                fetcher(one, fetch_version=version)
