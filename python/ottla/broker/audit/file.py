"""The file of the audit log, with the older ones: FILE, FILE.1 (the newest of them), FILE.2, and so on.

A file has whole lines only. Where the disk is full in the midst of lines, what was written of them is taken back.
Somebody else may move the file away while it is open: then there is a new one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

#: The group may read it, such as the one of those who look after logs.
MODE: Final = 0o640


class Written(NamedTuple):
    """The number of lines that are in the file, from the first on, and why it is not all of them."""

    lines: int
    problem: OSError | None = None


class AuditFile:
    """All methods are for one thread at a time. After an error the file can be written again.

    bytes_max: Of one file; one that has a longer line is larger.
    """

    def __init__(self, path: Path, bytes_max: int, files_max: int) -> None:
        self._path: Final = path
        self._bytes_max: Final = bytes_max
        self._files_max: Final = files_max
        self._descriptor: int | None = None

    def open(self) -> None:
        """Opens the file, or makes it, unless it is open already. Raises OSError."""
        if self._descriptor is not None:
            if self._is_current(self._descriptor):
                return
            self.close()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        self._descriptor = os.open(self._path, flags, MODE)
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")

    def write(self, lines: list[bytes]) -> Written:
        """Writes lines, each with its end."""
        count = 0
        try:
            for some in self._by_file(lines):
                self._append(b"".join(some))
                count += len(some)
        except OSError as problem:
            return Written(count, problem)
        return Written(count)

    def close(self) -> None:
        """Closes the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _by_file(self, lines: list[bytes]) -> Iterable[list[bytes]]:
        """The lines, as many at a time as the open file has room for."""
        begin = 0
        while begin < len(lines):
            self.open()
            assert self._descriptor is not None
            room = self._bytes_max - os.fstat(self._descriptor).st_size
            end = begin
            while end < len(lines) and len(lines[end]) <= room:
                room -= len(lines[end])
                end += 1
            if end == begin:
                if os.fstat(self._descriptor).st_size:
                    self._begin_next()
                    continue
                end += 1
            yield lines[begin:end]
            begin = end

    def _append(self, text: bytes) -> None:
        assert self._descriptor is not None
        size = os.fstat(self._descriptor).st_size
        rest = memoryview(text)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, size)
            raise

    def _begin_next(self) -> None:
        """Gives each file the name of the next older one; the oldest is gone."""
        names = [self._path, *(Path(f"{self._path}.{number}") for number in range(1, self._files_max))]
        for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
            with suppress(FileNotFoundError):
                newer.replace(older)
        self.close()

    def _is_current(self, descriptor: int) -> bool:
        try:
            named = self._path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(descriptor))
