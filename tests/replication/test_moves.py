"""Moving a log between data directories: every state that a crash may leave is healed at the next start."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla import _core
from ottla.errors import StorageError
from ottla.replication.log_manager import LogManager, is_beginning_of
from tests.support.client import batch
from tests.support.log_manager import Settings, config, folders

pytestmark = pytest.mark.trio

WHOLE = 1 << 20


def values(log: _core.Log, start: int = 0) -> list[bytes | None]:
    found: list[bytes | None] = []
    while (piece := log.read(start, WHOLE).slice) is not None:
        records = list(_core.RecordReader(piece.read()))
        found += [record.value for record in records if record.offset >= start]
        start = records[-1].offset + 1
    return found


class Made:
    """Directories a and b; the partition t-0 in a, with records in two leader epochs and segments."""

    def __init__(self, tmp_path: Path) -> None:
        self.a, self.b = tmp_path / "a", tmp_path / "b"
        self.settings = Settings(config(self.a, self.b))

    @asynccontextmanager
    async def alone_in_b(self) -> AsyncIterator[LogManager]:
        """The log of `begin` stands in both directories, and goes on in the second."""
        async with LogManager.open(self.settings.config) as logs:
            await self.begin(logs)
        shutil.copytree(self.a / "t-0", self.b / "t-0")
        alone = Settings(config(self.b))
        async with LogManager.open(alone.config) as logs:
            await logs.load(alone)
            yield logs

    async def begin(self, logs: LogManager) -> _core.Log:
        await logs.load(self.settings)
        log = (await logs.open_or_create("t", [0])).logs[0]
        if log.end_offset == 0:
            for epoch, text in ((0, b"one"), (3, b"two")):
                await logs.begin_epochs({("t", 0): epoch})
                log.append_bytes(
                    batch(text, text + b"!", producer_id=7, producer_epoch=0, base_sequence=2 * min(epoch, 1)), epoch
                )
                log.roll()
            log.append_bytes(batch(b"three"), 3)
            log.high_watermark = log.end_offset
        return log

    async def start_move(self, logs: LogManager) -> _core.Log:
        (other,) = [directory for directory in logs.directories.online if directory is not logs.directory_of("t", 0)]
        await logs.create_future("t", 0, other)
        return logs.futures["t", 0]


ALL = [b"one", b"one!", b"two", b"two!", b"three"]


async def test_a_log_moves_with_everything_that_is_known_of_it(tmp_path: Path) -> None:
    made = Made(tmp_path)
    async with LogManager.open(made.settings.config) as logs:
        log = await made.begin(logs)
        log.set_start_offset(1)
        future = await made.start_move(logs)
        assert future.is_future
        copied = 0
        while step := log.copy_to(future, 1):
            copied += step
        assert copied == log.size_bytes
        assert (await logs.replace_with_future("t", 0)) is future
        assert (future.start_offset, future.end_offset, future.high_watermark) == (1, 5, 5)
        assert values(future, 1) == ALL[1:]
        assert future.leader_epochs == log.leader_epochs
        # Whoever still has the old one writes into the new one; what its producers wrote is known there.
        retry = log.append_bytes(batch(b"two", b"two!", producer_id=7, producer_epoch=0, base_sequence=2), 3)
        assert (retry.is_duplicate, retry.base_offset) == (True, 2)
        assert log.append_bytes(batch(b"four"), 3).base_offset == 5
        assert future.end_offset == 6
        assert folders(made.b) == ["t-0"]
        assert [name.endswith("-delete") for name in folders(made.a)] == [True]
        log.close(flush=False)
    assert "t 0" not in (made.a / "recovery-point-offset-checkpoint").read_text()
    assert "t 0 1" in (made.b / "log-start-offset-checkpoint").read_text()
    async with LogManager.open(made.settings.config) as logs:
        await logs.load(made.settings)
        assert values(logs.logs["t", 0], 1) == [*ALL[1:], b"four"]
        assert folders(made.a) == []


async def test_a_move_that_was_cut_short_goes_on(tmp_path: Path) -> None:
    made = Made(tmp_path)
    async with LogManager.open(made.settings.config) as logs:
        log = await made.begin(logs)
        future = await made.start_move(logs)
        log.copy_to(future, 1)
    assert [name.endswith("-future") for name in folders(made.b)] == [True]
    (made.b / ".kafka_cleanshutdown").unlink()
    async with LogManager.open(made.settings.config) as logs:
        log = await made.begin(logs)
        future = logs.futures["t", 0]
        assert 0 < future.end_offset < log.end_offset
        assert future.is_future
        # The current log was cut meanwhile, and went on otherwise.
        log.truncate_to(2)
        log.append_bytes(batch(b"other", b"other!"), 4)
        assert future.end_offset <= 2
        while log.copy_to(future, WHOLE):
            pass
        assert await logs.replace_with_future("t", 0) is future
        assert values(future) == [b"one", b"one!", b"other", b"other!"]


async def test_a_copy_gives_up_what_the_log_lost(tmp_path: Path) -> None:
    made = Made(tmp_path)
    async with LogManager.open(made.settings.config) as logs:
        log = await made.begin(logs)
        future = await made.start_move(logs)
        while log.copy_to(future, WHOLE):
            pass
        assert future.end_offset == 5
        log.truncate_to(2)
        await logs.begin_epochs({("t", 0): 9})
        log.append_bytes(batch(b"x", b"y", b"z", b"zz"), 9)
        while log.copy_to(future, WHOLE):
            pass
        assert values(future) == values(log) == [b"one", b"one!", b"x", b"y", b"z", b"zz"]
        log.high_watermark = log.end_offset
        log.truncate_fully_and_start_at(100)
        log.append_bytes(batch(b"new"), 9)
        while log.copy_to(future, WHOLE):
            pass
        assert (future.start_offset, values(future, 100)) == (100, [b"new"])


@pytest.mark.parametrize("piece_bytes", [1, WHOLE])
async def test_a_copy_gives_up_an_epoch_that_the_log_never_had(tmp_path: Path, piece_bytes: int) -> None:
    """The next leader has never heard of epoch 5, and more of epoch 4 than was copied: the log that it leads is longer
    than the copy, and no end of an epoch is behind the copy's.
    """
    made = Made(tmp_path)
    async with LogManager.open(made.settings.config) as logs:
        await logs.load(made.settings)
        log = (await logs.open_or_create("t", [0])).logs[0]
        log.append_bytes(batch(b"0", b"1", b"2"), 4)
        log.append_bytes(batch(b"lost", b"lost", b"lost"), 5)
        future = await made.start_move(logs)
        while log.copy_to(future, WHOLE):
            pass
        log.truncate_to(3)
        log.append_bytes(batch(b"3", b"4", b"5", b"6", b"7"), 4)
        # Nothing of the leader's own epoch yet: the copy's last epoch is later than the log's.
        assert log.copy_to(future, 1) > 0
        assert values(future) == values(log)[: future.end_offset]
        log.append_bytes(batch(b"8", b"9"), 6)
        while log.copy_to(future, piece_bytes):
            pass
        assert await logs.replace_with_future("t", 0) is future
        assert values(future) == [b"%d" % number for number in range(10)]
        assert future.leader_epochs == [(4, 0), (6, 8)]


async def test_the_old_log_beside_the_new_one_is_removed(tmp_path: Path) -> None:
    """A crash between the two renames; the new log went on since, as after a failure of the old directory."""
    made = Made(tmp_path)
    async with made.alone_in_b() as logs:
        logs.logs["t", 0].append_bytes(batch(b"four"), 5)
    for order in ((made.a, made.b), (made.b, made.a)):
        settings = Settings(config(*order))
        async with LogManager.open(settings.config) as logs:
            await logs.load(settings)
            assert logs.failures == {}
            assert values(logs.logs["t", 0]) == [*ALL, b"four"]
            home = logs.directory_of("t", 0)
            assert home is not None
            assert home.path == made.b
            assert "t-0" not in folders(made.a)
        if order == (made.a, made.b):
            shutil.copytree(made.b / "t-0", made.a / "t-0")
            (only,) = [Settings(config(made.a))]
            async with LogManager.open(only.config) as logs:
                await logs.load(only)
                logs.logs["t", 0].truncate_to(3)


@pytest.mark.parametrize("start", [2, 5])
async def test_records_that_were_deleted_in_the_new_one_alone_stay_deleted(tmp_path: Path, start: int) -> None:
    """The same crash: the old log has what the new one has, and is read first or last."""
    made = Made(tmp_path)
    async with made.alone_in_b() as logs:
        logs.logs["t", 0].high_watermark = 5
        assert await logs.delete_records([(logs.logs["t", 0], start)]) == [None]
    shutil.copytree(tmp_path, tmp_path / "copy")
    for order in ((made.a, made.b), (tmp_path / "copy" / "b", tmp_path / "copy" / "a")):
        settings = Settings(config(*order))
        async with LogManager.open(settings.config) as logs:
            await logs.load(settings)
            assert logs.failures == {}
            assert logs.logs["t", 0].start_offset == start
            assert values(logs.logs["t", 0], start) == ALL[start:]


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_deletion_of_records_during_a_move_survives_a_crash(tmp_path: Path, is_replaced: bool) -> None:
    """Also in the moment when the new log has taken the old one's place and nobody has heard of it."""
    made = Made(tmp_path / "before")
    async with LogManager.open(made.settings.config) as logs:
        log = await made.begin(logs)
        future = await made.start_move(logs)
        while log.copy_to(future, WHOLE):
            pass
        from_, to = logs._homes["t", 0].open_native, logs._future_homes["t", 0].open_native
        assert not is_replaced or from_.replace(log, future, to)
        assert await logs.delete_records([(log, 3)]) == [None]
        shutil.copytree(tmp_path / "before", tmp_path / "after")
    crashed = Settings(config(tmp_path / "after" / "a", tmp_path / "after" / "b"))
    async with LogManager.open(crashed.config) as logs:
        await logs.load(crashed)
        assert logs.logs["t", 0].start_offset == 3


async def test_a_log_is_not_compacted_while_it_moves(tmp_path: Path) -> None:
    """Else a tombstone may be gone before it is copied, and the record that it deletes was copied already."""
    made = Made(tmp_path)
    async with LogManager.open(made.settings.config) as logs:
        log = await made.begin(logs)
        log.roll()
        made.settings.topics["t"] = {"cleanup.policy": "compact"}
        logs.topic_config_changed("t")
        assert [cleanable.partition for cleanable in logs.cleanable(1 << 41)] == [0]
        future = await made.start_move(logs)
        log.copy_to(future, 1)
        assert logs.cleanable(1 << 41) == {}
        await logs.delete_future("t", 0)
        assert [cleanable.partition for cleanable in logs.cleanable(1 << 41)] == [0]


async def test_giving_up_and_deleting_take_the_copy_away(tmp_path: Path) -> None:
    made = Made(tmp_path)
    async with LogManager.open(made.settings.config) as logs:
        log = await made.begin(logs)
        future = await made.start_move(logs)
        await logs.delete_future("t", 0)
        with pytest.raises(StorageError):
            log.copy_to(future, WHOLE)
        assert not any(name.endswith("-future") for name in folders(made.b))
        await made.start_move(logs)
        await logs.delete("t", 0)
        assert all(name.endswith("-delete") for name in folders(made.a) + folders(made.b))
        assert (logs.logs, logs.futures) == ({}, {})


class Epochs:
    def __init__(self, end_offset: int, *leader_epochs: tuple[int, int]) -> None:
        self.start_offset, self.end_offset, self.leader_epochs = 0, end_offset, list(leader_epochs)


@pytest.mark.parametrize(
    ("log", "other", "expected"),
    [
        (Epochs(5, (0, 0)), Epochs(5, (0, 0)), True),
        (Epochs(5, (0, 0)), Epochs(9, (0, 0), (1, 5)), True),
        (Epochs(5, (0, 0)), Epochs(9, (0, 0), (1, 3)), False),
        (Epochs(5, (0, 0), (2, 3)), Epochs(9, (0, 0), (1, 3)), False),
        (Epochs(5, (0, 0)), Epochs(4, (0, 0)), False),
        (Epochs(5), Epochs(5), False),
        # Recovered after compaction, which took the first records of the epoch: one of them, or both.
        (Epochs(5, (0, 0)), Epochs(5, (0, 3)), True),
        (Epochs(5, (0, 3)), Epochs(9, (0, 0)), True),
        (Epochs(5, (0, 0), (2, 3)), Epochs(9, (2, 4)), True),
        (Epochs(5, (0, 0), (2, 3)), Epochs(9, (0, 2)), False),
        (Epochs(0), Epochs(5), True),
        (Epochs(5, (0, 0), (2, 3)), Epochs(9, (2, 3)), True),  # its first records are deleted
    ],
)
async def test_which_of_two_logs_is_the_beginning_of_the_other(log: Epochs, other: Epochs, expected: bool) -> None:
    assert is_beginning_of(log, other) is expected  # type: ignore[arg-type]
