"""Idempotent producers: what is a retry, what is out of order, what a restart remembers (KIP-98)."""

from pathlib import Path

import pytest

from ottla import errors
from ottla.log import Log

from .batches import batch


def send(log: Log, first: int, count: int = 1, *, epoch: int = 0, producer: int = 7) -> tuple[int, int, bool]:
    info = log.append_batch(batch(*[b"x"] * count, producer=(producer, epoch, first)))
    return info.base_offset, info.last_offset, info.is_duplicate


def test_the_last_five_batches_are_recognised(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0", mode="a") as log:
        assert send(log, 5) == (0, 0, False)  # an unknown producer may start anywhere
        for first in range(6, 18, 2):
            assert send(log, first, 2) == (first - 5, first - 4, False)
        for first in range(8, 18, 2):
            assert send(log, first, 2) == (first - 5, first - 4, True)
        with pytest.raises(errors.OutOfOrderSequenceNumber):
            send(log, 6, 2)  # older than the window
        with pytest.raises(errors.OutOfOrderSequenceNumber):
            send(log, 16, 3)  # the same first, another last
        with pytest.raises(errors.OutOfOrderSequenceNumber):
            send(log, 19)
        assert log.end_offset == 13
        assert send(log, 18) == (13, 13, False)


def test_epochs(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0", mode="a") as log:
        send(log, 0, epoch=3)
        with pytest.raises(errors.InvalidProducerEpoch):
            send(log, 1, epoch=2)
        with pytest.raises(errors.OutOfOrderSequenceNumber):
            send(log, 1, epoch=4)
        assert send(log, 0, epoch=4) == (1, 1, False)
        assert send(log, 0, epoch=4) == (1, 1, True)
        with pytest.raises(errors.InvalidRecord):
            send(log, -1, epoch=4)


def test_sequences_wrap(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0", mode="a") as log:
        assert send(log, 2**31 - 2, 4) == (0, 3, False)
        assert send(log, 2**31 - 2, 4) == (0, 3, True)
        assert send(log, 2) == (4, 4, False)
        log.append_batch(batch(b"x", producer=(8, 0, 2**31 - 1)))
        assert send(log, 0, producer=8) == (6, 6, False)


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_remembers(tmp_path: Path, clean: bool) -> None:
    with Log.open(tmp_path / "t-0", mode="a") as log:
        send(log, 0, 3)
        log.roll()
        send(log, 3, 2)
    if not clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
        for snapshot in (tmp_path / "t-0").glob("*.snapshot"):
            snapshot.write_bytes(snapshot.read_bytes()[:-1])
    with Log.open(tmp_path / "t-0", mode="a") as log:
        assert send(log, 3, 2) == (3, 4, True)
        with pytest.raises(errors.OutOfOrderSequenceNumber):
            send(log, 4)
        log.truncate(3)
        assert send(log, 3) == (3, 3, False)
