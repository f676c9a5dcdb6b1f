"""Where this broker's logs live: the data directory, its lock and identity, and the work that logs need from time to
time.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import trio

from ottla._core import LogConfig, LogDirectory
from ottla.config import BrokerConfig, ConfigError, TopicConfig
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla._core import Completions, Log

logger = logging.getLogger("ottla.log_manager")

META = "meta.properties"


class SettingsSource(Protocol):
    """Where settings come from; they may change while the logs are open."""

    config: BrokerConfig
    topics: dict[str, dict[str, str]]

    async def load_topic(self, topic: str) -> None: ...


class LogManager:
    """One data directory, open and locked. What may take long runs on worker threads; native calls release the
    interpreter there.
    """

    def __init__(self, directory: LogDirectory, path: Path) -> None:
        self.path = path
        self.logs: dict[tuple[str, int], Log] = {}
        #: partitions whose logs could not be opened, with the reason
        self.failures: dict[tuple[str, int], Exception] = {}
        self._directory = directory
        self._settings: SettingsSource

    @classmethod
    @asynccontextmanager
    async def open(cls, config: BrokerConfig) -> AsyncIterator[LogManager]:
        """Locks the data directory, creating it if need be; at the end flushes everything and leaves the clean-shutdown
        marker.

        Raises ConfigError, and KafkaError if another process has the directory.
        """
        directories = config.data_directories
        if len(directories) != 1:
            raise ConfigError(
                "log.dirs",
                f"log.dirs names {len(directories)} directories; this version keeps its logs in one: name one",
            )
        path = Path(directories[0]).resolve()
        path.mkdir(parents=True, exist_ok=True)
        interval_ms = config.get_int("replica.high.watermark.checkpoint.interval.ms")
        directory = LogDirectory.open(
            path, high_watermark_checkpoint_interval_ms=interval_ms, raise_descriptor_limit=True
        )
        manager = cls(directory, path)
        try:
            yield manager
        except BaseException:
            with trio.CancelScope(shield=True):
                await manager._close()
            raise
        await manager._close()

    async def _close(self) -> None:
        clean = self.failure is None
        await trio.to_thread.run_sync(lambda: self._directory.close(clean=clean))

    @property
    def failure(self) -> str | None:
        """Why the directory went out of use; None while it is in use."""
        return self._directory.failure

    # --- identity ---

    def identity(self) -> dict[str, str]:
        """meta.properties: `version`, `broker.id`, `cluster.id`; empty in a new directory."""
        path = self.path / META
        if not path.exists():
            return {}
        lines = path.read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Writes meta.properties. Raises ConfigError if the directory belongs to another broker or cluster."""
        known = self.identity()
        wanted = {"version": "0", "cluster.id": cluster_id, "broker.id": str(broker_id)}
        for name, value in wanted.items():
            if known.get(name, value) != value:
                raise ConfigError(
                    name,
                    f"{self.path / META} has {name}={known[name]}, but this broker has {value}: "
                    "is it the right directory, and the right cluster?",
                )
        if known.keys() >= wanted.keys():
            return
        temporary = self.path / f"{META}.tmp"
        with temporary.open("w") as file:
            file.write("".join(f"{name}={value}\n" for name, value in {**known, **wanted}.items()))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / META)
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    # --- logs ---

    async def load(self, settings: SettingsSource) -> None:
        """Opens every log of the directory, recovering those that need it. A log that cannot be opened does not stop
        the others.
        """
        self._settings = settings
        configs = {topic: self._native_config(topic) for topic in settings.topics}
        default = self._native_config(None)
        logs, failures = await trio.to_thread.run_sync(self._directory.load_all, configs, default)
        self.logs = {(log.topic, log.partition): log for log in logs}
        for topic, index, error in failures:
            logger.error("the log of %s-%d cannot be opened, the partition stays offline: %s", topic, index, error)
            self.failures[topic, index] = error

    def report_to(self, completions: Completions) -> None:
        """Appends that may wait for a disk run on Rust threads from now on, and report there."""
        self._directory.report_to(completions)

    def topic_config(self, topic: str | None) -> TopicConfig:
        """The settings that hold for a topic now (None: for one without settings of its own)."""
        own = self._settings.topics.get(topic, {}) if topic is not None else {}
        try:
            return TopicConfig.from_broker(self._settings.config, own)
        except ConfigError as error:
            # Someone wrote it past every check, into the tree itself: serve the topic with the broker's settings, and
            # say so.
            logger.error("settings of topic %s are not taken: %s", topic, error)
            return TopicConfig.from_broker(self._settings.config, {})

    def _native_config(self, topic: str | None) -> LogConfig:
        return native_config(self.topic_config(topic), self._settings.config)

    async def open_or_create(self, topic: str, partitions: list[int]) -> dict[int, Log]:
        """The logs of a topic's partitions; those that are not there are made, in one batch. Raises StorageError."""
        missing = [index for index in partitions if (topic, index) not in self.logs]
        if missing:
            await self._settings.load_topic(topic)
            created = await trio.to_thread.run_sync(self._directory.create, topic, missing, self._native_config(topic))
            self.logs.update({(topic, log.partition): log for log in created})
        return {index: self.logs[topic, index] for index in partitions}

    async def begin_epochs(self, topic: str, epochs: list[tuple[int, int]]) -> None:
        """Becoming leader of a topic's partitions: (partition, leader epoch) of each. Raises StorageError."""
        await trio.to_thread.run_sync(self._directory.begin_epochs, topic, epochs)

    def topic_config_changed(self, topic: str) -> None:
        config = self._native_config(topic)
        for (name, _), log in self.logs.items():
            if name == topic:
                log.update_config(config)

    async def delete(self, topic: str, index: int) -> None:
        """Takes a log away: its folder is renamed at once and removed later. Raises StorageError."""
        if self.logs.pop((topic, index), None) is not None:
            await trio.to_thread.run_sync(self._directory.delete, topic, index)

    async def delete_records(self, starts: Sequence[tuple[Log, int]]) -> list[KafkaError | None]:
        """Moves the starts of logs up to offsets (those that are there already stay), and returns when that would
        survive a restart; for each what kept it from happening.
        """
        return await trio.to_thread.run_sync(self._delete_records, starts)

    def _delete_records(self, starts: Sequence[tuple[Log, int]]) -> list[KafkaError | None]:
        errors: list[KafkaError | None] = []
        for log, start_offset in starts:
            try:
                log.set_start_offset(start_offset)
                errors.append(None)
            except KafkaError as error:
                errors.append(error)
        try:
            self._directory.checkpoint_start_offsets()
        except KafkaError as failure:
            return [error or failure for error in errors]
        return errors

    @property
    def flush_on_acks_all(self) -> bool:
        return self._settings.config.get_bool("log.flush.on.acks.all")

    # --- time ---

    async def run(self) -> None:
        """Retention and checkpoints, until cancelled."""
        directory = self._directory
        config = self._settings.config
        async with trio.open_nursery() as nursery:
            every = nursery.start_soon
            every(_every, config.get_int("log.retention.check.interval.ms"), self._delete_old)
            every(
                _every, config.get_int("log.flush.offset.checkpoint.interval.ms"), directory.checkpoint_recovery_points
            )
            every(
                _every,
                config.get_int("log.flush.start.offset.checkpoint.interval.ms"),
                directory.checkpoint_start_offsets,
            )

    def _delete_old(self) -> None:
        self._directory.delete_old_segments(time.time_ns() // 1_000_000)


async def _every(interval_ms: int, work: Callable[[], Any]) -> None:
    while True:
        await trio.sleep(interval_ms / 1000)
        try:
            await trio.to_thread.run_sync(work)
        except Exception:
            logger.exception("%s failed; it is tried again in %d ms", work.__name__, interval_ms)


def native_config(topic: TopicConfig, broker: BrokerConfig) -> LogConfig:
    """A topic's settings as the data plane takes them."""
    return LogConfig(
        segment_bytes=topic.get_int("segment.bytes"),
        segment_ms=topic.get_int("segment.ms"),
        segment_jitter_ms=topic.get_int("segment.jitter.ms"),
        segment_index_bytes=topic.get_int("segment.index.bytes"),
        index_interval_bytes=topic.get_int("index.interval.bytes"),
        flush_messages=topic.get_int("flush.messages"),
        flush_ms=topic.get_int("flush.ms"),
        retention_bytes=topic.get_int("retention.bytes"),
        retention_ms=topic.get_int("retention.ms"),
        max_message_bytes=topic.get_int("max.message.bytes"),
        message_timestamp_type=topic.get_str("message.timestamp.type"),
        message_timestamp_difference_max_ms=topic.get_int("message.timestamp.difference.max.ms"),
        file_delete_delay_ms=topic.get_int("file.delete.delay.ms"),
        cleanup_policy=",".join(topic.get_list("cleanup.policy")),
        max_compaction_lag_ms=topic.get_int("max.compaction.lag.ms"),
        verify_transactions=True,
        producer_id_expiration_ms=broker.get_int("transactional.id.expiration.ms"),
    )
