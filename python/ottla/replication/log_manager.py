"""This broker's logs: in which data directory each is, and the work that logs need from time to time."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import trio

from ottla._core import LogConfig, LogDirectory
from ottla.config import BrokerConfig, ConfigError, TopicConfig
from ottla.config.topic import record_format
from ottla.errors import KafkaError, LogDirNotFound, StorageError
from ottla.replication.data_directory import DataDirectory, common_identity, open_all

if TYPE_CHECKING:
    from ottla._core import Cleanable, Log
    from ottla.net import Server

logger = logging.getLogger("ottla.log_manager")


class SettingsSource(Protocol):
    """Where settings come from; they may change while the logs are open."""

    config: BrokerConfig
    topics: dict[str, dict[str, str]]

    async def load_topic(self, topic: str) -> None: ...


class Places:
    """What opening logs came to: the logs, and why others could not be opened."""

    def __init__(self) -> None:
        self.logs: dict[int, Log] = {}
        self.errors: dict[int, StorageError] = {}


class LogManager:
    """The data directories, open and locked, and their logs. What may take long runs on worker threads; native calls
    release the interpreter there.
    """

    def __init__(self, directories: list[DataDirectory]) -> None:
        #: those of `log.dirs`, in order, also those that are out of use
        self.directories = directories
        self.logs: dict[tuple[str, int], Log] = {}
        #: partitions whose logs could not be opened, with the reason
        self.failures: dict[tuple[str, int], Exception] = {}
        #: copies of logs on their way into another directory
        self.futures: dict[tuple[str, int], Log] = {}
        self._homes: dict[tuple[str, int], DataDirectory] = {}
        self._future_homes: dict[tuple[str, int], DataDirectory] = {}
        #: where AlterReplicaLogDirs wants partitions that are not there yet
        self._preferred: dict[tuple[str, int], DataDirectory] = {}
        self._tree_path: Path | None = None
        self._settings: SettingsSource

    @classmethod
    @asynccontextmanager
    async def open(cls, config: BrokerConfig) -> AsyncIterator[LogManager]:
        """Locks the data directories, creating them if need be; at the end flushes everything and leaves the
        clean-shutdown markers. A directory that cannot be opened is left out, unless it is the last.

        Raises ConfigError, OSError, and KafkaError if another process has a directory.
        """
        interval_ms = config.get_int("replica.high.watermark.checkpoint.interval.ms")
        directories = open_all(config.data_directories, high_watermark_checkpoint_interval_ms=interval_ms)
        if config.zookeeper:
            # Another broker may lead instead. Where there is no other, a full disk fails requests until it has space.
            for directory in directories:
                if directory.native is not None:
                    directory.native.fail_when_full()
        manager = cls(directories)
        try:
            yield manager
        except BaseException:
            with trio.CancelScope(shield=True):
                await manager._close()
            raise
        await manager._close()

    async def _close(self) -> None:
        problems: list[StorageError] = []
        directories = self.online

        async def close(native: LogDirectory) -> None:
            clean = native.failure is None
            try:
                await trio.to_thread.run_sync(lambda: native.close(clean=clean))
            except StorageError as error:
                logger.error("a log directory is not left clean, the next start recovers it: %s", error)
                problems.append(error)

        async with trio.open_nursery() as nursery:
            for directory in directories:
                nursery.start_soon(close, directory.open_native)
        if problems and len(problems) == len(directories):
            raise problems[0]

    # --- the directories ---

    @property
    def online(self) -> list[DataDirectory]:
        """The directories that work."""
        return [directory for directory in self.directories if directory.is_online]

    @property
    def offline(self) -> list[DataDirectory]:
        return [directory for directory in self.directories if not directory.is_online]

    def identity(self) -> dict[str, str]:
        """meta.properties: `version`, `broker.id`, `cluster.id`; empty in new directories. Raises ConfigError if they
        differ between directories.
        """
        return common_identity(self.online)

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Writes meta.properties into every directory. Raises ConfigError if one belongs to another broker or
        cluster.
        """
        for directory in self.online:
            directory.claim(broker_id, cluster_id)

    def directory_with(self, file: str) -> Path:
        """Where a file that there is once in a broker lies, or would be made: the first directory.

        Raises ConfigError if that cannot be known, because a directory is out of use or several have the file.
        """
        having = [directory for directory in self.online if (directory.path / file).exists()]
        if len(having) > 1:
            raise ConfigError("log.dirs", f"{file} is in several directories: {', '.join(map(str, having))}; keep one")
        if not having and self.offline:
            broken = self.offline[0]
            raise ConfigError(
                "log.dirs", f"{file} is in no directory that can be opened, and {broken}: {broken.failure}"
            )
        return (having or self.directories)[0].path

    def keeps_tree(self, path: Path) -> None:
        """The broker cannot go on without this directory: the coordination tree is in it."""
        self._tree_path = path

    @property
    def cannot_go_on(self) -> str | None:
        """Why the broker must end after directories failed; None while it can go on."""
        if not self.online:
            return "no log directory can be used any more"
        if any(directory.path == self._tree_path for directory in self.offline):
            return "the log directory with the coordination tree cannot be used any more"
        return None

    def directory_of(self, topic: str, index: int) -> DataDirectory | None:
        """The directory with the log of a partition."""
        return self._homes.get((topic, index))

    def logs_in(self, directory: DataDirectory) -> list[Log]:
        """The logs of a directory, of all partitions, those that move into it included."""
        return [
            logs[key]
            for logs, homes in ((self.logs, self._homes), (self.futures, self._future_homes))
            for key, home in homes.items()
            if home is directory
        ]

    def take_offline(self, directory: DataDirectory, reason: str) -> list[tuple[str, int]]:
        """Stops using a directory; returns the partitions whose logs were in it. The directory is to be closed with
        `close_failed`.
        """
        gone = [key for key, home in self._homes.items() if home is directory]
        error = StorageError(f"the log directory {directory} is out of use: {reason}")
        for key in gone:
            del self._homes[key]
            self.logs.pop(key, None)
            self.failures[key] = error
        for key in [key for key, home in self._future_homes.items() if home is directory]:
            del self._future_homes[key], self.futures[key]
            if key in self.logs:
                self.logs[key].end_move()
        directory.go_offline(reason)
        return gone

    async def close_failed(self, directory: DataDirectory) -> None:
        """Gives back the lock and the descriptors of a directory that failed."""
        native, directory.failing = directory.failing, None
        if native is not None:
            try:
                await trio.to_thread.run_sync(lambda: native.close(clean=False))
            except StorageError as error:
                logger.warning("closing the log directory %s: %s", directory, error)

    def report_to(self, server: Server, failed: Callable[[Any, BaseException | None], None]) -> None:
        """Appends that may wait for a disk run on Rust threads from now on, and report to the server's loop; so does a
        directory that fails.
        """
        for directory in self.online:
            native = directory.open_native
            native.report_to(server.hub.completions)
            native.report_failure_to(server.hub.completions, server.expect(failed))

    # --- logs ---

    async def load(self, settings: SettingsSource) -> None:
        """Opens every log of the directories, recovering those that need it, each directory with
        `num.recovery.threads.per.data.dir` threads. A log that cannot be opened does not stop the others.
        """
        self._settings = settings
        configs = {topic: self._native_config(topic) for topic in settings.topics}
        default = self._native_config(None)
        threads = settings.config.get_int("num.recovery.threads.per.data.dir")
        opened: dict[DataDirectory, tuple[list[Log], list[tuple[str, int, KafkaError]]]] = {}

        async def load_one(directory: DataDirectory) -> None:
            load_all = partial(directory.open_native.load_all, configs, default, threads=threads)
            opened[directory] = await trio.to_thread.run_sync(load_all)

        async with trio.open_nursery() as nursery:
            for directory in self.online:
                nursery.start_soon(load_one, directory)
        for directory in self.online:
            logs, failures = opened[directory]
            for topic, index, error in failures:
                logger.error("the log of %s-%d cannot be opened, the partition stays offline: %s", topic, index, error)
                self.failures[topic, index] = error
            for log in logs:
                await self._add(directory, log)
        for key in self.futures.keys() - self.logs.keys():
            logger.warning("%s-%d is on its way into another log directory, but is in none", *key)

    async def _add(self, directory: DataDirectory, log: Log) -> None:
        key = (log.topic, log.partition)
        logs, homes = (self.futures, self._future_homes) if log.is_future else (self.logs, self._homes)
        other, home = logs.get(key), homes.get(key)
        if other is not None and home is not None and other is not log:
            # A move that a crash cut short leaves the old log beside the new one, which goes on where the old one ends.
            if log.is_future or is_beginning_of(log, other):
                await self._remove_leftover(directory, log)
                return
            if not is_beginning_of(other, log):
                error = StorageError(
                    f"the partition {log.topic}-{log.partition} is in two log directories, {home} and {directory}, "
                    "with different records: take one of them away"
                )
                logger.error("%s", error)
                self.failures[key] = error
                return
            await self._remove_leftover(home, other)
        logs[key], homes[key] = log, directory

    async def _remove_leftover(self, directory: DataDirectory, log: Log) -> None:
        logger.warning("%s is what a move left behind: it is removed", log.directory)
        await trio.to_thread.run_sync(directory.open_native.delete, log.topic, log.partition)

    # --- moving between directories ---

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings that hold now."""
        return self._settings.config

    @property
    def move_threads(self) -> int:
        """How many partitions move at a time."""
        return cast("int | None", self.config.get("num.replica.alter.log.dirs.threads")) or len(self.directories)

    def directory_at(self, path: str) -> DataDirectory:
        """The directory that `log.dirs` has under this absolute path. Raises LogDirNotFound, and StorageError if it is
        out of use.
        """
        for directory in self.directories:
            if str(directory) == path:
                directory.open_native  # noqa: B018 - for its error
                return directory
        raise LogDirNotFound(f"{path} is none of this broker's log directories")

    def future_directory_of(self, topic: str, index: int) -> DataDirectory | None:
        """The directory into which a partition moves."""
        return self._future_homes.get((topic, index))

    def prefer(self, topic: str, index: int, directory: DataDirectory) -> None:
        """A partition that is not here yet will be made in this directory."""
        if directory not in (self._homes.get((topic, index)), self._future_homes.get((topic, index))):
            self._preferred[topic, index] = directory

    async def create_future(self, topic: str, index: int, directory: DataDirectory) -> None:
        """Begins a move: an empty log in the directory. Raises StorageError, also while some directory is out of use,
        since the partition's future log may be there.
        """
        self._preferred.pop((topic, index), None)
        if self.offline:
            raise StorageError(f"nothing is moved while a log directory is out of use: {self.offline[0]}")
        create = directory.open_native.create_future
        log = await trio.to_thread.run_sync(create, topic, index, self._native_config(topic))
        await self._add(directory, log)

    async def delete_future(self, topic: str, index: int) -> None:
        """Gives up a move. Raises StorageError."""
        directory = self._future_homes.pop((topic, index), None)
        if directory is not None:
            del self.futures[topic, index]
            if (topic, index) in self.logs:
                self.logs[topic, index].end_move()
            await trio.to_thread.run_sync(directory.open_native.delete, topic, index)

    async def replace_with_future(self, topic: str, index: int) -> Log | None:
        """Ends a move: the future log is the partition's now, and is returned; the old one is to be closed. None if too
        much is left to copy. Raises StorageError.
        """
        key = (topic, index)
        from_, to = self._homes[key], self._future_homes[key]
        current, future = self.logs[key], self.futures[key]
        replace = from_.open_native.replace
        if not await trio.to_thread.run_sync(replace, current, future, to.open_native):
            return None
        self.logs[key], self._homes[key] = future, to
        del self.futures[key], self._future_homes[key]
        logger.info("%s-%d is in %s now", topic, index, to)
        return future

    # --- a topic's logs ---

    async def open_or_create(self, topic: str, partitions: list[int], new: Collection[int] = ()) -> Places:
        """The logs of a topic's partitions; those that are not there are made, in the directories with the fewest logs.

        While a directory is out of use, only those that are `new` are made: another one may be in that directory.
        """
        places = Places()
        missing: dict[DataDirectory, list[int]] = {}
        counts = Counter([*self._homes.values(), *self._future_homes.values()])
        for index in partitions:
            if (topic, index) in self.logs:
                continue
            if self.offline and index not in new:
                places.errors[index] = StorageError(
                    f"{topic}-{index} may be in a log directory that is out of use: {', '.join(map(str, self.offline))}"
                )
                continue
            directory = self._preferred.pop((topic, index), None) or min(self.online, key=counts.__getitem__)
            counts[directory] += 1
            missing.setdefault(directory, []).append(index)
        if missing:
            await self._settings.load_topic(topic)
            config = self._native_config(topic)
            for directory, indexes in missing.items():
                try:
                    create = directory.open_native.create
                    created = await trio.to_thread.run_sync(create, topic, indexes, config)
                except StorageError as error:
                    places.errors.update(dict.fromkeys(indexes, error))
                    continue
                for log in created:
                    await self._add(directory, log)
        places.logs = {index: self.logs[topic, index] for index in partitions if (topic, index) in self.logs}
        return places

    async def begin_epochs(self, topic: str, epochs: dict[int, int]) -> dict[int, StorageError]:
        """Becoming leader of a topic's partitions: leader epoch of each. Returns what failed."""
        failed: dict[int, StorageError] = {}
        by_directory: dict[DataDirectory, list[tuple[int, int]]] = {}
        for index, epoch in epochs.items():
            directory = self._homes.get((topic, index))
            if directory is not None:
                by_directory.setdefault(directory, []).append((index, epoch))
        for directory, rows in by_directory.items():
            try:
                await trio.to_thread.run_sync(directory.open_native.begin_epochs, topic, rows)
            except StorageError as error:
                failed.update({index: error for index, _ in rows})
        return failed

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

    def settings_changed(self) -> None:
        """The broker's settings did, which are the defaults of every topic's."""
        configs: dict[str, LogConfig] = {}
        for logs in (self.logs, self.futures):
            for (topic, _), log in logs.items():
                if topic not in configs:
                    configs[topic] = self._native_config(topic)
                log.update_config(configs[topic])

    def topic_config_changed(self, topic: str) -> None:
        config = self._native_config(topic)
        for logs in (self.logs, self.futures):
            for (name, _), log in logs.items():
                if name == topic:
                    log.update_config(config)

    async def delete(self, topic: str, index: int) -> None:
        """Takes a log away: its folder is renamed at once and removed later. Raises StorageError, also if the log may
        be in a directory that is out of use.
        """
        await self.delete_future(topic, index)
        directory = self._homes.pop((topic, index), None)
        if directory is not None:
            del self.logs[topic, index]
            await trio.to_thread.run_sync(directory.open_native.delete, topic, index)
        elif self.offline:
            raise StorageError(f"{topic}-{index} may be in a log directory that is out of use: {self.offline[0]}")

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
        homes = [self._homes.get((log.topic, log.partition)) for log, _ in starts]
        failures: dict[DataDirectory | None, KafkaError] = {}
        for home in {home for home in homes if home is not None}:
            try:
                home.open_native.checkpoint_start_offsets()
            except KafkaError as failure:
                failures[home] = failure
        return [error or failures.get(home) for error, home in zip(errors, homes, strict=True)]

    @property
    def flush_on_acks_all(self) -> bool:
        return self._settings.config.get_bool("log.flush.on.acks.all")

    # --- time ---

    async def run(self) -> None:
        """Retention and checkpoints, until cancelled."""
        config = self._settings.config
        async with trio.open_nursery() as nursery:
            every = nursery.start_soon
            every(_every, config.get_int("log.retention.check.interval.ms"), self._delete_old)
            every(_every, config.get_int("log.flush.offset.checkpoint.interval.ms"), self._checkpoint_recovery_points)
            every(
                _every,
                config.get_int("log.flush.start.offset.checkpoint.interval.ms"),
                self._checkpoint_start_offsets,
            )

    def cleanable(self, now_ms: int) -> dict[Cleanable, LogDirectory]:
        """The compacted logs with what there is to clean in them, and where they are."""
        found: dict[Cleanable, LogDirectory] = {}
        self._in_each(lambda native: found.update(dict.fromkeys(native.cleanable(now_ms), native)))
        return found

    def _delete_old(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        self._in_each(lambda native: native.delete_old_segments(now_ms))

    def _checkpoint_recovery_points(self) -> None:
        self._in_each(lambda native: native.checkpoint_recovery_points())

    def _checkpoint_start_offsets(self) -> None:
        self._in_each(lambda native: native.checkpoint_start_offsets())

    def _in_each(self, work: Callable[[LogDirectory], object]) -> None:
        """In every directory that works; one that fails does not keep the others from it."""
        problem: KafkaError | None = None
        for directory in self.online:
            native = directory.native
            if native is not None and native.failure is None:
                try:
                    work(native)
                except KafkaError as error:
                    problem = error
        if problem is not None:
            raise problem


async def _every(interval_ms: int, work: Callable[[], Any]) -> None:
    while True:
        await trio.sleep(interval_ms / 1000)
        try:
            await trio.to_thread.run_sync(work)
        except Exception:
            logger.exception("%s failed; it is tried again in %d ms", work.__name__, interval_ms)


def is_beginning_of(log: Log, other: Log) -> bool:
    """Whether everything in `log` is in `other`, as far as their leader epochs tell; without any, nobody knows."""
    end = log.end_offset
    epochs = [(epoch, start) for epoch, start in log.leader_epochs if start < end]
    others = [(epoch, start) for epoch, start in other.leader_epochs if start < end]
    if end == log.start_offset:
        return True
    return end <= other.end_offset and bool(epochs) and epochs[-1] in others and len(others) <= len(epochs)


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
        message_format=record_format(topic.get_str("message.format.version")),
        compression_type=topic.get_str("compression.type"),
        message_timestamp_type=topic.get_str("message.timestamp.type"),
        message_timestamp_difference_max_ms=topic.get_int("message.timestamp.difference.max.ms"),
        file_delete_delay_ms=topic.get_int("file.delete.delay.ms"),
        cleanup_policy=",".join(topic.get_list("cleanup.policy")),
        max_compaction_lag_ms=topic.get_int("max.compaction.lag.ms"),
        min_compaction_lag_ms=topic.get_int("min.compaction.lag.ms"),
        min_cleanable_dirty_ratio=topic.get_float("min.cleanable.dirty.ratio"),
        delete_retention_ms=topic.get_int("delete.retention.ms"),
        verify_transactions=True,
        producer_id_expiration_ms=broker.get_int("transactional.id.expiration.ms"),
    )
