"""Compaction of this broker's logs: which log is next, and the threads that clean.

`filthiest` decides, from what the logs say about themselves; the work is native and runs on threads of its own. A log
that is truncated, closed or deleted meanwhile stops its cleaning by itself. A log whose content cannot be cleaned is
set aside with the reason (`Log.uncleanable`), so that it does not keep the others from being cleaned.

Rules and settings are Apache Kafka's (LogCleanerManager), with one difference: nothing at or above the high watermark
is cleaned, as in later releases.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import trio

from ottla._core import Cleanable, LogCleaner
from ottla.errors import KafkaError
from ottla.kafka import PartitionKey
from ottla.logging_setup import of_partition

if TYPE_CHECKING:
    from ottla._core import CleanReport, LogDirectory
    from ottla.config import BrokerConfig
    from ottla.net import Server
    from ottla.replication.log_manager import LogManager

logger = logging.getLogger("ottla.cleaner")


#: What `CleanerSettings` reads; all may change while the broker runs.
SETTINGS: Final = (
    "log.cleaner.threads",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.backoff.ms",
)


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """What the broker's `log.cleaner.*` settings say. Memory is per thread, the limit on bytes is for all."""

    threads: int
    map_bytes: int
    map_load_factor: float
    io_bytes: int
    bytes_per_second: float
    backoff_ms: int

    @classmethod
    def of(cls, config: BrokerConfig) -> CleanerSettings:
        threads = max(config.get_int("log.cleaner.threads"), 1)
        return cls(
            threads=threads,
            map_bytes=config.get_int("log.cleaner.dedupe.buffer.size") // threads,
            map_load_factor=config.get_float("log.cleaner.io.buffer.load.factor"),
            io_bytes=config.get_int("log.cleaner.io.buffer.size") // threads,
            bytes_per_second=config.get_float("log.cleaner.io.max.bytes.per.second"),
            backoff_ms=config.get_int("log.cleaner.backoff.ms"),
        )

    def start(self) -> LogCleaner:
        return LogCleaner(
            self.threads,
            map_bytes=self.map_bytes,
            map_load_factor=self.map_load_factor,
            io_bytes=self.io_bytes,
            bytes_per_second=self.bytes_per_second,
        )


def dirty_ratio(log: Cleanable) -> float:
    """The dirty part of a log, as a part of 1; of what may not be cleaned yet nothing counts."""
    total = log.clean_bytes + log.cleanable_bytes
    return log.cleanable_bytes / total if total else 0.0


def is_due(log: Cleanable) -> bool:
    """Whether a log is dirty enough (`min.cleanable.dirty.ratio`), or has waited too long (`max.compaction.lag.ms`)."""
    return dirty_ratio(log) > log.dirty_ratio_min or (log.overdue_ms > 0 and log.cleanable_bytes > 0)


def filthiest(logs: Iterable[Cleanable]) -> Cleanable | None:
    """The log to clean next: of those that are due, the one whose dirty part is the largest part of it."""
    return max(filter(is_due, logs), key=dirty_ratio, default=None)


class Cleaner:
    """Cleans until cancelled. Settings may change meanwhile."""

    def __init__(self, logs: LogManager, server: Server, config: Callable[[], BrokerConfig]) -> None:
        #: The greatest part of a log that is dirty, when last looked at.
        self.dirty_ratio_max = 0.0
        #: What the last cleaning of any log did.
        self.last_report: CleanReport | None = None
        self._logs = logs
        self._server = server
        self._config = config
        self._settings = CleanerSettings.of(config())
        self._restart = trio.CancelScope()
        self._at_work: set[PartitionKey] = set()

    def settings_changed(self) -> None:
        """The broker's settings may have changed: threads start anew if theirs did. What they clean stops and is begun
        again.
        """
        settings = CleanerSettings.of(self._config())
        if settings != self._settings:
            self._settings = settings
            self._restart.cancel()

    async def run(self) -> None:
        if not self._config().get_bool("log.cleaner.enable"):
            logger.warning("log.cleaner.enable=false: compacted topics keep every record")
            return
        while True:
            native = self._settings.start()
            try:
                with trio.CancelScope() as self._restart:
                    async with trio.open_nursery() as nursery:
                        for _ in range(self._settings.threads):
                            nursery.start_soon(self._work, native)
            finally:
                native.stop()

    async def _work(self, native: LogCleaner) -> None:
        """One thread's worth of cleaning: one log after the other, with a rest when none is due."""
        while True:
            try:
                cleaned = await self._clean_filthiest(native)
            except KafkaError as error:
                logger.error("logs cannot be looked at for cleaning: %s", error)
                cleaned = False
            if not cleaned:
                await trio.sleep(self._settings.backoff_ms / 1000)

    async def _clean_filthiest(self, native: LogCleaner) -> bool:
        """True if a log was cleaned."""
        homes = await trio.to_thread.run_sync(self._logs.cleanable, time.time_ns() // 1_000_000)
        self.dirty_ratio_max = max(map(dirty_ratio, homes), default=0.0)
        log = filthiest(log for log in homes if (log.topic, log.partition) not in self._at_work)
        return log is not None and await self._clean(native, homes[log], log)

    async def _clean(self, native: LogCleaner, home: LogDirectory, log: Cleanable) -> bool:
        partition = (log.topic, log.partition)
        self._at_work.add(partition)
        try:
            report = await self._done(lambda token: native.clean(home, log, self._server.hub.completions, token))
        except KafkaError as error:
            logger.error("%s-%d cannot be compacted: %s", *partition, error, extra=of_partition(*partition))
            return False
        finally:
            self._at_work.discard(partition)
        if report is None:
            return False
        self.last_report = report
        logger.info("%s-%d: %s", *partition, describe(report), extra=of_partition(*partition))
        return True

    async def _done(self, start: Callable[[int], None]) -> CleanReport | None:
        """Waits for what `start` begins on a native thread; None if that was stopped."""
        done = trio.Event()
        results: list[tuple[CleanReport | None, BaseException | None]] = []

        def finished(report: Any, error: BaseException | None) -> None:
            results.append((report, error))
            done.set()

        self._server.submit(start, finished)
        await done.wait()
        report, error = results[0]
        if error is not None:
            raise error
        return report


def describe(report: CleanReport) -> str:
    """A line for the log."""
    megabytes = (report.map_bytes_read + report.bytes_read) / 1e6
    return (
        f"compacted to offset {report.end_offset}, dirty from {report.first_offset}: {report.records_read} records "
        f"became {report.records_written}, {report.bytes_read} bytes {report.bytes_written}, "
        f"{report.segments_read} segments {report.segments_written}; {report.map_keys} keys "
        f"({report.map_utilization:.0%} of the map); {megabytes / max(report.seconds, 1e-9):.0f} MB/s "
        f"in {report.seconds:.1f} s"
        + (f"; {report.records_keyless} records without key were dropped" if report.records_keyless else "")
    )
