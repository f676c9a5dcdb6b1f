"""How much memory Spark's Python workers take."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from types import TracebackType

import psutil
from spark_read import RECORDS_PER_BATCH, TOPIC, VALUE_BYTES

from ottla import _core

LOOK_S = 0.05
RESET_PEAK = "5"


class Peak:
    """While it is open: the largest peak of a Python process below this one; of workers that are there, from now on."""

    def __init__(self) -> None:
        self._largest_kb = 0
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch)

    @property
    def megabytes(self) -> float:
        return self._largest_kb * 1024 / 1e6

    def __enter__(self) -> Peak:
        for process in self._workers():
            Path(f"/proc/{process}/clear_refs").write_text(RESET_PEAK)
        self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_S):
            for process in self._workers():
                try:
                    status = Path(f"/proc/{process}/status").read_text()
                except OSError:
                    continue
                for peak in status.partition("VmHWM:")[2].split()[:1]:
                    self._largest_kb = max(self._largest_kb, int(peak))

    def _workers(self) -> list[int]:
        """Those below Spark's JVM; the broker is a child of this process."""
        found = []
        for child in psutil.Process().children():
            try:
                if child.name() == "java":
                    found += [each.pid for each in child.children(recursive=True) if each.name().startswith("python")]
            except psutil.NoSuchProcess:
                continue
        return found


def write_partition(root: Path, records: int) -> None:
    """One partition with checkpointed high watermark; its values come again and again."""
    root.mkdir()
    directory = _core.LogDirectory.open(root)
    (log,) = directory.create(TOPIC, [0], _core.LogConfig())
    log.begin_epoch(0)
    value = random.Random(1).randbytes(VALUE_BYTES)
    builder = _core.BatchBuilder()
    for first in range(0, records, RECORDS_PER_BATCH):
        for offset in range(first, min(first + RECORDS_PER_BATCH, records)):
            builder.append(1_700_000_000_000 + offset, b"%016d" % offset, value)
        log.append_bytes(builder.finish(), 0)
    log.high_watermark = log.end_offset
    directory.checkpoint_high_watermarks()
    directory.close(clean=True)
