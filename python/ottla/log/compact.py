"""`compact`: the last record of each key stays, and the earlier ones go, without a broker."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ottla import _core
from ottla.errors import LogNotFound, StorageError
from ottla.log.config import LogConfig

if TYPE_CHECKING:
    from ottla._core import CleanReport, LogDirectory

OF_BROKERS = "meta.properties"
"""The file that every broker writes into its data directories, and `Log` into none."""
MAP_BYTES = 128 << 20
"""Of the table of keys, as in Kafka's `log.cleaner.dedupe.buffer.size`: five million keys at once."""
MAP_LOAD_FACTOR = 0.9
IO_BYTES = 512 << 10
UNLIMITED = 1e300
WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Compacted:
    """The work of a compaction: records and bytes of the segments that were read, and of those in their place.
    `records_without_key` are those that went for want of a key.
    """

    records_before: int = 0
    records_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    records_without_key: int = 0


def compact(path: str | os.PathLike[str], *, config: LogConfig | None = None) -> Compacted:
    """Compacts the partition in the folder `path`, as a broker does for `cleanup.policy=compact`: of records with the
    same key the last one stays, and a last one without a value goes `delete_retention_ms` of the `config` after it was
    compacted first. Records without a key go. Offsets do not change. Nothing is done if nothing was appended since the
    last compaction.

    The data directory is locked meanwhile, and opened as by a broker: what a crash left is repaired in all of its logs.
    In the directory of a broker, records that replicas may yet lose (from the high watermark on) stay as they are.

    Raises:
        LogNotFound: there is no such folder.
        StorageError: a broker or another program has the data directory, a log in it cannot be opened, or the disk
            fails.
        CorruptMessage: the log is damaged; nothing of it was changed.
    """
    folder = os.path.abspath(os.fspath(path))
    if not os.path.isdir(folder):
        raise LogNotFound(f"there is no folder {folder}")
    root, name = os.path.split(folder)
    topic, _, number = name.rpartition("-")
    settings = replace(config or LogConfig(), cleanup_policy="compact")
    directory, is_open = _core.LogDirectory.open(root), False
    try:
        logs, failed = directory.load_all({topic: settings.native}, LogConfig().native)
        if failed:
            raise StorageError(f"{failed[0][0]}-{failed[0][1]} cannot be opened: {failed[0][2]}")
        is_open = True
        log = next((log for log in logs if (log.topic, str(log.partition)) == (topic, number)), None)
        if log is None:
            raise StorageError(f"{folder} is no partition's folder, which is called TOPIC-NUMBER")
        if not os.path.exists(os.path.join(root, OF_BROKERS)):
            log.high_watermark = log.end_offset
        log.roll()  # the last segment is never compacted
        return _clean(directory, log)
    finally:
        directory.close(clean=is_open)


def _clean(directory: LogDirectory, log: _core.Log) -> Compacted:
    """Until nothing is left: a table that is full ends a cleaning early."""
    cleaner = _core.LogCleaner(
        1, map_bytes=MAP_BYTES, map_load_factor=MAP_LOAD_FACTOR, io_bytes=IO_BYTES, bytes_per_second=UNLIMITED
    )
    done = Compacted()
    try:
        while (report := _clean_once(directory, log, cleaner)) is not None:
            done = Compacted(
                done.records_before + report.records_read,
                done.records_after + report.records_written,
                done.bytes_before + report.bytes_read,
                done.bytes_after + report.bytes_written,
                done.records_without_key + report.records_keyless,
            )
        return done
    finally:
        cleaner.stop()


def _clean_once(directory: LogDirectory, log: _core.Log, cleaner: _core.LogCleaner) -> CleanReport | None:
    """None if everything is compacted."""
    now_ms = time.time_ns() // 1_000_000
    for found in directory.cleanable(now_ms):
        if (found.topic, found.partition) == (log.topic, log.partition) and found.cleanable_bytes > 0:
            hub = _core.Hub(supported={})
            cleaner.clean(directory, found, hub.completions, 1)
            while not isinstance(completion := hub.wait(WAIT_S), _core.Completion):
                pass
            if completion.error is not None:
                raise completion.error
            report: CleanReport | None = completion.value
            return report
    return None
