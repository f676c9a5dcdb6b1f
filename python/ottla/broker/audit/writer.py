"""A thread that writes lines to the audit log's file.

Lines wait in memory until they are written, `WAITING_BYTES_MAX` at most. Those for which there is no room are lost, and
so are those that the disk does not take: they are counted, and the log says so once, until lines can be written again.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.broker.audit.file import AuditFile

logger = logging.getLogger("ottla.audit")

#: Some 10,000 lines.
WAITING_BYTES_MAX: Final = 4 << 20
#: After an error the next try comes so much later.
RETRY_S: Final = 1.0


class Writer:
    """`put` is for the loop's thread and never waits for the disk. `file` is open."""

    def __init__(
        self, file: AuditFile, *, waiting_bytes_max: int = WAITING_BYTES_MAX, retry_s: float = RETRY_S
    ) -> None:
        self.written_total = 0
        self._file = file
        self._bytes_max = waiting_bytes_max
        self._retry_s = retry_s
        self._changed = threading.Condition()
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._is_ending = False
        self._lost_total = 0
        self._fails = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ottla-audit", daemon=True)
        self._thread.start()

    @property
    def lost_total(self) -> int:
        """Lines that were not written, and will not be."""
        return self._lost_total

    def put(self, line: bytes) -> None:
        """Writes a line, with its end, soon; or loses it."""
        with self._changed:
            if self._waiting_bytes + len(line) > self._bytes_max or self._is_ending:
                self._lost_total += 1
                return
            self._waiting.append(line)
            self._waiting_bytes += len(line)
            self._changed.notify()

    def close(self) -> None:
        """Returns when what was put is written, or lost. May wait for the disk."""
        with self._changed:
            self._is_ending = True
            self._changed.notify()
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_ending)
                lines = self._waiting
                if not lines:
                    break
                self._waiting = []
                # What is being written counts until it is: a disk that stands still has the same bound.
            written = self._write(lines)
            with self._changed:
                self._waiting_bytes -= sum(map(len, lines))
                self.written_total += written
                self._lost_total += len(lines) - written
            if written < len(lines):
                self._end.wait(self._retry_s)
        self._file.close()

    def _write(self, lines: list[bytes]) -> int:
        written, problem = self._file.write(lines)
        if problem is not None and not self._fails:
            logger.error("lines of the audit log are lost until it can be written again: %s", problem)
        elif problem is None and self._fails:
            logger.warning("the audit log is written again; %d of its lines are lost", self._lost_total)
        self._fails = problem is not None
        return written
