"""The partitions that a broker follows, with scripted fetchers and leaders on real logs, and a clock of the test's own.
What a native fetcher does is in `test_fetcher.py`.
"""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

import ottla.replication.questions
from ottla._core import Log
from ottla.errors import (
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    RemoteProtocolError,
    StorageError,
)
from ottla.kafka import EARLIEST, LATEST, NO_LEADER
from ottla.replication.following import FAILED_S
from ottla.wire.k02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)
from tests.net.support import batch
from tests.replication.followers import BACKOFF_S, EPOCH, LEADER, ME, OTHER, Event, Stand, following, keys
from tests.support.loop_steps import counted

pytestmark = pytest.mark.trio

CORRUPT = 2
#: Each takes some twenty lines of Python, and others have their turns after a few of them.
MANY, LINES_OF_STEP_MAX = 90, 800
ROWS_OF_QUESTION = 15
MORE_KINDS = ("diverged", "fenced", "delayed")


def offsets(**of: int | list[int]) -> Callable[[ListOffsetsRequest], ListOffsetsResponse]:
    """Answers ListOffsets with `start` or `end`, or with a `code`; a list has one for each row of the answer."""

    def answer(asked: ListOffsetsRequest) -> ListOffsetsResponse:
        assert asked.replica_id == ME
        rows = [row for topic in asked.topics for row in topic.partitions]
        (timestamp,) = {row.timestamp for row in rows}
        told = of["start" if timestamp == EARLIEST else "end"] if "code" not in of else -1
        several = told if isinstance(told, list) else [told] * len(rows)
        code = of.get("code", 0)
        assert isinstance(code, int)
        answered = [
            ListOffsetsPartitionResponse(partition_index=row.partition_index, offset=offset, error_code=code)
            for row, offset in zip(rows, several, strict=True)
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=answered)])

    return answer


def epoch_end(
    epoch: int, offset: int, code: int = 0
) -> Callable[[OffsetForLeaderEpochRequest], OffsetForLeaderEpochResponse]:
    """Answers OffsetsForLeaderEpoch so, for every row."""

    def answer(asked: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        assert asked.replica_id == ME
        rows = [
            OffsetForLeaderPartitionResult(
                partition_index=row.partition_index, leader_epoch=epoch, end_offset=offset, error_code=code
            )
            for topic in asked.topics
            for row in topic.partitions
        ]
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(name="t", partitions=rows)])

    return answer


async def only_later(stand: Stand, clock: MockClock, again: Iterable[tuple[int, int]], fetcher: int = 0) -> None:
    """The partitions come to the fetcher again when the back-off is over, and not earlier."""
    before = [*stand.adds(fetcher)]
    await stand.settled()
    clock.jump(BACKOFF_S * 0.99)
    await stand.settled()
    assert stand.adds(fetcher) == before
    clock.jump(BACKOFF_S * 0.02)
    expected = [*before, *again]
    await stand.until(lambda: stand.adds(fetcher) == expected)


def said(caplog: pytest.LogCaptureFixture, text: str) -> int:
    return sum(text in record.getMessage() for record in caplog.records)


# --- logs that part ---


async def test_what_diverges_is_cut_off_and_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        first, second = await stand.follow(0, 0, 0, 1, 1), await stand.follow(1, 0)
        await stand.until(lambda: sorted(stand.adds()) == [(0, EPOCH), (1, EPOCH)])
        stand.tell(Event("diverged", epoch=1, offset=3))
        await stand.until(lambda: len(stand.adds()) == 3)
        assert stand.adds()[2] == (0, EPOCH)
        assert (first.log.end_offset, second.log.end_offset) == (3, 1)


async def test_an_epoch_that_its_leader_never_saw_is_cut_off_though_it_has_no_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This broker led and appended nothing: nothing is cut off but the epoch."""
    async with following(tmp_path, monkeypatch) as stand:
        (await stand.log(0)).begin_epoch(0)
        partition = await stand.follow(0, 0, 0)
        partition.log.begin_epoch(EPOCH)
        await stand.until(lambda: stand.adds() == [(0, EPOCH)])
        stand.tell(Event("diverged", epoch=0, offset=2))
        await stand.until(lambda: len(stand.adds()) == 2)
        assert (partition.log.end_offset, partition.log.leader_epoch) == (2, 0)


async def test_where_nothing_is_cut_off_the_leader_is_asked_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    """Else the two would talk as fast as they can, for ever."""
    async with following(tmp_path, monkeypatch) as stand:
        await stand.follow(0, 0, 0)
        await stand.until(lambda: stand.adds() == [(0, EPOCH)])
        stand.tell(Event("diverged", epoch=0, offset=7))
        await stand.until(lambda: stand.cuts)
        await only_later(stand, mock_clock, [(0, EPOCH)])


async def test_a_cut_below_the_high_watermark_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        partition = await stand.follow(0, 0, 0, 0)
        partition.log.high_watermark = 2
        await stand.until(lambda: stand.adds())
        stand.tell(Event("diverged", epoch=0, offset=1))
        await stand.until(lambda: len(stand.adds()) == 2)
        assert said(caplog, "t-0 is cut off at 1, below its high watermark 2") == 1
        assert partition.log.high_watermark == 1


async def test_a_log_without_epochs_keeps_what_is_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        log = await stand.log(0)
        fill_without_epochs(log)
        log.high_watermark = 2
        await stand.follow(0)
        await stand.until(lambda: stand.adds() == [(0, EPOCH)])
        assert (log.end_offset, log.leader_epoch) == (2, -1)


def fill_without_epochs(log: Log) -> None:
    for _ in range(3):
        log.append_bytes(batch(b"x"), -1)


async def test_a_cut_that_cannot_be_made_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        partition = await stand.follow(0, 0, 0)
        await stand.until(lambda: stand.adds())
        for error in (NotLeaderOrFollower(), StorageError("the disk is full")):
            stand.instead = [error]
            stand.tell(Event("diverged", epoch=0, offset=1))
            await stand.until(lambda: not stand.instead)
            await only_later(stand, mock_clock, [(0, EPOCH)])
        assert [partition for partition, _ in stand.storage_errors] == [partition]
        stand.tell(Event("diverged", epoch=0, offset=1))
        await stand.until(lambda: partition.log.end_offset == 1)


# --- what the leader does not have ---


async def test_a_leader_that_ends_earlier_has_the_rest_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        partition = await stand.follow(0, 0, 0, 0)
        await stand.until(lambda: stand.adds())
        stand.peers.answers = [offsets(end=1), offsets(start=0)]
        stand.tell(Event("out_of_range", code=OffsetOutOfRange.code, offset=3))
        await stand.until(lambda: len(stand.adds()) == 2)
        assert (partition.log.start_offset, partition.log.end_offset) == (0, 1)
        asked = [
            (broker, name, version, [row for topic in message.topics for row in topic.partitions])
            for broker, name, message, version in stand.peers.asked
        ]
        assert [(broker, name, version) for broker, name, version, _ in asked] == 2 * [(LEADER, "ListOffsets", 5)]
        rows = [(row.partition_index, row.current_leader_epoch, row.timestamp) for *_, rows in asked for row in rows]
        assert rows == [(0, EPOCH, LATEST), (0, EPOCH, EARLIEST)]


async def test_a_leader_that_starts_later_has_the_log_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        partition = await stand.follow(0, 0, 0, 0)
        await stand.until(lambda: stand.adds())
        stand.peers.answers = [offsets(end=20), offsets(start=10)]
        stand.tell(Event("out_of_range", code=OffsetOutOfRange.code, offset=3))
        await stand.until(lambda: len(stand.adds()) == 2)
        assert (partition.log.start_offset, partition.log.end_offset) == (10, 10)
        assert [cut.is_anew for cut in stand.cuts] == [True]


async def test_epochs_that_the_leader_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordination tree was put back from a backup: the leader has the offset, and begins epochs below the log's.
    Those without records are forgotten first. Then what is not committed is cut off, and no epochs are compared.
    """
    async with following(tmp_path, monkeypatch) as stand:
        partition = await stand.follow(0, 1, 2, 2)
        partition.log.begin_epoch(EPOCH)
        partition.log.high_watermark = 2
        await stand.until(lambda: stand.adds())
        in_range = [offsets(end=9), offsets(start=0)]
        stand.peers.answers = [*in_range, epoch_end(-1, -1)]
        stand.tell(Event("out_of_range", code=OffsetOutOfRange.code, offset=3))
        await stand.until(lambda: len(stand.adds()) == 2)
        assert (partition.log.end_offset, partition.log.leader_epoch) == (3, 2)
        assert not stand.fetchers[0].agreed
        stand.peers.answers = [*in_range, epoch_end(-1, -1)]
        stand.tell(Event("out_of_range", code=OffsetOutOfRange.code, offset=3))
        await stand.until(lambda: len(stand.adds()) == 3)
        assert (partition.log.end_offset, partition.log.leader_epoch) == (2, 2)
        assert stand.fetchers[0].agreed == {0}
        asked = [message.topics[0].partitions[0] for _, name, message, _ in stand.peers.asked if "Epoch" in name]
        assert [(row.current_leader_epoch, row.leader_epoch) for row in asked] == [(EPOCH, EPOCH), (EPOCH, 2)]
        # The next leader may know the epochs.
        await stand.follow(0, epoch=EPOCH + 1)
        await stand.until(lambda: len(stand.adds()) == 4)
        assert not stand.fetchers[0].agreed


async def test_records_of_a_newer_epoch_than_the_leaders_are_taken_where_the_leader_still_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Else they are a newer leader's, and were read from a log that was cut off meanwhile."""
    async with following(tmp_path, monkeypatch) as stand:
        await stand.follow(0)
        await stand.until(lambda: stand.adds())
        stand.peers.answers = [epoch_end(-1, -1, FencedLeaderEpoch.code)]
        stand.tell(Event("newer_epoch", code=CORRUPT, epoch=EPOCH + 3))
        await stand.until(lambda: not stand.peers.answers)
        await only_later(stand, mock_clock, [(0, EPOCH)])
        assert not stand.fetchers[0].agreed
        stand.peers.answers = [epoch_end(-1, -1)]
        stand.tell(Event("newer_epoch", code=CORRUPT, epoch=EPOCH + 3))
        await stand.until(lambda: len(stand.adds()) == 3)
        assert stand.fetchers[0].agreed == {0}
        assert said(caplog, "t-0 has records of leader epoch 7 at the leader of epoch 4") == 1


async def test_a_leader_that_has_come_to_have_it_is_asked_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        partition = await stand.follow(0, 0, 0, 0)
        await stand.until(lambda: stand.adds())
        stand.peers.answers = [offsets(end=3), offsets(start=3), epoch_end(0, 3)]
        stand.tell(Event("out_of_range", code=OffsetOutOfRange.code, offset=3))
        await stand.until(lambda: len(stand.adds()) == 2)
        stand.peers.answers = [offsets(end=3), offsets(start=3)]
        stand.tell(Event("out_of_range", code=OffsetOutOfRange.code, offset=3))
        await stand.until(lambda: not stand.peers.answers)
        await only_later(stand, mock_clock, [(0, EPOCH)])
        assert partition.log.end_offset == 3


async def test_many_logs_are_asked_for_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a long absence every log may end before its leader's starts."""
    async with following(tmp_path, monkeypatch) as stand:
        partitions = [await stand.follow(index, 0) for index in range(3)]
        await stand.until(lambda: len(stand.adds()) == 3)
        stand.peers.answers = [offsets(end=[0, 30, 30]), offsets(start=[0, 20, 10])]
        stand.tell(*(Event("out_of_range", partition=index, offset=1) for index in range(3)))
        await stand.until(lambda: len(stand.adds()) == 6)
        assert [partition.log.end_offset for partition in partitions] == [0, 20, 10]
        assert len(stand.peers.asked) == 2


@pytest.mark.parametrize(
    "kind", ["out_of_range", "corrupt", *(pytest.param(kind, marks=pytest.mark.judge) for kind in MORE_KINDS)]
)
async def test_many_are_decided_on_in_slices(
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mock_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """When a leader goes, or comes back with less, its followers hear that of thousands at once."""
    # A line that is written takes a hundred lines of Python. That there are not many of them is the log's own concern.
    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(ottla.replication.questions, "ROWS_MAX", ROWS_OF_QUESTION)
    with counted() as steps:
        async with following(tmp_path, monkeypatch) as stand:
            for index in range(MANY):
                await stand.follow(index, 0, 0)
            await stand.until(lambda: len(stand.adds()) == MANY)
            await stand.settled()
            stand.peers.answers = [offsets(end=1), offsets(start=0)] * (MANY // ROWS_OF_QUESTION)
            events = [Event(kind, partition=index, epoch=0, offset=1) for index in range(MANY)]
            tasks = trio.lowlevel.current_statistics().tasks_living
            await trio.lowlevel.checkpoint()
            steps.reset()
            stand.tell(*events)
            await stand.settled()
            assert trio.lowlevel.current_statistics().tasks_living <= tasks + MANY // 2
            mock_clock.jump(BACKOFF_S)
            await stand.until(lambda: kind == "delayed" or len(stand.adds()) == 2 * MANY)
            assert len(stand.cuts) == (MANY if kind in ("diverged", "out_of_range") else 0)
            assert steps.looked_at > MANY
            assert steps.longest < LINES_OF_STEP_MAX, steps.what


@pytest.mark.parametrize(
    "answer",
    [
        ConnectionError("it is gone"),
        RemoteProtocolError("these are no messages"),
        offsets(code=FencedLeaderEpoch.code),
        ListOffsetsResponse(),
    ],
    ids=["gone", "strange", "fenced", "without-rows"],
)
async def test_a_leader_that_does_not_say_is_asked_again_later(
    answer: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        partition = await stand.follow(0, 0, 0)
        await stand.until(lambda: stand.adds())
        stand.peers.answers = [answer, answer]
        stand.tell(Event("out_of_range", code=OffsetOutOfRange.code, offset=2))
        await stand.until(lambda: stand.peers.asked)
        await only_later(stand, mock_clock, [(0, EPOCH)])
        assert partition.log.end_offset == 2
        assert not stand.cuts


async def test_what_a_leader_said_before_it_moved_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition is fetched by then, and has what nobody may cut off."""
    async with following(tmp_path, monkeypatch) as stand:
        partition = await stand.follow(0, 0, 0)
        await stand.until(lambda: stand.adds())
        stand.peers.may_answer = trio.Event()
        stand.peers.answers = [offsets(end=1), offsets(start=0)]
        stand.tell(Event("out_of_range", code=OffsetOutOfRange.code, offset=2))
        await stand.until(lambda: stand.peers.asked)
        stand.is_at(LEADER, 9002)
        await stand.until(lambda: stand.adds(1) == [(0, EPOCH)])
        stand.peers.may_answer.set()
        await stand.until(lambda: not stand.peers.answers)
        await stand.settled()
        assert partition.log.end_offset == 2
        assert stand.adds(1) == [(0, EPOCH)]


# --- what passes ---


async def test_partitions_that_are_tried_in_vain_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        counted = stand.following.failed_partitions

        async def come_again(adds: int) -> None:
            await stand.settled()
            mock_clock.jump(BACKOFF_S * 1.01)
            await stand.until(lambda: len(stand.adds()) == adds)

        for index in range(3):
            await stand.follow(index, 0)
        await stand.until(lambda: len(stand.adds()) == 3)
        stand.tell(Event("corrupt", 0), Event("corrupt", 1), Event("fenced", 2))
        await come_again(6)
        assert counted() == 0, "once may be chance"
        stand.tell(Event("corrupt", 0), Event("panic", 1), Event("fenced", 2))
        await come_again(9)
        assert counted() == 2
        await stand.follow(1, epoch=EPOCH + 1)
        assert counted() == 1, "nobody knows what comes of it with this leader"
        mock_clock.jump(FAILED_S)
        assert counted() == 0, "it is fetched since"
        stand.tell(Event("corrupt", 0))
        await stand.settled()
        assert counted() == 0
        mock_clock.jump(BACKOFF_S)
        stand.tell(Event("corrupt", 0))
        await stand.settled()
        assert counted() == 1
        await stand.following.stop([("t", 0)])
        assert counted() == 0


@pytest.mark.parametrize("kind", ["fenced", "corrupt", "panic"])
async def test_what_passes_is_tried_again_after_the_back_off(
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mock_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with following(tmp_path, monkeypatch) as stand:
        await stand.follow(0, 0)
        await stand.until(lambda: stand.adds())
        for _ in range(3):
            stand.tell(Event(kind, code=CORRUPT))
            await only_later(stand, mock_clock, [(0, EPOCH)])
        assert said(caplog, "as the test says") == 1


async def test_what_only_delays_is_told_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with following(tmp_path, monkeypatch) as stand:
        await stand.follow(0, 0)
        await stand.until(lambda: stand.adds())
        stand.tell(Event("delayed", code=NotLeaderOrFollower.code))
        stand.tell(Event("connection", topic="", partition=-1, leader_epoch=-1, message="refused"))
        await stand.settled()
        mock_clock.jump(10 * BACKOFF_S)
        await stand.settled()
        assert stand.adds() == [(0, EPOCH)]
        assert (said(caplog, "as the test says"), said(caplog, "refused")) == (1, 1)


async def test_a_log_that_failed_is_told_once_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        partitions = [await stand.follow(index, 0) for index in range(3)]
        await stand.until(lambda: len(stand.adds()) == 3)

        def all_go_offline(failed: object) -> None:
            for index in (0, 1):
                partitions[index].go_offline()
                stand.following.forget(("t", index))

        stand.on_storage_error = all_go_offline
        stand.tell(Event("storage", partition=0), Event("storage", partition=1))
        await stand.until(lambda: stand.fetched() == {2: EPOCH})
        mock_clock.jump(2 * BACKOFF_S)
        await stand.settled()
        assert len(stand.adds()) == 3
        ((partition, error),) = stand.storage_errors
        assert partition is partitions[0]
        assert isinstance(error, StorageError)


async def test_a_full_disk_may_get_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    """The directory is still in use: the log is fetched again, else it would lag for ever."""
    async with following(tmp_path, monkeypatch) as stand:
        await stand.follow(0, 0)
        await stand.until(lambda: stand.adds())
        stand.tell(Event("storage"))
        await stand.until(lambda: stand.storage_errors)
        await only_later(stand, mock_clock, [(0, EPOCH)])
        assert len(stand.storage_errors) == 1


# --- leaders that come and go ---


async def test_a_leader_that_is_not_there_yet_is_fetched_from_when_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        await stand.follow(0, leader=OTHER)
        await stand.follow(1, leader=NO_LEADER)
        await stand.settled()
        assert not stand.fetchers
        stand.is_at(OTHER, 9003)
        await stand.until(lambda: stand.fetched() == {0: EPOCH})
        settings = stand.fetchers[0].settings
        assert (settings["host"], settings["port"], settings["replica_id"]) == ("127.0.0.1", 9003, ME)
        assert settings["fetch_version"] == 12


async def test_a_leader_that_comes_back_at_another_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        stand.is_at(OTHER, 9003)
        await stand.follow(0)
        await stand.follow(1, leader=OTHER)
        await stand.until(lambda: len(stand.fetched()) == 2)
        old = next(index for index, one in enumerate(stand.fetchers) if one.settings["port"] == 9001)
        stand.is_at(LEADER, None)
        await stand.until(lambda: stand.fetchers[old].is_closed)
        assert stand.fetched() == {1: EPOCH}
        stand.is_at(LEADER, 9002)
        await stand.until(lambda: len(stand.fetched()) == 2)
        assert [one.settings["port"] for one in stand.fetchers if not one.is_closed] == [9003, 9002]
        # Without a moment in which it is not there.
        stand.is_at(LEADER, 9004)
        await stand.until(lambda: [one.settings["port"] for one in stand.fetchers if not one.is_closed] == [9003, 9004])
        await stand.until(lambda: stand.fetched() == {0: EPOCH, 1: EPOCH})


async def test_an_update_while_one_that_waits_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The partition is not followed any more, and is still among those that wait for a leader."""
    async with following(tmp_path, monkeypatch) as stand:
        await stand.follow(0, 0, 0)
        await stand.follow(1, leader=OTHER)
        await stand.until(lambda: stand.adds())
        await stand.settled()
        stand.may_cut = trio.Event()
        stand.tell(Event("diverged", epoch=0, offset=1))
        await stand.until(lambda: stand.is_cutting)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stand.following.stop, keys([1]))
            await trio.testing.wait_all_tasks_blocked()
            stand.is_at(OTHER, 9003)
            stand.may_cut.set()
        await stand.settled()
        assert stand.fetched() == {0: EPOCH}


async def test_a_fetcher_that_cannot_be_started_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        made = stand.following._fetcher

        def fails(*_: object) -> None:
            raise BlockingIOError("too many threads")

        monkeypatch.setattr(stand.following, "_fetcher", fails)
        await stand.follow(0)
        await stand.until(lambda: said(caplog, "too many threads"))
        monkeypatch.setattr(stand.following, "_fetcher", made)
        await only_later(stand, mock_clock, [(0, EPOCH)])


# --- roles that change ---


async def test_stop_during_a_cut_returns_when_the_cut_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        partition = await stand.follow(0, 0, 0)
        await stand.follow(1, 0)
        await stand.until(lambda: len(stand.adds()) == 2)
        stand.may_cut = trio.Event()
        stand.tell(Event("diverged", epoch=0, offset=1))
        await stand.until(lambda: stand.is_cutting)
        stopped = False

        async def stop() -> None:
            nonlocal stopped
            await stand.following.stop(keys([0]))
            stopped = True
            assert partition.log.end_offset == 1
            assert stand.fetched() == {1: EPOCH}

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop)
            await trio.testing.wait_all_tasks_blocked()
            # Who waits for a thread is blocked, too: nor does it wait for one.
            assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
            assert not stopped
            assert partition.log.end_offset == 2
            stand.may_cut.set()
        await stand.settled()
        assert stand.adds() == [(0, EPOCH), (1, EPOCH)]


async def test_stop_during_a_search_has_nothing_cut_or_added_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        partitions = [await stand.follow(index, 0, 0) for index in range(3)]
        await stand.until(lambda: len(stand.adds()) == 3)
        stand.peers.may_answer = trio.Event()
        stand.peers.answers = [offsets(end=1), offsets(start=0)]
        stand.tell(Event("out_of_range", offset=2), Event("out_of_range", partition=1, offset=2), Event("fenced", 2))
        await stand.until(lambda: stand.peers.asked)
        await stand.following.stop(keys([0, 2]))
        stand.peers.may_answer.set()
        await stand.until(lambda: partitions[1].log.end_offset == 1)
        mock_clock.jump(2 * BACKOFF_S)
        await stand.settled()
        assert stand.fetched() == {1: EPOCH}
        assert [partition.log.end_offset for partition in partitions] == [2, 1, 2]


async def test_what_waits_in_an_older_epoch_adds_nothing_in_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        await stand.follow(0, 0, 0)
        await stand.until(lambda: stand.adds())
        stand.tell(Event("fenced"))
        await stand.settled()
        await stand.following.stop(keys([0]))
        await stand.follow(0, epoch=EPOCH + 1)
        await stand.until(lambda: stand.fetched() == {0: EPOCH + 1})
        mock_clock.jump(2 * BACKOFF_S)
        await stand.settled()
        assert sum(len(stand.adds(number)) for number in range(len(stand.fetchers))) == 2


async def test_events_of_an_older_leader_epoch_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        partition = await stand.follow(0, 0, 0)
        await stand.until(lambda: stand.adds())
        for kind in ("diverged", "out_of_range", "fenced", "corrupt", "storage"):
            stand.tell(Event(kind, leader_epoch=EPOCH - 1, epoch=0, offset=1))
        stand.tell(Event("diverged", partition=7, epoch=0, offset=1))
        await stand.settled()
        mock_clock.jump(2 * BACKOFF_S)
        await stand.settled()
        assert stand.adds() == [(0, EPOCH)]
        assert partition.log.end_offset == 2
        assert (stand.cuts, stand.peers.asked, stand.storage_errors) == ([], [], [])


async def test_idle_fetchers_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with following(tmp_path, monkeypatch, **{"num.replica.fetchers": "2"}) as stand:
        for index in range(8):
            await stand.follow(index)
        await stand.until(lambda: len(stand.fetched()) == 8)
        assert len(stand.fetchers) == 2
        first, second = stand.fetchers
        await stand.following.stop([*first.has])
        assert (first.is_closed, second.is_closed) == (True, False)
        await stand.following.stop(keys(range(8)))
        assert second.is_closed
        assert not stand.server.listening


async def test_one_that_is_paused_comes_to_the_same_fetcher_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if another would have it now: what has two fetchers is stopped in one of them only."""
    async with following(tmp_path, monkeypatch, **{"num.replica.fetchers": "2"}) as stand:
        for index in range(8):
            await stand.follow(index, 0, 0)
        await stand.until(lambda: len(stand.fetched()) == 8)
        place = next(
            place for place, one in enumerate(stand.fetchers) if one.settings["client_id"] == f"broker-{ME}-fetcher-1"
        )
        one = stand.fetchers[place]
        ((_, index), _), *_ = one.has.items()
        monkeypatch.setattr("ottla.replication.following.hash", lambda key: 2, raising=False)
        before = len(one.adds)
        stand.tell(Event("diverged", partition=index, epoch=0, offset=1), fetcher=place)
        await stand.until(lambda: len(one.adds) == before + 1)
        assert len(stand.fetched()) == 8


@pytest.mark.parametrize(("before", "after"), [(1, 2), (4, 2), (2, 1)])
async def test_fetchers_become_more_and_fewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int, after: int
) -> None:
    """While they run: each partition is always with one at most, and is with its own in the end."""
    # Hashes of texts are others in each process.
    monkeypatch.setattr("ottla.replication.following.hash", lambda key: key[1], raising=False)
    async with following(tmp_path, monkeypatch, **{"num.replica.fetchers": str(before)}) as stand:
        for index in range(8):
            await stand.follow(index, 0)
        await stand.until(lambda: len(stand.fetched()) == 8)
        assert len(stand.fetchers) == before
        stand.change(**{"num.replica.fetchers": str(after)})
        stand.following.fetchers_changed()

        def owned() -> dict[str, set[int]]:
            running = (one for one in stand.fetchers if not one.is_closed)
            return {one.settings["client_id"]: {index for _, index in list(one.has)} for one in running}

        await stand.until(
            lambda: (
                owned() == {f"broker-{ME}-fetcher-{number}": set(range(number, 8, after)) for number in range(after)}
            )
        )
        assert stand.fetched() == dict.fromkeys(range(8), EPOCH)
        # Who was with the right one has stayed there.
        came = [index for index, _ in stand.adds()]
        assert len(set(came)) == len(came)


async def test_one_that_failed_and_is_followed_anew_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        await stand.follow(0, 0)
        await stand.follow(1, 0)
        await stand.until(lambda: len(stand.adds()) == 2)
        stand.following.forget(("t", 0))
        await stand.follow(0, epoch=EPOCH + 1)
        await stand.until(lambda: stand.fetched() == {0: EPOCH + 1, 1: EPOCH})


async def test_stop_waits_for_what_was_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        await stand.follow(0, 0)
        await stand.follow(1, 0)
        await stand.until(lambda: len(stand.adds()) == 2)
        stand.following.forget(("t", 0))
        await stand.following.stop(keys([0]))
        assert stand.fetched() == {1: EPOCH}


# --- leaders of protocols before 2.7-IV1 ---

OLD = {"inter.broker.protocol.version": "2.6"}


async def test_an_old_leader_is_asked_until_the_logs_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with following(tmp_path, monkeypatch, **OLD) as stand:
        # The leader has 0 1 1 3: it knows no epoch 2, and the follower no epoch 1.
        stand.peers.answers = [epoch_end(1, 3), epoch_end(0, 1)]
        partition = await stand.follow(0, 0, 2, 2)
        await stand.until(lambda: stand.adds() == [(0, EPOCH)])
        assert stand.fetchers[0].settings["fetch_version"] == 11
        assert [cut.offset for cut in stand.cuts] == [1, 1]
        assert partition.log.end_offset == 1
        asked = [
            (broker, name, version, row.partition_index, row.current_leader_epoch, row.leader_epoch)
            for broker, name, message, version in stand.peers.asked
            for topic in message.topics
            for row in topic.partitions
        ]
        assert asked == [
            (LEADER, "OffsetForLeaderEpoch", 3, 0, EPOCH, 2),
            (LEADER, "OffsetForLeaderEpoch", 3, 0, EPOCH, 0),
        ]


async def test_an_old_leader_is_not_asked_again_in_the_same_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    async with following(tmp_path, monkeypatch, **OLD) as stand:
        stand.peers.answers = [epoch_end(0, 5)]
        await stand.follow(0, 0, 0)
        await stand.until(lambda: stand.adds())
        stand.tell(Event("corrupt"))
        await only_later(stand, mock_clock, [(0, EPOCH)])
        assert len(stand.peers.asked) == 1
        # In the next one it is.
        stand.peers.answers = [epoch_end(0, 1)]
        await stand.following.stop(keys([0]))
        partition = await stand.follow(0, epoch=EPOCH + 1)
        await stand.until(lambda: stand.fetched() == {0: EPOCH + 1})
        assert partition.log.end_offset == 1


async def test_a_log_without_epochs_and_an_empty_one_are_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with following(tmp_path, monkeypatch, **OLD) as stand:
        await stand.follow(0)
        await stand.until(lambda: stand.adds() == [(0, EPOCH)])
        assert not stand.peers.asked


@pytest.mark.parametrize(
    "answer",
    [ConnectionError("it is gone"), epoch_end(-1, -1, FencedLeaderEpoch.code), OffsetForLeaderEpochResponse()],
    ids=["gone", "fenced", "without-rows"],
)
async def test_nothing_is_fetched_before_an_old_leader_has_answered(
    answer: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    async with following(tmp_path, monkeypatch, **OLD) as stand:
        stand.peers.answers = [answer, epoch_end(0, 1)]
        partition = await stand.follow(0, 0, 0)
        await stand.until(lambda: stand.peers.asked)
        await only_later(stand, mock_clock, [(0, EPOCH)])
        assert partition.log.end_offset == 1


async def test_nothing_is_fetched_before_the_log_of_an_old_leaders_follower_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    async with following(tmp_path, monkeypatch, **OLD) as stand:
        stand.instead = [StorageError("the disk is full")]
        stand.peers.answers = [epoch_end(0, 1), epoch_end(0, 1)]
        partition = await stand.follow(0, 0, 0)
        await stand.until(lambda: stand.storage_errors)
        await only_later(stand, mock_clock, [(0, EPOCH)])
        assert partition.log.end_offset == 1
        assert len(stand.peers.asked) == 2


async def test_a_replica_that_is_added_is_fetched_as_one_until_its_move_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with following(tmp_path, monkeypatch) as stand:
        await stand.follow(0, adding=(ME,))
        await stand.follow(1, adding=(OTHER,))
        await stand.until(lambda: stand.fetched() == {0: EPOCH, 1: EPOCH})
        assert stand.fetchers[0].moved == {0}
        await stand.follow(0, epoch=EPOCH + 1)
        await stand.until(lambda: stand.fetched() == {0: EPOCH + 1, 1: EPOCH})
        assert stand.fetchers[0].moved == set()
