"""This broker's logs: which there are, in which data directory each is, and with which settings."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import trio

from ottla._core import LogDirectory, LogEnd
from ottla.config import BrokerConfig, TopicConfig
from ottla.coordination import znodes
from ottla.errors import KafkaError, StorageError, counted
from ottla.kafka import PartitionKey
from ottla.logging_setup import of_partition
from ottla.replication import aside, boots, log_notes, upkeep
from ottla.replication.aside import Aside
from ottla.replication.by_partition import ByPartition, Homes
from ottla.replication.data_directories import DataDirectories
from ottla.replication.data_directory import sync_folder
from ottla.replication.log_settings import SettingsSource, native_config, topic_config
from ottla.slices import Slices

if TYPE_CHECKING:
    from ottla._core import Cleanable, Log, LogConfig
    from ottla.replication.data_directory import DataDirectory
    from ottla.replication.log_notes import Note
    from ottla.replication.truncation import Truncation

logger = logging.getLogger("ottla.log_manager")

#: So many partitions that are not here yet have a place of their own. Anybody may name one that never comes: the oldest
#: goes.
PREFERRED_MAX = 10_000


class Places:
    """What opening logs came to: the logs, and why others could not be opened."""

    def __init__(self) -> None:
        self.logs: dict[int, Log] = {}
        self.errors: dict[int, StorageError] = {}


class LogManager:
    """The data directories, open and locked, and their logs. What may take long runs on worker threads; native calls
    release the interpreter there.
    """

    def __init__(self, directories: DataDirectories) -> None:
        self.directories = directories
        self.logs: ByPartition[Log] = ByPartition()
        #: partitions whose logs could not be opened, with the reason
        self.failures: dict[PartitionKey, Exception] = {}
        #: copies of logs on their way into another directory
        self.futures: ByPartition[Log] = ByPartition()
        #: partitions whose logs may have lost their ends with the power of the machine
        self.suspects: set[PartitionKey] = set()
        #: partitions without a log that had one, by what is left of it in the directories
        self.without_log: set[PartitionKey] = set()
        self._is_left_clean = True
        self._boot_id = boots.boot_id()
        self._homes = Homes()
        self._future_homes = Homes()
        #: where AlterReplicaLogDirs wants partitions that are not there yet
        self._preferred: dict[PartitionKey, DataDirectory] = {}
        self._settings: SettingsSource

    @classmethod
    @asynccontextmanager
    async def open(cls, config: BrokerConfig, *, is_alone: bool | None = None) -> AsyncIterator[LogManager]:
        """Locks the data directories, creating them if need be; at the end flushes everything and leaves the
        clean-shutdown markers, unless `leave_unclean` was called. A directory that cannot be opened is left out, unless
        it is the last. `is_alone`: no other broker can lead instead; without it, the settings say so.

        Raises ConfigError, OSError, and KafkaError if another process has a directory.
        """
        directories = DataDirectories.open(config, is_alone=config.zookeeper is None if is_alone is None else is_alone)
        manager = cls(directories)
        try:
            yield manager
        except BaseException:
            with trio.CancelScope(shield=True):
                await directories.close(clean=manager._is_left_clean)
            raise
        await directories.close(clean=manager._is_left_clean)

    def leave_unclean(self) -> None:
        """Has the end leave the directories as a process that is killed does."""
        self._is_left_clean = False

    def directory_of(self, topic: str, index: int) -> DataDirectory | None:
        """The directory with the log of a partition."""
        return self._homes.get((topic, index))

    def places(self) -> list[tuple[Mapping[PartitionKey, Log], list[tuple[PartitionKey, DataDirectory]]]]:
        """Where each partition's log is now, and where each copy is that is on its way into another directory."""
        return [(self.logs, [*self._homes.items()]), (self.futures, [*self._future_homes.items()])]

    def take_offline(self, directory: DataDirectory, reason: str) -> list[PartitionKey]:
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
            native, began = directory.open_native, time.monotonic()
            load_all = partial(native.load_all, configs, default, threads=threads)
            opened[directory] = await trio.to_thread.run_sync(load_all)
            count = len(opened[directory][0])
            logger.info(
                "%s: %s %s in %d ms",
                directory,
                counted(count, "log"),
                "opened" if native.was_clean or not count else "recovered after a stop that was not clean",
                1000 * (time.monotonic() - began),
            )
            for path, reason in native.take_leftovers():
                logger.warning("%s was deleted, but cannot be removed; it takes up space: %s", path, reason)

        async with trio.open_nursery() as nursery:
            for directory in self.directories.online:
                nursery.start_soon(load_one, directory)
        for directory in self.directories.online:
            logs, failures = opened[directory]
            for topic, index, error in failures:
                logger.error(
                    "the log of %s-%d cannot be opened, the partition stays offline: %s",
                    topic,
                    index,
                    error,
                    extra=of_partition(topic, index),
                )
                self.failures[topic, index] = error
            for log in logs:
                await self._add(directory, log)
        for directory in self.directories.online:
            keys = [key for key, home in self._homes.items() if home is directory]
            self.suspects |= boots.suspects(directory, keys, self._boot_id)
            self.without_log |= boots.without_log(directory)
            self.without_log.update(directory.open_native.missing())
        self.without_log -= self.logs.keys() | self.failures.keys()
        for key in self.futures.keys() - self.logs.keys():
            logger.warning(
                "%s-%d is on its way into another log directory, but is in none", *key, extra=of_partition(*key)
            )

    def has_new_directory(self) -> bool:
        """Whether a directory is new, which has not what this broker had elsewhere; to be asked before it becomes this
        broker's. The directory stays new until `note_suspects`. Raises ConfigError.
        """
        new = [directory for directory in self.directories.online if boots.is_new(directory)]
        for directory in new:
            boots.note_new(directory, self._boot_id)
        return bool(new)

    def note_suspects(self, suspects: Collection[PartitionKey]) -> None:
        """Writes down in each directory which of its logs may have lost their ends, and in all of them which partitions
        have no log any more, for the starts to come. It takes as long as a disk does.
        """
        of_each: dict[DataDirectory, list[PartitionKey]] = {directory: [] for directory in self.directories.online}
        without_log: list[PartitionKey] = []
        for key in suspects:
            directory = self._homes.get(key)
            if directory is None and key not in self.failures:
                without_log.append(key)
            elif directory in of_each:
                of_each[directory].append(key)
        for directory, keys in of_each.items():
            boots.note(directory, keys, self._boot_id, without_log)

    async def _add(self, directory: DataDirectory, log: Log) -> None:
        key = (log.topic, log.partition)
        logs, homes = (self.futures, self._future_homes) if log.is_future else (self.logs, self._homes)
        other, home = logs.get(key), homes.get(key)
        if other is not None and home is not None and other is not log:
            # A move that a crash cut short leaves the old log beside the new one, which goes on where the old one ends;
            # or starts later, if nothing came since but a deletion of records.
            is_left_over, goes_on = is_beginning_of(log, other), is_beginning_of(other, log)
            if log.end_offset == other.end_offset and (is_left_over or goes_on):
                goes_on = log.start_offset > other.start_offset
                is_left_over = not goes_on
            if log.is_future or is_left_over:
                await self._remove_leftover(directory, log)
                return
            if not goes_on:
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

    def future_directory_of(self, topic: str, index: int) -> DataDirectory | None:
        """The directory into which a partition moves."""
        return self._future_homes.get((topic, index))

    def prefer(self, topic: str, index: int, directory: DataDirectory) -> None:
        """A partition that is not here yet will be made in this directory."""
        if directory not in (self._homes.get((topic, index)), self._future_homes.get((topic, index))):
            self._preferred.pop((topic, index), None)
            if len(self._preferred) >= PREFERRED_MAX:
                del self._preferred[next(iter(self._preferred))]
            self._preferred[topic, index] = directory

    async def create_future(self, topic: str, index: int, directory: DataDirectory) -> None:
        """Begins a move: an empty log in the directory. Raises StorageError, also while some directory is out of use,
        since the partition's future log may be there.
        """
        self._preferred.pop((topic, index), None)
        if self.directories.offline:
            raise StorageError(f"nothing is moved while a log directory is out of use: {self.directories.offline[0]}")
        create = directory.open_native.create_future
        config, current = self._native_config(topic), self.logs.get((topic, index))

        def create_noted() -> Log:
            log = create(topic, index, config)
            note = None if current is None else log_notes.read(Path(current.directory))
            if note is not None:
                _write_note(log, note)
            return log

        await self._add(directory, await trio.to_thread.run_sync(create_noted))

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
        logger.info("%s-%d is in %s now", topic, index, to, extra=of_partition(topic, index))
        return future

    # --- a topic's logs ---

    async def open_or_create(
        self, topic: str, partitions: list[int], new: Collection[int] = (), note: Note | None = None
    ) -> Places:
        """The logs of a topic's partitions; those that are not there are made, in the directories with the fewest logs,
        and get the `note`.

        While a directory is out of use, only those that are `new` are made: another one may be in that directory.
        """
        places = Places()
        missing: dict[DataDirectory, list[int]] = {}
        counts = self._homes.counts + self._future_homes.counts
        for index in partitions:
            if (topic, index) in self.logs:
                continue
            if self.directories.offline and index not in new:
                offline = ", ".join(map(str, self.directories.offline))
                places.errors[index] = StorageError(
                    f"{topic}-{index} may be in a log directory that is out of use: {offline}"
                )
                continue
            directory = self._preferred.pop((topic, index), None) or min(
                self.directories.online, key=counts.__getitem__
            )
            counts[directory] += 1
            missing.setdefault(directory, []).append(index)
        if missing:
            await self._settings.load_topic(topic)
            config = self._native_config(topic)
            for directory, indexes in missing.items():
                try:
                    created = await trio.to_thread.run_sync(
                        _create, directory.open_native, topic, indexes, config, note
                    )
                except StorageError as error:
                    places.errors.update(dict.fromkeys(indexes, error))
                    continue
                for log in created:
                    await self._add(directory, log)
        places.logs = {index: self.logs[topic, index] for index in partitions if (topic, index) in self.logs}
        return places

    async def notes(self, keys: Collection[PartitionKey]) -> dict[PartitionKey, Note | None]:
        """What the notes in the folders of logs say, of those that are here."""
        folders = {key: log.directory for key in keys if (log := self.logs.get(key)) is not None}
        notes = await trio.to_thread.run_sync(log_notes.read_many, folders.values())
        return dict(zip(folders, notes, strict=True))

    async def note(self, notes: Mapping[PartitionKey, Note]) -> None:
        """Writes notes of logs that are here."""
        logs = [(log, note) for key, note in notes.items() if (log := self.logs.get(key)) is not None]

        def write() -> None:
            for log, note in logs:
                _write_note(log, note)

        await trio.to_thread.run_sync(write)

    async def put_aside(self, topic: str, index: int, note: Note) -> tuple[DataDirectory, str]:
        """Takes a log out of the way that is another topic's by its `note`: see `ottla.replication.aside`. Returns the
        directory, and under which id it is there. Raises StorageError; then the partition cannot be used.
        """
        key = topic, index
        await self.delete_future(topic, index)
        directory, log = self._homes[key], self.logs[key]
        description = Aside(
            topic, index, note, log.start_offset, log.end_offset, log.high_watermark, put_aside_ms=znodes.now_ms()
        )
        native = directory.open_native
        del self._homes[key], self.logs[key]
        self.suspects.discard(key)

        def move() -> str:
            native.release(topic, index)
            return aside.put_aside(directory.path, description)

        try:
            return directory, await trio.to_thread.run_sync(move)
        except (OSError, StorageError) as error:
            self.failures[key] = failure = StorageError(
                f"{topic}-{index} is of another topic of this name, and cannot be put aside: {error}"
            )
            raise failure from error

    async def begin_epochs(self, epochs: Mapping[PartitionKey, int]) -> dict[PartitionKey, StorageError]:
        """Becoming leader of partitions: leader epoch of each. Returns what failed."""
        return await self._in_directories(epochs, LogDirectory.begin_epochs)

    async def follow(self, epochs: Mapping[PartitionKey, int]) -> dict[PartitionKey, StorageError]:
        """Becoming follower of partitions: leader epoch of each. Returns what failed. When this returns, no append of
        an older epoch is under way, and none is possible.
        """
        return await self._in_directories(epochs, LogDirectory.follow)

    async def _in_directories(
        self,
        epochs: Mapping[PartitionKey, int],
        work: Callable[[LogDirectory, dict[PartitionKey, int]], dict[PartitionKey, KafkaError]],
    ) -> dict[PartitionKey, StorageError]:
        """Does `work` for each directory on a thread, for all its partitions at once, and returns their errors."""
        by_directory: dict[DataDirectory, dict[PartitionKey, int]] = {}
        slices = Slices(own=True)
        for key, epoch in epochs.items():
            await slices.row()
            directory = self._homes.get(key)
            if directory is not None:
                by_directory.setdefault(directory, {})[key] = epoch
        failed: dict[PartitionKey, StorageError] = {}
        for directory, each in by_directory.items():
            if directory.native is None:
                # It failed a moment ago, and its partitions are offline.
                continue
            errors = await trio.to_thread.run_sync(work, directory.native, each)
            for key, error in errors.items():
                # Also of a log that is in a newer epoch already: nothing may be appended to it under this one.
                failed[key] = error if isinstance(error, StorageError) else StorageError(str(error))
        return failed

    async def truncate(self, cuts: Sequence[Truncation]) -> list[KafkaError | None]:
        """Cuts off the ends of logs, and returns when that would survive a power cut; for each what kept it from
        happening.
        """
        natives = [self._homes.get((one.partition.topic, one.partition.index)) for one in cuts]

        def run() -> list[KafkaError | None]:
            errors: list[KafkaError | None] = [StorageError("the log is not here any more")] * len(cuts)
            for home in {home for home in natives if home is not None and home.native is not None}:
                native = home.open_native
                for is_anew, work in ((False, native.truncate), (True, native.start_anew)):
                    places = [
                        place for place, one in enumerate(cuts) if natives[place] is home and one.is_anew is is_anew
                    ]
                    ends = [
                        LogEnd(one.partition.topic, one.partition.index, one.offset, leader_epoch=one.leader_epoch)
                        for one in map(cuts.__getitem__, places)
                    ]
                    # One checkpoint for all of them.
                    for place, error in zip(places, work(ends) if ends else (), strict=True):
                        errors[place] = error
            return errors

        return await trio.to_thread.run_sync(run)

    def topic_config(self, topic: str | None) -> TopicConfig:
        """The settings that hold for a topic now (None: for one without settings of its own)."""
        return topic_config(self._settings, topic)

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
            for log in logs.of_topic(topic):
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
        elif self.directories.offline:
            raise StorageError(
                f"{topic}-{index} may be in a log directory that is out of use: {self.directories.offline[0]}"
            )

    async def sync_deletions(self) -> None:
        """Returns when what `delete` did would survive a power cut: a topic must not leave the tree before. Raises
        StorageError.
        """

        def sync() -> None:
            for directory in self.directories.online:
                sync_folder(directory.path)

        try:
            await trio.to_thread.run_sync(sync)
        except OSError as error:
            raise StorageError(f"deletions may not survive a power cut: {error}") from error

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
        # Of a log that moves both directories, the new one first: it may have taken the place of the old one, where the
        # start was moved then, while `_homes` does not say so yet.
        keys = [(log.topic, log.partition) for log, _ in starts]
        targets = [self._future_homes.get(key) for key in keys]
        homes = [
            {home for home in (target, self._homes.get(key)) if home is not None}
            for target, key in zip(targets, keys, strict=True)
        ]
        failures: dict[DataDirectory, KafkaError] = {}
        for home in set().union(*homes):
            try:
                home.open_native.checkpoint_start_offsets()
            except KafkaError as failure:
                failures[home] = failure
        failed = [next((failures[home] for home in both if home in failures), None) for both in homes]
        return [error or failure for error, failure in zip(errors, failed, strict=True)]

    def cleanable(self, now_ms: int) -> dict[Cleanable, LogDirectory]:
        """The compacted logs with what there is to clean in them, and where they are. None of those whose settings are
        not understood.
        """
        found: dict[Cleanable, LogDirectory] = {}
        self.directories.in_each(lambda native: found.update(dict.fromkeys(native.cleanable(now_ms), native)))
        kept = {topic for topic in {log.topic for log in found} if self.topic_config(topic).keeps_everything}
        return {log: native for log, native in found.items() if log.topic not in kept}

    @property
    def flush_on_acks_all(self) -> bool:
        return self._settings.config.get_bool("log.flush.on.acks.all")

    async def run(self) -> None:
        """Retention and checkpoints, until cancelled."""
        await upkeep.run(self.directories, self._settings.config)


def _create(native: LogDirectory, topic: str, indexes: list[int], config: LogConfig, note: Note | None) -> list[Log]:
    created = native.create(topic, indexes, config)
    if note is not None:
        for log in created:
            _write_note(log, note)
    return created


def _write_note(log: Log, note: Note) -> None:
    """A log without one is as good, as long as nobody takes its topic's name."""
    try:
        log_notes.write(Path(log.directory), note)
    except OSError as error:
        logger.warning("no note can be written beside the log in %s: %s", log.directory, error)


def is_beginning_of(log: Log, other: Log) -> bool:
    """Whether everything in `log` is in `other`, as far as their leader epochs tell; without any, nobody knows.

    One leader wrote each epoch, so logs that have the same epoch at an offset are the same up to there. Where an epoch
    begins says nothing: deletion, and recovery of a compacted log, put it at the first record that is left.
    """
    end = log.end_offset
    if end == log.start_offset:
        return True
    epochs, others = ([epoch for epoch, start in one.leader_epochs if start < end] for one in (log, other))
    return end <= other.end_offset and bool(epochs) and epochs[-1:] == others[-1:]
