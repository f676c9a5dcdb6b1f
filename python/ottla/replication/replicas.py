"""All replicas of this broker: from the controller's word to a partition with a log, and away again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from ottla.config.topic import record_format
from ottla.errors import ReplicaNotAvailable, StorageError
from ottla.logging_setup import Repeated, of_partition
from ottla.net import Server
from ottla.replication.moves import Moves
from ottla.replication.partition import Partition, PartitionState

if TYPE_CHECKING:
    from ottla.config import TopicConfig
    from ottla.replication.data_directory import DataDirectory
    from ottla.replication.internal_topic import RoleListener
    from ottla.replication.log_manager import LogManager

logger = logging.getLogger("ottla.replicas")

#: Group flushes of a partition at a time: one that runs, and one that waits for it.
FLUSHES_MAX = 2

#: How often it is looked whether retention or DeleteRecords moved a log's start.
LOG_START_CHECK_S = 10.0


class Replicas:
    """The partitions that a controller gave to this broker, by topic and number."""

    def __init__(self, broker_id: int, logs: LogManager, server: Server) -> None:
        self.partitions: dict[tuple[str, int], Partition] = {}
        #: Who is told of the roles of an internal topic's partitions, by topic.
        self.role_listeners: dict[str, RoleListener] = {}
        #: Told of every log directory that went out of use, after its partitions went offline.
        self.directory_failed: Callable[[DataDirectory], None] = lambda _: None
        #: Told when logs could not be made, or become a leader's, though their directory works: for want of descriptors
        #: or space. The controller has to ask again.
        self.has_run_out: Callable[[], None] = lambda: None
        self._broker_id = broker_id
        self._logs = logs
        self._server = server
        #: Held while roles change: requests of controllers are decided and done one at a time, each from a fresh look.
        #: One that waited behind a newer one's changes nothing.
        self.changing = trio.Lock()
        self._completions = server.hub.completions
        self.moves = Moves(self, logs)
        self._refusals = Repeated(logger)
        logs.directories.report_to(server, self._failure_reported)

    async def apply(
        self, topic: str, states: dict[int, PartitionState], new: Collection[int] = ()
    ) -> dict[int, StorageError]:
        """Makes this broker leader or follower of a topic's partitions, creating what logs are missing; `new` are those
        that never had one. Returns those whose logs cannot be used.
        """
        async with self.changing:
            return await self.apply_changing(topic, states, new)

    async def apply_changing(
        self, topic: str, states: dict[int, PartitionState], new: Collection[int] = ()
    ) -> dict[int, StorageError]:
        """The same for a caller that holds `changing`. A state that is not newer than the known one changes nothing,
        not even the log's epochs.
        """
        states = {index: state for index, state in states.items() if self._is_newer(topic, index, state)}
        places = await self._logs.open_or_create(topic, list(states), new)
        # Off the loop, and before the role changes: nothing can be appended under an epoch that the log does not know.
        led = {index: state.leader_epoch for index, state in states.items() if state.leader == self._broker_id}
        errors = places.errors | await self._logs.begin_epochs(topic, led)
        self.check_directories()
        settings = self._logs.topic_config(topic)
        for index, state in states.items():
            partition = self.partitions.get((topic, index))
            if index in errors or index not in places.logs:
                continue
            failure = self._logs.failures.get((topic, index))
            if failure is not None:
                # Its directory failed since the log was found.
                errors[index] = StorageError(f"{topic}-{index} is offline: {failure}")
                continue
            if partition is None:
                log = places.logs[index]
                partition = self.partitions[topic, index] = Partition(topic, index, self._broker_id, log)
                self._configure(partition, settings)
            was_leader = partition.is_leader
            if partition.apply(state) and topic in self.role_listeners:
                self._role_changed(partition, was_leader)
            if (topic, index) in self._logs.futures:
                self.moves.start(topic, index)
        if self._logs.directories.offline:
            for index in errors:
                self.mark_offline(topic, index)
        elif errors:
            self.has_run_out()
        return errors

    def _is_newer(self, topic: str, index: int, state: PartitionState) -> bool:
        known = self.partitions.get((topic, index))
        return known is None or state.leader_epoch > known.leader_epoch

    def _role_changed(self, partition: Partition, was_leader: bool) -> None:
        listener = self.role_listeners.get(partition.topic)
        if listener is None:
            return
        if was_leader:
            listener.resigned(partition.index)
        if partition.is_leader:
            listener.elected(partition.index, partition.leader_epoch)

    def mark_offline(self, topic: str, index: int) -> None:
        """The partition's log is where it cannot be used: requests get KAFKA_STORAGE_ERROR."""
        partition = self.partitions.get((topic, index))
        if partition is None:
            partition = self.partitions[topic, index] = Partition.without_log(topic, index, self._broker_id)
        was_leader = partition.is_leader
        partition.go_offline()
        self._role_changed(partition, was_leader)

    async def move(self, topic: str, index: int, directory: DataDirectory) -> None:
        """Starts moving a partition into a log directory; a move into another one is given up. A partition that is not
        here yet will be made there.

        Raises StorageError, and ReplicaNotAvailable for a partition that is not here.
        """
        async with self.changing:
            partition = self.partitions.get((topic, index))
            if partition is not None and partition.is_offline:
                raise StorageError(f"{topic}-{index} is offline")
            underway = self._logs.future_directory_of(topic, index)
            if partition is not None and underway not in (None, directory):
                await self._logs.delete_future(topic, index)
                underway = None
            self._logs.prefer(topic, index, directory)
            if partition is None:
                raise ReplicaNotAvailable(f"this broker has no replica of {topic}-{index}")
            if underway is None and self._logs.directory_of(topic, index) is not directory:
                await self._logs.create_future(topic, index, directory)
                self.moves.start(topic, index)

    async def replace_with_future(self, key: tuple[str, int]) -> bool:
        """Ends the move of a partition, if little enough is left of it. Raises StorageError."""
        async with self.changing:
            partition, old = self.partitions.get(key), self._logs.logs.get(key)
            if partition is None or old is None or key not in self._logs.futures:
                return True
            try:
                log = await self._logs.replace_with_future(*key)
            finally:
                self.check_directories()
            if log is None:
                return False
            if not partition.is_offline and partition.moved(log):
                self.flush(partition)
            await trio.to_thread.run_sync(lambda: old.close(flush=False))
            return True

    def _configure(self, partition: Partition, settings: TopicConfig) -> None:
        partition.change(
            min_insync_replicas=settings.get_int("min.insync.replicas"),
            flush_on_acks_all=self._logs.flush_on_acks_all,
        )
        partition.compression_type = settings.get_str("compression.type")
        partition.may_delete = "delete" in settings.get_list("cleanup.policy")
        partition.may_convert_down = settings.get_bool("message.downconversion.enable")
        partition.record_format = record_format(settings.get_str("message.format.version"))

    def settings_changed(self) -> None:
        """The broker's settings did, which are the defaults of every topic's."""
        settings: dict[str, TopicConfig] = {}
        for (topic, _), partition in self.partitions.items():
            if topic not in settings:
                settings[topic] = self._logs.topic_config(topic)
            self._configure(partition, settings[topic])

    def topic_config_changed(self, topic: str) -> None:
        settings = self._logs.topic_config(topic)
        for (name, _), partition in self.partitions.items():
            if name == topic:
                self._configure(partition, settings)

    async def stop(self, topic: str, index: int, delete: bool) -> None:
        """Stops serving a partition, and deletes its log if asked to. Raises StorageError."""
        async with self.changing:
            await self.stop_changing(topic, index, delete)

    async def stop_changing(self, topic: str, index: int, delete: bool) -> None:
        """The same for a caller that holds `changing`."""
        partition = self.partitions.pop((topic, index), None)
        if partition is not None:
            was_leader = partition.is_leader
            partition.resign()
            self._role_changed(partition, was_leader)
        if delete:
            await self._logs.delete(topic, index)

    async def watch_log_starts(self) -> None:
        """Tells resting fetch sessions of log starts that moved, until cancelled."""
        while True:
            await trio.sleep(LOG_START_CHECK_S)
            for partition in self.partitions.values():
                partition.check_log_start()

    def flush(self, partition: Partition) -> None:
        """Starts a group flush of the partition's log; its waiting produces are answered when it is done.

        One runs and one waits, which covers what comes until it begins; whoever comes later is seen to when they are
        done. So appends that come by the dozen do not each cost a completion.
        """
        if partition.flushes == FLUSHES_MAX:
            partition.flush_again = True
            return
        partition.flushes += 1

        def flushed(_: Any, error: BaseException | None) -> None:
            partition.flushes -= 1
            if error is not None:
                self.storage_error(partition, error)
                if not partition.is_offline:
                    partition.flush_again = False
                    partition.flush_failed()
                return
            partition.flushed()
            if partition.flush_again and not partition.flushes:
                partition.flush_again = False
                if partition.log.flushed_offset < partition.log.end_offset:
                    self.flush(partition)
            return

        self._server.submit(partial(partition.log.flush_async, self._completions), flushed)

    def storage_error(self, partition: Partition, error: BaseException) -> None:
        """An operation on a partition's log failed at the disk.

        A full disk may fail the request alone (see DESIGN.md). Anything else takes the directory out of use: what is in
        memory can no longer be trusted to be what is on disk, so none of its partitions is served.
        """
        if not self.check_directories() and not partition.is_offline:
            # While a disk is full this is every append.
            key = (partition.topic, partition.index)
            self._refusals.log(
                logging.WARNING, (key, type(error)), "%s: %s", partition, error, extra=of_partition(*key)
            )

    def _failure_reported(self, _: Any, error: BaseException | None) -> None:
        self.check_directories()

    def check_directories(self) -> bool:
        """Takes the partitions of log directories that failed offline. False if there is none that is news."""
        failed = [
            (directory, failure) for directory in self._logs.directories.online if (failure := directory.native_failure)
        ]
        for directory, failure in failed:
            keys = self._logs.take_offline(directory, failure)
            for topic, index in keys:
                self.mark_offline(topic, index)
            logger.error(
                "the log directory %s failed, its %d partitions are offline until a restart: %s",
                directory,
                len(keys),
                failure,
            )
            self.directory_failed(directory)
        return bool(failed)
