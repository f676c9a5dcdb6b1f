"""The coordinator of the groups whose partitions of `__consumer_offsets` this broker leads.

It ties the state machines to what they know nothing of: the log (every change is safe there before anyone is told),
time (one alarm per group, at the first of its timers), and those who wait. A caller gives a function that is called
with the result, now or later; nothing here is a task of its own but the loading of a partition and the expiry of
offsets.

A partition that this broker comes to lead is *loading* until its log was read; its groups are there all at once, after
that. Whoever finds a group in `groups` may use it: groups of partitions that are led by others, or loading, are not
there.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import trio

from ottla.errors import (
    CoordinatorLoadInProgress,
    IllegalGeneration,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    KafkaError,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownServerError,
    counted,
)
from ottla.group import records
from ottla.group.append_errors import as_commit_error, as_store_error
from ottla.group.effects import Answer, Effect, Store
from ottla.group.hosted import Alarm, Done, GroupSettings, Hosted
from ottla.group.loading import LoadedGroup, Replay, restore, to_store
from ottla.group.members import NEVER, JoinRequest, JoinResult, SyncResult, named
from ottla.group.offsets import Commits
from ottla.group.removal import Removal
from ottla.group.roster import Kept
from ottla.group.state import DEAD, Group, State
from ottla.net.guard import failed
from ottla.slices import Slices, are_few

if TYPE_CHECKING:
    from ottla.replication.delayed import Deadlines
    from ottla.replication.internal_topic import InternalTopic, NewRecords

logger = logging.getLogger("ottla.group")

#: How long after a failed loading it is tried again.
RELOAD_SECONDS = 5.0

#: What comes, goes or answers a member costs some 20 us: as much as so many rows of a request.
GROUP_ROWS, EFFECT_ROWS = 4, 4


class GroupCoordinator:
    """See above. All methods are called from the loop's thread; errors are Kafka's codes, 0 is none."""

    def __init__(
        self,
        topic: InternalTopic,
        deadlines: Deadlines,
        settings: GroupSettings,
        *,
        now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.topic = topic
        self.groups: dict[str, Hosted] = {}
        self._deadlines = deadlines
        self.settings = settings
        self._now_ms = now_ms
        self.wall_ms = wall_ms
        self.removal = Removal(self)
        self._kept = Kept()
        #: partition to leader epoch
        self._owned: dict[int, int] = {}
        self._loading: dict[int, int] = {}
        #: the transactions that end on a partition while it is read: their producer's id, and whether they commit
        self._ended_meanwhile: dict[int, list[tuple[int, bool]]] = {}
        #: the groups with open transactions, by producer id
        self._transactions: dict[int, set[str]] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Loads what is led, and expires offsets, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self.topic.subscribe(self)
            task_status.started()
            while True:
                await trio.sleep(self.settings.retention_check_interval_ms / 1000)
                await self.removal.expire_offsets()

    def stop(self) -> None:
        """The broker is stopping: whoever waits is answered, nobody new is served."""
        # First, so that nothing is left for a task that would not come to it.
        self._nursery = None
        for index in [*self._owned, *self._loading]:
            self.resigned(index)

    @property
    def loading(self) -> int:
        """How many partitions it leads and has not read yet."""
        return len(self._loading)

    # --- which groups are here ---

    def missing(self, group_id: str, *, may_be_empty: bool = False) -> int:
        """Why a group is not in `groups`; 0 if it could be: then it does not exist."""
        if not group_id and not may_be_empty:
            return InvalidGroupId.code
        index = self.topic.partition_for(group_id)
        if index in self._loading:
            return CoordinatorLoadInProgress.code
        return 0 if index in self._owned else NotCoordinator.code

    def elected(self, index: int, leader_epoch: int) -> None:
        if self._nursery is not None:
            self._loading[index] = leader_epoch
            self._ended_meanwhile.setdefault(index, [])
            self._nursery.start_soon(self._load, index, leader_epoch)

    def resigned(self, index: int) -> None:
        self._loading.pop(index, None)
        self._ended_meanwhile.pop(index, None)
        self._owned.pop(index, None)
        gone = [entry for entry in self.groups.items() if entry[1].index == index]
        for group_id, hosted in gone:
            self._forget(group_id, hosted)
        if self._nursery is not None and not are_few(GROUP_ROWS * len(gone)):
            self._nursery.start_soon(self._end_in_slices, [hosted for _, hosted in gone])
        else:
            for _, hosted in gone:
                self._end(hosted)

    def drop(self, group_id: str, hosted: Hosted) -> None:
        """The group is no longer here; who waits for it is answered."""
        self._forget(group_id, hosted)
        self._end(hosted)

    def _forget(self, group_id: str, hosted: Hosted) -> None:
        """Nobody finds the group any more."""
        del self.groups[group_id]
        for producer_id in hosted.group.offsets.open_transactions:
            self._close_transaction(producer_id, group_id)

    def _end(self, hosted: Hosted) -> None:
        hosted.group.die()
        self._after(hosted)

    async def _end_in_slices(self, several: list[Hosted]) -> None:
        """Many groups end."""
        slices = Slices(own=True)
        for hosted in several:
            self._end(hosted)
            await slices.row(GROUP_ROWS)

    def _host(self, group_id: str) -> Hosted:
        """The group, new if need be. Its partition is owned."""
        hosted = self.groups.get(group_id)
        if hosted is None:
            index = self.topic.partition_for(group_id)
            hosted = Hosted(self._new_group(group_id), index, self._owned[index], self.wall_ms())
            self.groups[group_id] = hosted
        return hosted

    def _new_group(self, group_id: str) -> Group:
        return Group(group_id, self.settings.limits, lambda: str(uuid.uuid4()), self._kept)

    async def _load(self, index: int, leader_epoch: int) -> None:
        """Reads a partition's groups, unless another role comes in between. Tries again as long as that fails."""
        while self._loading.get(index) == leader_epoch:
            started = time.monotonic()
            where = f"{self.topic.name}-{index}"
            replay = Replay(where)
            try:
                async for batch in self.topic.load(index):
                    info = batch.info
                    replay.take(info.producer_id, info.is_transactional, batch.is_commit, batch.records)
                slices = Slices(own=True)
                for _ in replay.decode():
                    await slices.end()
            except KafkaError as error:
                if self._loading.get(index) == leader_epoch:
                    # Not to be answered as if it were empty: consumers would begin anew.
                    logger.error("the groups of %s cannot be read, it is tried again: %s", where, error)
                    await trio.sleep(RELOAD_SECONDS)
                continue
            if await self._take_over(index, leader_epoch, replay.groups):
                took_ms = (time.monotonic() - started) * 1000
                log = logger.info if replay.groups else logger.debug
                log("read %s of %s in %.0f ms", counted(len(replay.groups), "group"), where, took_ms)

    async def _take_over(self, index: int, leader_epoch: int, groups: Mapping[str, LoadedGroup]) -> bool:
        """Hosts the groups of a partition, all at once; before and after that in slices. False if
        another role came in between.
        """
        wall_ms, now_ms = self.wall_ms(), self._now_ms()
        new: dict[str, Hosted] = {}
        slices = Slices(own=True)
        for group_id, loaded in groups.items():
            group = self._new_group(group_id)
            restore(group, loaded)
            since_ms = wall_ms if loaded.stored is None else loaded.stored.state_timestamp_ms
            new[group_id] = Hosted(group, index, leader_epoch, since_ms)
            group.taken_over(now_ms)
            await slices.row(GROUP_ROWS)
        if self._loading.get(index) != leader_epoch:
            return False
        del self._loading[index]
        self._owned[index] = leader_epoch
        self.groups.update(new)
        for group_id, hosted in new.items():
            for producer_id in hosted.group.offsets.open_transactions:
                self._transactions.setdefault(producer_id, set()).add(group_id)
        for producer_id, is_commit in self._ended_meanwhile.pop(index):
            self.marker_written(index, producer_id, is_commit)
        for group_id, hosted in new.items():
            if self.groups.get(group_id) is hosted:
                self._after(hosted)
            await slices.row(GROUP_ROWS)
        return True

    # --- members ---

    def join(self, group_id: str, request: JoinRequest, done: Callable[[JoinResult], None]) -> None:
        hosted = self.groups.get(group_id) if group_id else None
        error = self.missing(group_id) if hosted is None else 0
        if error:
            return done(JoinResult(request.member_id, error))
        settings = self.settings
        if not settings.session_timeout_ms_min <= request.session_timeout_ms <= settings.session_timeout_ms_max:
            return done(JoinResult(request.member_id, InvalidSessionTimeout.code))
        size_bytes = sum(len(name) + len(metadata) for name, metadata in request.protocols)
        if size_bytes > settings.limits.metadata_bytes_max:
            logger.warning(
                "group %s: a join of %s is refused, its metadata of %d bytes is larger than %d",
                group_id,
                request.client_host,
                size_bytes,
                settings.limits.metadata_bytes_max,
                extra={"group": group_id},
            )
            return done(JoinResult(request.member_id, InvalidRequest.code))
        if hosted is None:
            if request.member_id:
                return done(JoinResult(request.member_id, UnknownMemberId.code))
            hosted = self._host(group_id)
        hosted.group.join(self._now_ms(), done, request)
        return self._after(hosted)

    def sync(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocol_type: str | None,
        protocol: str | None,
        assignments: Mapping[str, bytes],
        done: Callable[[SyncResult], None],
    ) -> None:
        hosted = self.groups.get(group_id) if group_id else None
        if hosted is None:
            error = self.missing(group_id) or UnknownMemberId.code
            if error == CoordinatorLoadInProgress.code:
                # Clients do not expect that here. The rebalance they are in is lost anyway: they join again.
                error = RebalanceInProgress.code
            return done(SyncResult(error))
        hosted.group.sync(
            self._now_ms(), done, member_id, instance_id, generation, protocol_type, protocol, assignments
        )
        return self._after(hosted)

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> int:
        hosted = self.groups.get(group_id)
        if hosted is None or not group_id:
            error = self.missing(group_id) or UnknownMemberId.code
            # While it loads nobody can be late.
            return 0 if error == CoordinatorLoadInProgress.code else error
        group = hosted.group
        error = group.heartbeat(self._now_ms(), member_id, instance_id, generation)
        if group.next_timer_ms < hosted.alarm_ms:
            self._set_alarm(hosted)
        return error

    def leave(self, group_id: str, leaving: Sequence[tuple[str, str | None]]) -> tuple[int, list[int]]:
        """(member id, instance id) of each who leaves. The error for all, and one for each."""
        hosted = self.groups.get(group_id) if group_id else None
        if hosted is None:
            error = self.missing(group_id)
            return error, [] if error else [UnknownMemberId.code] * len(leaving)
        now_ms = self._now_ms()
        errors = [hosted.group.leave(now_ms, member_id, instance_id) for member_id, instance_id in leaving]
        if gone := [
            member_id or instance_id or ""
            for (member_id, instance_id), error in zip(leaving, errors, strict=True)
            if not error
        ]:
            logger.info("group %s: %s left", group_id, named(gone))
        self._after(hosted)
        return 0, errors

    # --- offsets ---

    def commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        commits: Commits,
        done: Done,
    ) -> None:
        """Stores offsets; `done` is called when they are safe. Commits of one turn of the hub are written together."""
        hosted = self.groups.get(group_id)
        if hosted is None:
            error = self.missing(group_id, may_be_empty=True)
            if not error and generation >= 0:
                error = IllegalGeneration.code
            if error:
                return done(error)
            hosted = self._host(group_id)
        group = hosted.group
        error = group.commit_error(self._now_ms(), member_id, instance_id, generation)
        if group.next_timer_ms < hosted.alarm_ms:
            self._set_alarm(hosted)
        if error:
            return done(error)
        # What cannot be written changes nothing.
        new = _records(group_id, commits)
        offsets = group.offsets
        offsets.prepare(commits)

        def appended(error: int, last_offset: int) -> None:
            if error:
                offsets.failed(commits)
                done(as_commit_error(error))
            else:
                offsets.appended(commits, last_offset - len(commits) + 1)
                done(0)

        return self.topic.append_shared(hosted.index, hosted.leader_epoch, new, appended)

    def commit_in_transaction(
        self,
        group_id: str,
        producer: tuple[int, int],
        member_id: str,
        instance_id: str | None,
        generation: int,
        commits: Commits,
        done: Done,
    ) -> None:
        """Stores offsets that count once the transaction of `producer` (id and epoch) commits."""
        hosted = self.groups.get(group_id) if group_id else None
        if hosted is None:
            error = self.missing(group_id)
            if error:
                return done(error)
            hosted = self._host(group_id)
        error = hosted.group.transactional_commit_error(member_id, instance_id, generation)
        if error:
            return done(error)
        new = _records(group_id, commits)
        producer_id, _ = producer
        offsets = hosted.group.offsets
        offsets.prepare_transactional(producer_id, commits)
        self._transactions.setdefault(producer_id, set()).add(group_id)

        def appended(error: int, last_offset: int) -> None:
            if error:
                offsets.failed_transactional(producer_id, commits)
                if producer_id not in offsets.open_transactions:
                    self._close_transaction(producer_id, group_id)
                done(as_commit_error(error))
            else:
                offsets.appended_transactional(producer_id, commits, last_offset - len(commits) + 1)
                done(0)

        return self.topic.append_then(hosted.index, hosted.leader_epoch, new, appended, producer)

    def marker_written(self, index: int, producer_id: int, is_commit: bool) -> None:
        """A transaction's marker is committed on a partition: what its producer committed there counts, or is gone."""
        if index in self._loading:
            # The groups may be read up to a place before the marker. If they are read beyond it, nothing of a later
            # transaction is there that it could end: while a partition is read, its groups take no offsets.
            self._ended_meanwhile[index].append((producer_id, is_commit))
            return
        for group_id in list(self._transactions.get(producer_id, ())):
            hosted = self.groups.get(group_id)
            if hosted is not None and hosted.index == index:
                hosted.group.offsets.end_transaction(producer_id, is_commit)
                self._close_transaction(producer_id, group_id)

    def _close_transaction(self, producer_id: int, group_id: str) -> None:
        groups = self._transactions.get(producer_id)
        if groups is not None:
            groups.discard(group_id)
            if not groups:
                del self._transactions[producer_id]

    # --- administration ---

    @property
    def is_loading(self) -> bool:
        return bool(self._loading)

    def listed(self, states: Iterable[str]) -> Iterator[tuple[str, str, State] | None]:
        """Group id, protocol type and state of each group in one of `states` (by name; none: all); None for a group in
        another state. The groups are those that there were at the first one.
        """
        wanted = set(states)
        for group_id, hosted in list(self.groups.items()):
            group = hosted.group
            is_wanted = not wanted or group.state.value in wanted
            yield (group_id, group.protocol_type or "", group.state) if is_wanted else None

    # --- what state machines ask for ---

    def _ring(self, hosted: Hosted) -> None:
        """A group's first timer is due."""
        hosted.alarm, hosted.alarm_ms = None, NEVER
        hosted.group.tick(self._now_ms())
        self._after(hosted)

    def _after(self, hosted: Hosted) -> None:
        """Does what a group asks for."""
        group = hosted.group
        if group.state is not hosted.state:
            hosted.state = group.state
            hosted.state_timestamp_ms = self.wall_ms()
        while group.effects:
            effects, group.effects = group.effects, []
            if not are_few(EFFECT_ROWS * len(effects)) and self._nursery is not None:
                self._nursery.start_soon(self._do_in_slices, hosted, effects)
                continue
            for effect in effects:
                self._do(hosted, effect)
        if group.next_timer_ms < hosted.alarm_ms:
            self._set_alarm(hosted)

    def _do(self, hosted: Hosted, effect: Effect) -> None:
        try:
            if isinstance(effect, Answer):
                effect.token(effect.result)
            else:
                self._store(hosted, effect)
        except BaseException as error:
            # One member's answer, or a generation that cannot be stored: the others hear of theirs.
            failed(f"an effect of group {hosted.group}", error)
            if not isinstance(effect, Answer):
                hosted.group.stored(self._now_ms(), effect, UnknownServerError.code)

    async def _do_in_slices(self, hosted: Hosted, effects: list[Effect]) -> None:
        """Many members are answered, each for itself."""
        slices = Slices(own=True)
        for effect in effects:
            self._do(hosted, effect)
            if slices.is_over(EFFECT_ROWS):
                self._after(hosted)
                await slices.end()
        self._after(hosted)

    def _store(self, hosted: Hosted, store: Store) -> None:
        group = hosted.group
        value = records.group_value(to_store(group, store.assignments, hosted.state_timestamp_ms))

        def appended(error: int, _: int) -> None:
            if group.state is DEAD:
                return
            if error:
                logger.warning(
                    "group %s: generation %d was not stored: error %d",
                    group,
                    store.generation,
                    error,
                    extra={"group": str(group)},
                )
            group.stored(self._now_ms(), store, as_store_error(error))
            self._after(hosted)

        self.topic.append_then(
            hosted.index, hosted.leader_epoch, [(records.group_key(group.group_id), value)], appended
        )

    def _set_alarm(self, hosted: Hosted) -> None:
        if hosted.alarm is not None:
            hosted.alarm.done = True
        hosted.alarm = Alarm(hosted, self._ring)
        hosted.alarm_ms = hosted.group.next_timer_ms
        self._deadlines.add(max(0, hosted.alarm_ms - self._now_ms()), hosted.alarm)


def _records(group_id: str, commits: Commits) -> NewRecords:
    return [
        (records.offset_key(group_id, topic, number), records.offset_value(commit))
        for (topic, number), commit in commits.items()
    ]
