"""The file of the audit log and the older ones."""

import os
import stat
from pathlib import Path

import pytest

from ottla.broker.audit.file import AuditFile


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_files_take_turns_and_the_oldest_is_gone(tmp_path: Path) -> None:
    file = AuditFile(tmp_path / "audit.log", 30, 3)
    lines = [b"line %02d..\n" % number for number in range(14)]
    assert file.write(lines[:4]) == (4, None)
    assert file.write(lines[4:]) == (10, None)
    assert names(tmp_path) == ["audit.log", "audit.log.1", "audit.log.2"]
    assert (tmp_path / "audit.log").read_bytes() == b"".join(lines[12:])
    assert (tmp_path / "audit.log.1").read_bytes() == b"".join(lines[9:12])
    assert (tmp_path / "audit.log.2").read_bytes() == b"".join(lines[6:9])


def test_a_line_that_is_longer_than_a_file_is_a_file(tmp_path: Path) -> None:
    file = AuditFile(tmp_path / "audit.log", 5, 2)
    assert file.write([b"long line\n", b"another one\n"]) == (2, None)
    assert (tmp_path / "audit.log.1").read_bytes() == b"long line\n"


def test_others_may_not_read_it(tmp_path: Path) -> None:
    file = AuditFile(tmp_path / "audit.log", 100, 2)
    before = os.umask(0)
    try:
        file.open()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "audit.log").stat().st_mode) == 0o640


def test_a_file_that_was_moved_away_is_made_anew(tmp_path: Path) -> None:
    file = AuditFile(tmp_path / "audit.log", 100, 2)
    file.write([b"one\n"])
    (tmp_path / "audit.log").rename(tmp_path / "moved")
    assert file.write([b"two\n"]) == (1, None)
    assert (tmp_path / "moved").read_bytes() == b"one\n"
    assert (tmp_path / "audit.log").read_bytes() == b"two\n"


def test_half_a_line_of_before_gets_its_end(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b"one\nhal")
    AuditFile(path, 100, 2).write([b"two\n"])
    assert path.read_bytes() == b"one\nhal\ntwo\n"


def test_a_full_disk_takes_no_lines() -> None:
    count, problem = AuditFile(Path("/dev/full"), 100, 2).write([b"one\n"])
    assert count == 0
    assert problem is not None


def test_what_a_full_disk_took_of_a_line_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = AuditFile(tmp_path / "audit.log", 100, 2)
    file.write([b"one\n"])
    real = os.write
    calls: list[bytes] = []

    def write(descriptor: int, data: bytes) -> int:
        calls.append(data)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:2])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write)
        assert file.write([b"two\n"]).lines == 0
    assert (tmp_path / "audit.log").read_bytes() == b"one\n"
    assert file.write([b"three\n"]) == (1, None)
    assert (tmp_path / "audit.log").read_bytes() == b"one\nthree\n"


def test_a_folder_that_is_gone_and_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    file = AuditFile(folder / "audit.log", 100, 2)
    file.write([b"one\n"])
    (folder / "audit.log").unlink()
    folder.rmdir()
    assert file.write([b"two\n"]).lines == 0
    folder.mkdir()
    assert file.write([b"three\n"]) == (1, None)
    assert (folder / "audit.log").read_bytes() == b"three\n"
