"""Nobody waits for the audit log: its lines do, and some are lost."""

import threading
from functools import partial
from pathlib import Path

import pytest

from ottla.broker.audit.file import AuditFile, Written
from ottla.broker.audit.writer import Writer
from tests.support.waiting import PATIENCE_S, eventually


class Disk(AuditFile):
    """A file that stands still until `goes_on` is set, and fails while `is_full`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, 1 << 20, 2)
        self.goes_on = threading.Event()
        self.is_full = False
        self.tries = 0

    def write(self, lines: list[bytes]) -> Written:
        self.tries += 1
        assert self.goes_on.wait(PATIENCE_S)
        return Written(0, OSError(28, "No space left on device")) if self.is_full else super().write(lines)


def test_a_disk_that_stands_still_loses_lines_and_holds_up_nobody(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "audit.log")
    writer = Writer(disk, waiting_bytes_max=40)
    writer.put(b"0123456789")
    eventually("it is tried", lambda: disk.tries)
    for _ in range(10):
        writer.put(b"0123456789")
    assert (writer.lost_total, writer.written_total) == (7, 0)
    disk.goes_on.set()
    writer.close()
    assert (writer.lost_total, writer.written_total) == (7, 4)
    assert (tmp_path / "audit.log").stat().st_size == 40
    writer.put(b"late")
    assert writer.lost_total == 8


def _has_lost(writer: Writer, count: int) -> bool:
    return writer.lost_total == count


def test_a_full_disk_is_said_once_and_its_end_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk(tmp_path / "audit.log")
    disk.goes_on.set()
    disk.is_full = True
    writer = Writer(disk, retry_s=0)
    for count in (1, 2, 3):
        writer.put(b"line\n")
        eventually("it is lost", partial(_has_lost, writer, count))
    disk.is_full = False
    writer.put(b"here\n")
    eventually("it is written", lambda: writer.written_total == 1)
    writer.close()
    assert [record.getMessage() for record in caplog.records] == [
        "lines of the audit log are lost until it can be written again: [Errno 28] No space left on device",
        "the audit log is written again; 3 of its lines are lost",
    ]
    assert (tmp_path / "audit.log").read_text() == "here\n"
