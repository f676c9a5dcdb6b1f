"""All replicas of this broker: from the controller's word to a partition with a log, and away again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from ottla.config.topic import record_format
from ottla.errors import MayHaveLost, ReplicaNotAvailable, StorageError, counted
from ottla.kafka import PartitionKey
from ottla.logging_setup import Repeated, of_partition
from ottla.net import Server
from ottla.net.guard import failed
from ottla.replication import leading
from ottla.replication.awaited import Awaited
from ottla.replication.belonging import Taken
from ottla.replication.by_partition import ByPartition
from ottla.replication.in_sync import Proposal, now_ms
from ottla.replication.moves import Moves
from ottla.replication.partition import Partition
from ottla.replication.roles import PartitionState, Role
from ottla.slices import Slices

if TYPE_CHECKING:
    from ottla._core import Log
    from ottla.config import TopicConfig
    from ottla.replication.belonging import Belonging
    from ottla.replication.data_directory import DataDirectory
    from ottla.replication.following import Following
    from ottla.replication.log_manager import LogManager
    from ottla.replication.log_notes import Note
    from ottla.replication.roles import RoleListener
    from ottla.replication.throttles import Throttles
    from ottla.replication.unclean_start import UncleanStart

logger = logging.getLogger("ottla.replicas")

#: Group flushes of a partition at a time: one that runs, and one that waits for it.
FLUSHES_MAX = 2

#: How often it is looked whether retention or DeleteRecords moved a log's start.
LOG_START_CHECK_S = 10.0

#: How often it is looked whether a follower that came near goes on.
NEAR_CHECK_S = 0.1


class Replicas:
    """The partitions that a controller gave to this broker, by topic and number.

    `propose` is called with each change of an ISR that a partition wants. `following` has what this broker follows
    fetched; without it nothing is.

    `throttles` is told of the settings of topics. `unclean_start` has the replicas that may have lost records, and
    `belonging` knows whose the logs are that are here; None: nobody looks at that.

    `directory_failed` is told of every log directory that went out of use, after its partitions went offline;
    `has_run_out` when logs could not be made, or become a leader's, though their directory works: for want of
    descriptors or space. The controller has to ask again.
    """

    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        server: Server,
        *,
        directory_failed: Callable[[DataDirectory], None] = lambda _: None,
        has_run_out: Callable[[], None] = lambda: None,
        propose: Callable[[Partition, Proposal], None] = lambda partition, proposal: None,
        following: Following | None = None,
        throttles: Throttles | None = None,
        unclean_start: UncleanStart | None = None,
        belonging: Belonging | None = None,
    ) -> None:
        self.partitions: ByPartition[Partition] = ByPartition()
        #: Who is told of the roles of an internal topic's partitions, by topic.
        self.role_listeners: dict[str, RoleListener] = {}
        self._unclean_start = unclean_start
        self._belonging = belonging
        self._directory_failed = directory_failed
        self._has_run_out = has_run_out
        self._propose = propose
        self._following = following
        self._throttles = throttles
        #: Where the high watermark waits for a follower that is not in the ISR.
        self._near: dict[Partition, None] = {}
        #: The brokers that fetch as followers, by the connections that they do it on.
        self._fetching: dict[int, int] = {}
        #: Under which logs report that a fetcher moved the high watermark.
        self._high_watermarks = server.token()
        server.listen_to(self._high_watermarks, self._high_watermark_moved)
        self._came_near = trio.Event()
        #: This broker hands over what it leads, and then stops. It does not follow those who take it over: they would
        #: take it into the ISR again, and wait for it when it is gone.
        self.is_leaving = False
        #: Followers that have not heard yet of what this broker leads since a moment ago.
        self.awaited = Awaited()
        self._broker_id = broker_id
        self._logs = logs
        self._server = server
        #: Held while roles change: requests of controllers are decided and done one at a time, each from a fresh look.
        #: One that waited behind a newer one's changes nothing.
        self.changing = trio.Lock()
        self._completions = server.hub.completions
        self.moves = Moves(self, logs)
        #: Bytes of records that were sent to replicas that a reassignment adds.
        self.reassignment_bytes_out = 0
        self._refusals = Repeated(logger)
        logs.directories.report_to(server, self._failure_reported)

    async def apply(
        self, topic: str, states: dict[int, PartitionState], new: Collection[int] = ()
    ) -> dict[int, StorageError]:
        """Makes this broker leader or follower of a topic's partitions, creating what logs are missing; `new` are those
        that never had one. Returns those whose logs cannot be used.
        """
        async with self.changing:
            keyed = {(topic, index): state for index, state in states.items()}
            errors = await self.apply_changing(keyed, {(topic, index) for index in new})
        return {index: error for (_, index), error in errors.items()}

    async def apply_changing(
        self, states: Mapping[PartitionKey, PartitionState], new: Collection[PartitionKey] = ()
    ) -> dict[PartitionKey, StorageError]:
        """The same for the partitions of many topics, and a caller that holds `changing`. A state that is not newer
        than the known one changes nothing, not even the log's epochs.

        First nothing more is fetched for them. Then those that lose their leadership lose it, and those that lead on do
        so at once, since producers do not wait. Only when the logs know the new epochs, and the appends of the old ones
        have ended, the new leaders lead and the followers fetch.
        """
        slices = Slices(own=True)
        roles: dict[PartitionKey, Role] = {}
        for key, state in states.items():
            await slices.row()
            if (role := self._role(key, state)) is not Role.STALE:
                roles[key] = role
        taken = await self._before_roles(states, roles, new)
        refused = await self._refuse(states, roles, new)
        if self._following is not None:
            await self._following.stop(roles)
        resigned = await self._resign(states, roles)
        logs, errors = await self._open(roles, new, taken.notes)
        leads: dict[PartitionKey, int] = {}
        follows: dict[PartitionKey, int] = {}
        for key, role in roles.items():
            await slices.row()
            if key not in errors:
                (follows if role is Role.FOLLOWS else leads)[key] = states[key].leader_epoch
        errors |= await self._logs.begin_epochs(leads)
        errors |= await self._logs.follow(follows)
        self.check_directories()
        settings: dict[str, TopicConfig] = {}
        awaited: set[int] = set()
        for key, role in roles.items():
            await slices.row()
            if key in errors or key not in logs:
                continue
            failure = self._logs.failures.get(key)
            if failure is not None:
                # Its directory failed since the log was found.
                errors[key] = StorageError(f"{key[0]}-{key[1]} is offline: {failure}")
                continue
            partition = self.partitions.get(key)
            if partition is None:
                partition = self._add(key, logs[key], settings)
            self._apply(partition, states[key])
            if role is not Role.FOLLOWS:
                awaited.update(states[key].isr)
            elif self._following is not None and not (self.is_leaving and key in resigned):
                self._following.follow(partition)
            if key in self._logs.futures:
                self.moves.start(*key)
        self.awaited.expect(awaited - {self._broker_id})
        if self._logs.directories.offline:
            for topic, index in errors:
                self.mark_offline(topic, index)
        elif errors or taken.errors:
            self._has_run_out()
        errors |= taken.errors
        return errors | dict.fromkeys(refused, MayHaveLost())

    async def _resign(
        self, states: Mapping[PartitionKey, PartitionState], roles: Mapping[PartitionKey, Role]
    ) -> set[PartitionKey]:
        """Has the partitions that are led no more, or anew, lose their leadership; those that are led on do so. Returns
        those that this broker led and will follow.
        """
        slices = Slices(own=True)
        resigned: set[PartitionKey] = set()
        for key, role in roles.items():
            partition = self.partitions.get(key)
            if partition is None or partition.is_offline:
                continue
            if role is not Role.LEADS:
                if partition.is_leader and role is Role.FOLLOWS:
                    resigned.add(key)
                self._apply(partition, states[key])
            elif partition.is_leader:
                # Epochs are missing: another broker may have led in between.
                partition.resign()
                self._role_changed(partition, was_leader=True)
            await slices.row()
        return resigned

    async def _before_roles(
        self,
        states: Mapping[PartitionKey, PartitionState],
        roles: dict[PartitionKey, Role],
        new: Collection[PartitionKey],
    ) -> Taken:
        """Sees to it that a log that is here is the topic's. Takes those out of `roles` whose logs cannot be used."""
        if self._belonging is None:
            return Taken({}, set(), {})
        taken = await self._belonging.before_roles([key for key in roles if key not in self.partitions])
        for key in taken.errors:
            del roles[key]
        if self._unclean_start is not None:
            for key in taken.put_aside.difference(new):
                self._unclean_start.has_no_log(key)
        return taken

    async def _refuse(
        self,
        states: Mapping[PartitionKey, PartitionState],
        roles: dict[PartitionKey, Role],
        new: Collection[PartitionKey],
    ) -> set[PartitionKey]:
        """Takes those out of `roles` that this broker must not have because it may have lost records."""
        if not self._unclean_start:
            return set()
        refused = await self._unclean_start.refuse({key: states[key] for key in roles}, new)
        settings: dict[str, TopicConfig] = {}
        for key in refused:
            del roles[key]
            if key not in self.partitions and key in self._logs.logs:
                # Without a role or an epoch: a controller that asks again tells the same one.
                self._add(key, self._logs.logs[key], settings)
        return refused

    def _add(self, key: PartitionKey, log: Log, settings: dict[str, TopicConfig]) -> Partition:
        """A partition that is new to this broker; `settings` are those of the topics that were looked up already."""
        partition = self.partitions[key] = Partition(*key, self._broker_id, log, self)
        if key[0] not in settings:
            settings[key[0]] = self._logs.topic_config(key[0])
            self._throttle(key[0], settings[key[0]])
        self._configure(partition, settings[key[0]])
        return partition

    async def _open(
        self, keys: Collection[PartitionKey], new: Collection[PartitionKey], notes: Mapping[str, Note]
    ) -> tuple[dict[PartitionKey, Log], dict[PartitionKey, StorageError]]:
        """The logs of partitions, made where they are missing, with their topics' notes; and the errors of those that
        cannot be used.
        """
        topics: dict[str, list[int]] = {}
        slices = Slices(own=True)
        for topic, index in keys:
            await slices.row()
            topics.setdefault(topic, []).append(index)
        new_of: dict[str, set[int]] = {}
        for topic, index in new:
            new_of.setdefault(topic, set()).add(index)
        logs: dict[PartitionKey, Log] = {}
        errors: dict[PartitionKey, StorageError] = {}
        for topic, indexes in topics.items():
            await slices.row()
            places = await self._logs.open_or_create(topic, indexes, new_of.get(topic, ()), notes.get(topic))
            for index, log in places.logs.items():
                logs[topic, index] = log
            for index, error in places.errors.items():
                errors[topic, index] = error
        return logs, errors

    def _role(self, key: PartitionKey, state: PartitionState) -> Role:
        partition = self.partitions.get(key)
        if partition is not None:
            return partition.role(state)
        return Role.LEADS if state.leader == self._broker_id else Role.FOLLOWS

    def _apply(self, partition: Partition, state: PartitionState) -> None:
        was_leader = partition.is_leader
        role = partition.apply(state, now_ms())
        if role in (Role.LEADS, Role.FOLLOWS):
            self._role_changed(partition, was_leader)

    # --- as the owner of partitions ---

    def propose(self, partition: Partition, proposal: Proposal) -> None:
        """The partition wants this change of its ISR."""
        self._propose(partition, proposal)

    def came_near(self, partition: Partition) -> None:
        """The high watermark waits for a follower that is not in the ISR."""
        self._near[partition] = None
        self._came_near.set()

    def listen_to(self, partition: Partition) -> None:
        """Somebody waits for a high watermark that a fetcher moves."""
        partition.log.watch_high_watermark(self._high_watermarks)

    def _high_watermark_moved(self, key: PartitionKey | None, error: BaseException | None) -> None:
        partition = None if key is None else self.partitions.get(key)
        if partition is not None:
            partition.heard()

    def fetches_on(self, connection: int, follower: int) -> None:
        """A broker fetches as a follower on a connection, of whose end `disconnected` is told."""
        self._fetching[connection] = follower

    def disconnected(self, connection: int) -> None:
        """A connection has ended. A follower that fetched on it and was about to join the ISR is not waited for."""
        follower = self._fetching.pop(connection, None)
        if follower is not None:
            for partition in tuple(self._near):
                leading.went_away(partition, follower)

    async def watch_near(self, lag_max_ms: Callable[[], int], is_alive: Callable[[int], bool]) -> None:
        """Looks at followers that are about to join the ISR, until cancelled: writes do not wait for one that does not
        come on within the time that it may lag, or whose broker is not alive.
        """
        while True:
            await self._came_near.wait()
            await trio.sleep(NEAR_CHECK_S)
            slices = Slices(own=True)
            for partition in tuple(self._near):
                await slices.row()
                try:
                    is_near = leading.look_at_near(partition, now_ms(), lag_max_ms(), is_alive)
                except Exception as error:
                    failed(f"the look at the followers of {partition}", error)
                    is_near = False
                if not is_near:
                    del self._near[partition]
            if not self._near:
                self._came_near = trio.Event()

    async def watch_followers(self, lag_max_ms: Callable[[], int]) -> None:
        """Looks for followers that lag behind, twice in the time that they may lag, until cancelled."""
        while True:
            await trio.sleep(lag_max_ms() / 2000)
            slices = Slices(own=True)
            for partition in tuple(self.partitions.values()):
                if partition.in_sync is not None:
                    try:
                        leading.look_at_followers(partition, now_ms(), lag_max_ms())
                    except Exception as error:
                        failed(f"the look at the followers of {partition}", error)
                    await slices.row()

    def _role_changed(self, partition: Partition, was_leader: bool) -> None:
        listener = self.role_listeners.get(partition.topic)
        if listener is None:
            return
        if was_leader:
            listener.resigned(partition.index)
        if partition.is_leader:
            listener.elected(partition.index, partition.leader_epoch)

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether the partition's log is known to be where it cannot be used."""
        known = self.partitions.get((topic, index))
        return (known is not None and known.is_offline) or (topic, index) in self._logs.failures

    def mark_offline(self, topic: str, index: int) -> None:
        """The partition's log is where it cannot be used: requests get KAFKA_STORAGE_ERROR."""
        partition = self.partitions.get((topic, index))
        if partition is None:
            partition = self.partitions[topic, index] = Partition.without_log(topic, index, self._broker_id)
        was_leader = partition.is_leader
        partition.go_offline()
        if self._following is not None:
            self._following.forget((topic, index))
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

    async def replace_with_future(self, key: PartitionKey) -> bool:
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
            if self._following is not None and self._following.has(key):
                # Its fetcher holds the old log.
                await self._following.stop([key])
                self._following.follow(partition)
            await trio.to_thread.run_sync(lambda: old.close(flush=False))
            return True

    def _configure(self, partition: Partition, settings: TopicConfig) -> None:
        partition.change(
            min_insync_replicas=settings.get_int("min.insync.replicas"),
            flush_on_acks_all=self._logs.flush_on_acks_all,
            compression_type=settings.get_str("compression.type"),
        )
        partition.may_delete = settings.is_deleted and "cleanup.policy" not in settings.problems
        partition.may_convert_down = settings.get_bool("message.downconversion.enable")
        partition.record_format = record_format(settings.get_str("message.format.version"))

    def _throttle(self, topic: str, settings: TopicConfig) -> None:
        if self._throttles is not None:
            self._throttles.topic_changed(topic, settings)

    def settings_changed(self) -> None:
        """The broker's settings did, which are the defaults of every topic's."""
        settings: dict[str, TopicConfig] = {}
        for (topic, _), partition in self.partitions.items():
            if topic not in settings:
                settings[topic] = self._logs.topic_config(topic)
            self._configure(partition, settings[topic])

    def topic_config_changed(self, topic: str) -> None:
        settings = self._logs.topic_config(topic)
        self._throttle(topic, settings)
        for partition in self.partitions.of_topic(topic):
            self._configure(partition, settings)

    async def stop(self, topic: str, index: int, delete: bool) -> None:
        """Stops serving a partition, and deletes its log if asked to. Raises StorageError."""
        async with self.changing:
            await self.stop_changing(topic, index, delete)

    async def stop_changing(self, topic: str, index: int, delete: bool) -> None:
        """The same for a caller that holds `changing`."""
        if self._following is not None:
            await self._following.stop([(topic, index)])
        partition = self.partitions.pop((topic, index), None)
        if partition is not None:
            was_leader = partition.is_leader
            partition.resign()
            self._role_changed(partition, was_leader)
        if delete:
            if self._unclean_start is not None:
                self._unclean_start.forget((topic, index))
            await self._logs.delete(topic, index)

    async def sync_deletions(self) -> None:
        """Returns when logs that were deleted would stay so after a power cut. Raises StorageError."""
        await self._logs.sync_deletions()

    async def resign(self) -> None:
        """Leads nothing until a controller says so in a newer leader epoch: this broker was taken for gone, and others
        may lead.
        """
        slices = Slices(own=True)
        async with self.changing:
            for partition in tuple(self.partitions.values()):
                if partition.is_leader:
                    partition.resign()
                    self._role_changed(partition, was_leader=True)
                await slices.row()

    async def watch_log_starts(self) -> None:
        """Tells resting fetch sessions of log starts that moved, until cancelled."""
        while True:
            await trio.sleep(LOG_START_CHECK_S)
            slices = Slices(own=True)
            for partition in tuple(self.partitions.values()):
                partition.check_log_start()
                await slices.row()

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
            # Looked at first: nobody may be told of what other threads flush after the answers.
            is_behind = partition.log.flushed_offset < partition.log.end_offset
            partition.flushed()
            if partition.flush_again and not partition.flushes:
                partition.flush_again = False
                if is_behind:
                    self.flush(partition)
            return

        self._server.submit(partial(partition.log.flush_async, self._completions), flushed)

    def storage_error(self, partition: Partition, error: BaseException) -> None:
        """An operation on a partition's log failed at the disk.

        A full disk may fail the request alone (see docs/internals/log.md). Anything else takes the directory out of
        use: what is in memory can no longer be trusted to be what is on disk, so none of its partitions is served.
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
        lost = [
            (directory, failure) for directory in self._logs.directories.online if (failure := directory.native_failure)
        ]
        for directory, failure in lost:
            keys = self._logs.take_offline(directory, failure)
            for topic, index in keys:
                self.mark_offline(topic, index)
            logger.error(
                "the log directory %s failed, with it %s offline until a restart: %s",
                directory,
                counted(len(keys), "partition is", "partitions are"),
                failure,
            )
            self._directory_failed(directory)
        return bool(lost)
