"""The work that logs need from time to time: retention, and checkpoints of recovery points and log starts."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from ottla.errors import KafkaError, counted

if TYPE_CHECKING:
    from ottla._core import LogDirectory
    from ottla.config import BrokerConfig
    from ottla.replication.data_directories import DataDirectories

logger = logging.getLogger("ottla.log_manager")


async def run(directories: DataDirectories, config: BrokerConfig) -> None:
    """In every directory that works, until cancelled, each thing as often as the settings say."""
    async with trio.open_nursery() as nursery:
        for setting, work in (
            ("log.retention.check.interval.ms", delete_old_segments),
            ("log.flush.offset.checkpoint.interval.ms", checkpoint_recovery_points),
            ("log.flush.start.offset.checkpoint.interval.ms", checkpoint_start_offsets),
        ):
            nursery.start_soon(_every, config.get_int(setting), work, directories)


def delete_old_segments(directories: DataDirectories) -> None:
    """Applies retention; one line in the log for each topic of which segments are deleted. Raises KafkaError."""
    now_ms = time.time_ns() // 1_000_000
    segments: Counter[str] = Counter()
    partitions: Counter[str] = Counter()

    def work(native: LogDirectory) -> None:
        deleted, error = native.delete_old_segments(now_ms)
        for each in deleted:
            segments[each.topic] += each.count
            partitions[each.topic] += 1
        if error is not None:
            raise error

    try:
        directories.in_each(work)
    finally:
        for topic, count in segments.items():
            logger.info(
                "retention deletes %s of topic %s, in %s",
                counted(count, "segment"),
                topic,
                counted(partitions[topic], "partition"),
                extra={"topic": topic},
            )


def checkpoint_recovery_points(directories: DataDirectories) -> None:
    directories.in_each(lambda native: native.checkpoint_recovery_points())


def checkpoint_start_offsets(directories: DataDirectories) -> None:
    directories.in_each(lambda native: native.checkpoint_start_offsets())


async def _every(interval_ms: int, work: Callable[[DataDirectories], None], directories: DataDirectories) -> None:
    while True:
        await trio.sleep(interval_ms / 1000)
        try:
            await trio.to_thread.run_sync(work, directories)
        except KafkaError as error:
            logger.error("%s failed: %s; it is tried again in %d ms", work.__name__, error, interval_ms)
        except Exception:
            logger.exception("%s failed; it is tried again in %d ms", work.__name__, interval_ms)
