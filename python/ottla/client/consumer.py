"""Records in: from partitions that are named, or as a member of a group.

A `poll` gives what the first leader answers (`fetcher`); where partitions begin is found meanwhile (`starts`). What a
group wants of a member is done inside of `poll` too; `membership` says how.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from inspect import isawaitable
from operator import itemgetter
from re import Pattern
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import trio

from ottla import _core
from ottla.client.bounds import at_least
from ottla.client.cluster import GONE_MS, Cluster
from ottla.client.commits import Commits, Offsets
from ottla.client.fetcher import Fetched, Fetcher
from ottla.client.group_connection import GroupConnection
from ottla.client.groups import Committed
from ottla.client.hand import Hand
from ottla.client.leader_epochs import LeaderEpochs
from ottla.client.membership import GroupMetadata, GroupSettings, Membership
from ottla.client.offsets import FoundOffset, list_offsets
from ottla.client.ongoing import Bell
from ottla.client.starts import STARTS, At, Place, Start, Starts
from ottla.errors import (
    CorruptMessage,
    InvalidConfig,
    InvalidGroupId,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    OffsetOutOfRange,
    error,
)
from ottla.kafka import EARLIEST, LATEST, NO_EPOCH, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

WAIT_MS = 500
FETCH_BYTES = 16 * 1024 * 1024
PARTITION_BYTES = 1024 * 1024
UNPACKED_BYTES_MAX = 128 * 1024 * 1024
ABORT = 0
AUTO_COMMIT_MS = 5_000
CLOSE_MS = 30_000
"""How long leaving the block may take that commits and leaves the group."""


class RebalanceListener:
    """What a program wants to know of partitions that come and go; override what is of interest. Methods may be
    coroutines. They run inside of `poll`, `unsubscribe` and the end of the block, and may call `commit` and `seek`.
    What they raise, `poll` raises.
    """

    def on_assigned(self, partitions: Collection[TopicPartition]) -> object:
        """These came, in addition to what was there. They are read from what the group has committed, unless this
        seeks.
        """

    def on_revoked(self, partitions: Collection[TopicPartition]) -> object:
        """These go, and nobody else reads them yet: the moment to finish and to commit."""

    def on_lost(self, partitions: Collection[TopicPartition]) -> object:
        """These are gone, others may read them already, and a commit is refused. As `on_revoked` unless overridden."""
        return self.on_revoked(partitions)


class ArrowBatch(NamedTuple):
    """Records of one partition as `pyarrow.RecordBatch`, with the columns of `ottla.records`."""

    partition: TopicPartition
    records: pa.RecordBatch


class Record(NamedTuple):
    """One record as it was consumed. `timestamp_ms` is -1 if it has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Consumer:
    """Reads partitions that are named:

        consumer = Consumer(cluster)
        await consumer.assign({TopicPartition("t", 0): EARLIEST})
        records = await consumer.poll()

    or shares topics with the other members of a group:

        async with Consumer(cluster, group="billing", start="earliest") as consumer:
            consumer.subscribe(["orders"])
            async for record in consumer:
                ...

    `positions` has the next offset of each partition and may be changed between polls. One task uses it at a time.

    A poll waits for the first record at most `wait_ms`; sizes are those of one answer and of one partition in
    it. A batch whose records take more than `unpacked_bytes_max` is not unpacked: a few bytes may be packed
    gigabytes. A partition that brokers have not known for `gone_ms` is gone; one that starts may not know it yet.

    The others are the Java client's, under its names where they differ by more than the underscores:

    * `group` (group.id): offsets are committed for it, and `subscribe` makes this a member. It needs the block.
    * `instance_id` (group.instance.id): a static member, who comes back with the same name.
    * `assignors` (partition.assignment.strategy): range, roundrobin, sticky, cooperative-sticky; the group takes
      the first that all members have. Where all of a member's assignors are cooperative, it reads on while the
      group rebalances.
    * `start` (auto.offset.reset): where to read where nothing is committed, or where that is no longer there:
      "earliest", "latest", or None, which is an error then. "latest" in a group; without one it is None.
    * `auto_commit` (enable.auto.commit): what earlier polls gave is committed every `auto_commit_interval_ms`,
      before partitions are given back, and at the end of the block unless an exception leaves it.
    * `max_poll_interval_ms`: who does not poll for so long leaves the group; the next poll comes back.

    Raises:
        InvalidConfig: a setting is unknown or contradicts another.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        group: str | None = None,
        instance_id: str | None = None,
        assignors: Sequence[str] = GroupSettings.assignors,
        start: str | None = "",
        auto_commit: bool = True,
        auto_commit_interval_ms: int = AUTO_COMMIT_MS,
        session_timeout_ms: int = GroupSettings.session_timeout_ms,
        heartbeat_interval_ms: int = GroupSettings.heartbeat_interval_ms,
        max_poll_interval_ms: int = GroupSettings.max_poll_interval_ms,
        metadata_max_age_ms: int = GroupSettings.metadata_max_age_ms,
        read_committed: bool = False,
        wait_ms: int = WAIT_MS,
        fetch_bytes: int = FETCH_BYTES,
        partition_bytes: int = PARTITION_BYTES,
        unpacked_bytes_max: int = UNPACKED_BYTES_MAX,
        gone_ms: int = GONE_MS,
    ) -> None:
        if group is None and instance_id is not None:
            raise InvalidConfig("instance_id is the name of a member: it needs a group")
        at_least(1, fetch_bytes=fetch_bytes, partition_bytes=partition_bytes, unpacked_bytes_max=unpacked_bytes_max)
        at_least(0, wait_ms=wait_ms, auto_commit_interval_ms=auto_commit_interval_ms)
        self.cluster = cluster
        self.group = group
        self.start: str | None = _checked_start(start, group)
        self.auto_commit = auto_commit and group is not None
        self.auto_commit_interval_ms = auto_commit_interval_ms
        self.read_committed = read_committed
        self.wait_ms = wait_ms
        self.fetch_bytes = fetch_bytes
        self.partition_bytes = partition_bytes
        self.unpacked_bytes_max = unpacked_bytes_max
        self.gone_ms = gone_ms
        self.positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._epochs = LeaderEpochs(cluster)
        self._fetcher = Fetcher(
            cluster,
            fetch_bytes=fetch_bytes,
            partition_bytes=partition_bytes,
            read_committed=read_committed,
            epochs=self._epochs,
        )
        #: Assigned, and nobody knows yet from where to read them. Some have a position, which is no longer there.
        self._starts = self._new_starts(self._fetcher.interrupt)
        self._listener = RebalanceListener()
        self._next_auto_commit = 0.0
        #: Records that the iterator took from the last poll and has not given yet.
        self._hand: Hand[Record] = Hand()
        #: Where partitions have a batch at their position that cannot be read, and why.
        self._damaged: dict[TopicPartition, tuple[int, KafkaError]] = {}
        #: What the next poll raises, and where its partition was then.
        self._refused: dict[TopicPartition, tuple[int | None, KafkaError]] = {}
        #: Why the last poll could not ask about partitions, though a later one may.
        self.obstacles: dict[TopicPartition, Exception] = {}
        self._stack = AsyncExitStack()
        self._is_open = False
        self._member: Membership | None = None
        if group is not None:
            self._group_settings = GroupSettings(
                instance_id,
                tuple(assignors),
                session_timeout_ms,
                heartbeat_interval_ms,
                max_poll_interval_ms,
                metadata_max_age_ms,
            )

    # --- which partitions ---

    def subscribe(self, topics: Collection[str] | Pattern[str], listener: RebalanceListener | None = None) -> None:
        """Shares these topics with the group, from the next poll on; what was subscribed before is replaced. A pattern
        matches whole names, also of topics that come later (seen within `metadata_max_age_ms`).

        Raises:
            InvalidGroupId: this consumer has no group.
            InvalidConfig: no topic is named, or a text in place of a list.
        """
        if isinstance(topics, str) or not topics:
            raise InvalidConfig(f"topics are a list of names or a pattern, not {topics!r}")
        member = self._membership()
        if not member.is_subscribed:
            self._take_away(self.assignment())  # what was assigned by hand
        self._listener = listener or RebalanceListener()
        member.subscribe(topics)
        self._next_auto_commit = trio.current_time() + self.auto_commit_interval_ms / 1000

    def subscription(self) -> tuple[str, ...]:
        """The topics that are subscribed; of a pattern those that it matches now."""
        return self._member.topics if self._member is not None else ()

    async def unsubscribe(self) -> None:
        """Gives all partitions back, and leaves the group."""
        member = self._membership()
        if member.is_subscribed:
            await self._give_all_back(commits=self.auto_commit)
            await member.unsubscribe()
        self._take_away(self.assignment())

    async def assign(self, starts: Mapping[TopicPartition, Start] | Iterable[TopicPartition]) -> None:
        """Reads these partitions from now on, and no others. Without places they are read from what the group has
        committed, or from `start`.

        Raises:
            KafkaError: a partition does not exist, or no leader can be asked. Where some can, the others begin later.
            InvalidConfig: topics are subscribed.
        """
        if self._member is not None and self._member.is_subscribed:
            raise InvalidConfig("partitions are assigned by the group: unsubscribe first")
        if not isinstance(starts, Mapping):
            self._take_away(self.assignment())
            self._starts.add(dict.fromkeys(starts))
            return
        positions: dict[TopicPartition, int] = {}
        open_ones: dict[TopicPartition, Start | None] = {}
        for partition, start in starts.items():
            if isinstance(start, int) and start >= 0:
                positions[partition] = start
            else:
                open_ones[partition] = start
        found = await self._begin(open_ones)
        self._take_away(self.assignment())
        self.positions = positions | {partition: place.offset for partition, place in found.items()}
        self._starts.add({partition: start for partition, start in open_ones.items() if partition not in found})

    async def _begin(self, asked: Mapping[TopicPartition, Start | None]) -> dict[TopicPartition, Place]:
        """The places of partitions. Those whose leaders cannot be asked for a moment are left out if there are others.

        Raises:
            KafkaError: a partition does not exist. CoordinatorNotAvailable, NetworkException: nobody can be asked.
            UnknownHost, NotABroker: nobody is there who could ever be asked.
        """
        bell = Bell()
        starts = self._new_starts(bell.ring)
        starts.add(asked)
        began = trio.current_time()
        while starts:
            starts.find()
            for problem in (*starts.refused.values(), *starts.gone(self.gone_ms).values()):
                raise problem
            for cause in (each.__cause__ for each in starts.problems.values()):
                if cause is not None and self.cluster.is_in_vain(cause):
                    raise cause
            waited_ms = (trio.current_time() - began) * 1000
            if waited_ms >= self.gone_ms and (starts.found or waited_ms >= self.cluster.timeout_ms):
                if starts.found:
                    break
                raise next(iter(starts.problems.values()), TimeoutError(f"no leader answers about {min(asked)}"))
            await bell.wait_until(min(starts.next_time(), trio.current_time() + WAIT_MS / 1000))
        return starts.found

    def _new_starts(self, then: Callable[[], object]) -> Starts:
        return Starts(
            self.cluster,
            None if self.start is None else STARTS[self.start],
            then,
            read_committed=self.read_committed,
            commits=None if self.group is None else lambda: self._commits,
        )

    def assignment(self) -> set[TopicPartition]:
        """The partitions that this consumer reads now."""
        return self._starts.partitions | self.positions.keys()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Polls give nothing of these until `resume`, or until they go."""
        paused = self._assigned(partitions)
        for partition, offset in self._hand.put_down(paused).items():
            self._epochs.forget(partition)
            self.positions[partition] = offset
        self._paused |= paused

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Polls give these again."""
        self._paused -= self._assigned(partitions)

    def paused(self) -> set[TopicPartition]:
        """What is paused."""
        return set(self._paused)

    @property
    def obstacle(self) -> Exception | None:
        """One of `obstacles`; None if the last poll could ask about all partitions."""
        return next(iter(self.obstacles.values()), None)

    # --- where ---

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that a poll gives. Errors as `assign`; InvalidConfig: it is not assigned."""
        self._assigned([partition])
        self._take_places()
        if partition in self._starts:
            self._put(await self._begin({partition: self._starts.wanted(partition)}))
        return self._hand.next_offsets(self.positions)[partition]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """The next poll reads from here. Raises InvalidConfig: the partition is not assigned."""
        self._assigned([partition])
        self._hand.put_down({partition})
        self._starts.discard(partition)
        self._epochs.forget(partition)
        self.positions[partition] = offset

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition]) -> None:
        """The next poll reads from the first record that is there. Errors as `seek` and `assign`."""
        await self._seek_to(EARLIEST, partitions)

    async def seek_to_end(self, partitions: Iterable[TopicPartition]) -> None:
        """The next poll reads what is not there yet. Errors as `seek` and `assign`."""
        await self._seek_to(LATEST, partitions)

    async def _seek_to(self, start: Start, partitions: Iterable[TopicPartition]) -> None:
        asked = dict.fromkeys(self._assigned(partitions), start)
        found = await self._begin(asked)
        for partition, place in found.items():
            self.seek(partition, place.offset)
        self._starts.add({partition: start for partition in asked if partition not in found})

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition. Errors as `list_offsets`."""
        found = await list_offsets(self.cluster, dict.fromkeys(partitions, EARLIEST))
        return {partition: each.offset for partition, each in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each partition ends now: its high watermark, or with `read_committed` its last stable offset."""
        asked = dict.fromkeys(partitions, LATEST)
        found = await list_offsets(self.cluster, asked, read_committed=self.read_committed)
        return {partition: each.offset for partition, each in found.items()}

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """The first record at or after each time in milliseconds; None where there is none."""
        found = await list_offsets(self.cluster, times_ms, read_committed=self.read_committed)
        return {partition: each if each.offset >= 0 else None for partition, each in found.items()}

    async def ends(self) -> dict[TopicPartition, int]:
        """`end_offsets` of the partitions that have positions."""
        return await self.end_offsets(self.positions)

    # --- commits ---

    async def commit(self, offsets: Mapping[TopicPartition, int | Committed] | None = None) -> None:
        """Commits these offsets (of the next records to be read), or all positions, and waits until they are stored.

        Raises:
            UnknownMemberId, IllegalGeneration: the group has gone on without this member.
            RebalanceInProgress: this member joins just now; poll, then commit what is still assigned.
            FencedInstanceId: another member has this one's name. InvalidGroupId: there is no group.
            KafkaError: what else the coordinator says. CoordinatorNotAvailable: nothing, for the cluster's timeout.
        """
        self._membership()
        await self._commits.commit(self._to_commit(offsets), self.cluster.timeout_ms)

    def commit_soon(
        self,
        offsets: Mapping[TopicPartition, int | Committed] | None = None,
        callback: Callable[[Offsets, KafkaError | None], object] | None = None,
    ) -> None:
        """Commits in the background, after what was given before, with one attempt. A later poll or commit, or the end
        of the block, calls `callback` with the offsets and the error, or None.
        """
        self._membership()
        self._commits.commit_soon(self._to_commit(offsets), callback)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """What the group has committed; partitions without an offset are left out. Errors as `commit`."""
        self._membership()
        return await self._commits.committed(partitions, is_stable=self.read_committed)

    def group_metadata(self) -> GroupMetadata:
        """Who this is, for `TransactionalProducer.send_offsets`."""
        member = self._membership()
        return GroupMetadata(member.group, member.generation, member.member_id, member.settings.instance_id)

    # --- records ---

    async def poll(self, wait_ms: int | None = None) -> list[Record]:
        """The next records, those of a partition in order; empty if none came within `wait_ms`. After a loop that was
        left they are first those that it had not given yet.

        Leaders that moved or cannot be reached are looked up and tried again by the next poll.

        Raises:
            OffsetOutOfRange: a position is not (or no longer) in its partition, and there is no `start`; set another
            one. NoOffsetForPartition: nothing is committed, and there is no `start`. LogTruncated: records that were
            read are no longer those of the partition, and there is no `start`.
            UnknownTopicOrPartition: a partition is gone.
            CorruptMessage: the batch at the position of a partition is damaged. Records before it, and those of other
            partitions that came with it, were given. Each poll raises this until `seek` or `pause` says how to go on;
            nothing beyond the batch is committed.
            FencedInstanceId: another member has come under this one's name.
            InconsistentGroupProtocol: the group is not one of consumers, or has no assignor in common with this one.
            CoordinatorNotAvailable: the group's coordinator cannot be reached for the cluster's timeout.
            UnsupportedVersion: the broker is older than Kafka 0.11, or than what a setting needs.
            KafkaError: what else a broker answers and is not worth a retry.
        """
        records = self._hand.rest()
        if records:
            await trio.lowlevel.checkpoint()
            self._hand.take([])
            return records
        answers = await self._fetched(self.wait_ms if wait_ms is None else wait_ms)
        for partition, answer in answers:
            if records:
                # Unpacking takes a while, and the next partition's may be done a moment later.
                await trio.lowlevel.cancel_shielded_checkpoint()
            try:
                self._records(partition, answer, records)
            except KafkaError as problem:
                self._damaged[partition] = self.positions[partition], problem
        if not records:
            self._raise_problems()
        return records

    async def poll_encoded(self, wait_ms: int | None = None) -> list[tuple[TopicPartition, _core.FetchedPartition]]:
        """As `poll`, but gives the batches as they are stored. The first may begin before the position, the last may be
        cut off, and with `read_committed` aborted ones are among them. `positions` is for the caller to move. Errors as
        `poll`, but for damage, which is not looked for.
        """
        return await self._fetched(self.wait_ms if wait_ms is None else wait_ms)

    def __aiter__(self) -> AsyncIterator[Record]:
        """All records from here on, without end. Who leaves the loop has taken the records that it gave, and no others:
        the end of the block commits so.
        """
        return _Records(self)

    def batches(
        self,
        columns: Sequence[str] = ("offset", "timestamp", "key", "value", "headers"),
        *,
        rows_max: int = 50_000,
        timestamps: Literal["error", "null"] = "error",
    ) -> AsyncIterator[ArrowBatch]:
        """All records from here on, without end, as Arrow record batches of at most `rows_max` rows (needs the extra
        `arrow`): many times faster than one object a record. `columns` are those of `ottla.records`. A batch that was
        given counts as read.

        `timestamps` says what becomes of those that are too large for microseconds, such as nanoseconds where
        milliseconds belong: with "null" they are null.

        Raises:
            InvalidTimestamp: there is one, and `timestamps` is "error". Records before it were given.
            KafkaError: as `poll`.
        """
        from ottla.records import arrow_schema

        arrow_schema(columns)  # says what to install before anything is read
        return _Batches(self, columns, rows_max, timestamps)

    # --- the block ---

    async def __aenter__(self) -> Self:
        if self.group is not None:
            connection = GroupConnection(self.cluster, self.group)
            self._member = Membership(connection, self._group_settings)
            self._member.on_change = self._fetcher.interrupt
            self._commits = Commits(self._member)
            nursery = await self._stack.enter_async_context(trio.open_nursery())
            self._stack.callback(nursery.cancel_scope.cancel)
            await nursery.start(self._member.run)
            # Where the block is cancelled, a commit that is under way is still carried out before the member leaves.
            scope = trio.CancelScope(shield=True)
            self._stack.callback(scope.cancel)
            nursery.start_soon(self._commits.run, scope)
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            member = self._member
            if member is not None:
                limit = trio.move_on_after(min(CLOSE_MS, self.cluster.timeout_ms) / 1000, shield=True)
                with limit:
                    try:
                        await self._close(member, commits=self.auto_commit and problem is None)
                    finally:
                        await member.connection.aclose()
        finally:
            self._member = None
            # The nursery is not shown the block's exception: it would wrap it in a group.
            await self._stack.aclose()

    async def _close(self, member: Membership, *, commits: bool) -> None:
        try:
            if member.is_subscribed:
                await self._give_all_back(commits=commits)
            elif commits:
                await self._commit_quietly()
            await self._commits.drain()
            await self._call_back()
        finally:
            if member.is_subscribed:
                await member.unsubscribe()

    # --- the group ---

    def _membership(self) -> Membership:
        if self.group is None:
            raise InvalidGroupId("this consumer has no group")
        if self._member is None:
            raise InvalidConfig("a consumer with a group is used in a block: async with Consumer(...) as consumer")
        return self._member

    async def _keep_up(self, member: Membership, until: float) -> None:
        """Does what the group wants, as far as it can be done until then."""
        member.polled()
        await self._call_back()
        while True:
            changed = member.changed
            if member.failure is not None:
                problem, member.failure = member.failure, None
                if member.is_lost:
                    member.is_lost = False
                    await self._lose()
                raise problem
            if member.is_lost:
                member.is_lost = False
                await self._lose()
            elif member.got is not None:
                got, member.got = member.got, None
                await self._take(member, got.assignment.partitions)
            elif member.needs_join and not member.is_joining:
                await self._prepare(member)
                if not member.is_lost:
                    member.start_join(self.assignment())
            elif member.is_joining and not self.assignment():
                if trio.current_time() >= until:
                    return
                with trio.move_on_at(until):
                    await changed.wait()
            else:
                break
            member.polled()
        if self.auto_commit and member.is_stable and trio.current_time() >= self._next_auto_commit:
            self._next_auto_commit = trio.current_time() + self.auto_commit_interval_ms / 1000
            self._commits.commit_soon(self._to_commit(None), None)

    async def _prepare(self, member: Membership) -> None:
        """Before a join: commits, and gives back what cannot be kept."""
        if self.auto_commit and member.is_stable:
            await self._commit_quietly()
        if member.is_cooperative:
            kept = set(member.topics)
            going = {} if member.pattern else {each: None for each in self.assignment() if each.topic not in kept}
        else:
            going = dict.fromkeys(self.assignment())
        await self._give_back(going)

    async def _take(self, member: Membership, partitions: Collection[TopicPartition]) -> None:
        """After a join: the partitions that this member has now."""
        owned = self.assignment()
        wanted = set(member.topics)
        taken = {each for each in partitions if each.topic in wanted}
        if len(taken) < len(partitions):
            member.needs_join = True  # the leader knew an older subscription
        if gone := owned - taken:
            # Cooperative: whoever gets them waits for this member to join again.
            member.needs_join = True
            if self.auto_commit:
                await self._commit_quietly()  # what was read while this member joined
            await self._give_back(sorted(gone))
        self._starts.add(dict.fromkeys(sorted(taken - owned)))
        if added := sorted(taken - owned):
            await self._tell(self._listener.on_assigned, added)

    async def _give_all_back(self, *, commits: bool) -> None:
        member = self._membership()
        await member.stop_joining()
        if member.generation < 0 and self.assignment():
            await self._lose()
            return
        if commits and member.is_stable:
            await self._commit_quietly()
        await self._give_back(sorted(self.assignment()))

    async def _give_back(self, partitions: Collection[TopicPartition]) -> None:
        """The listener may still commit them."""
        if partitions:
            try:
                await self._tell(self._listener.on_revoked, sorted(partitions))
            finally:
                self._take_away(partitions)

    async def _lose(self) -> None:
        lost = sorted(self.assignment())
        self._take_away(lost)
        if lost:
            await self._tell(self._listener.on_lost, lost)

    def _take_away(self, partitions: Iterable[TopicPartition]) -> None:
        partitions = set(partitions)
        self._hand.put_down(partitions)
        for partition in partitions:
            self.positions.pop(partition, None)
            self._starts.discard(partition)
            self._paused.discard(partition)
            self._epochs.forget(partition)

    async def _tell(
        self, method: Callable[[Collection[TopicPartition]], object], partitions: Collection[TopicPartition]
    ) -> None:
        found = method(partitions)
        if isawaitable(found):
            await found

    async def _call_back(self) -> None:
        finished = self._commits.finished
        while finished:
            callback, offsets, problem = finished.popleft()
            found = callback(offsets, problem)
            if isawaitable(found):
                await found

    async def _commit_quietly(self) -> None:
        """Before partitions go: what cannot be committed is read again by others."""
        with suppress(KafkaError):
            await self._commits.commit(self._to_commit(None), self.cluster.timeout_ms)

    def _to_commit(self, offsets: Mapping[TopicPartition, int | Committed] | None) -> dict[TopicPartition, Committed]:
        if offsets is not None:
            return {
                partition: each if isinstance(each, Committed) else Committed(each)
                for partition, each in offsets.items()
            }
        return {
            partition: Committed(offset, self._epochs.read.get(partition, NO_EPOCH))
            for partition, offset in self._hand.next_offsets(self.positions).items()
        }

    def _assigned(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """The same partitions. Raises InvalidConfig: one is not assigned."""
        found = set(partitions)
        if missing := found - self.assignment():
            raise InvalidConfig(f"{min(missing)} is not assigned to this consumer")
        return found

    def _take_places(self) -> None:
        """Reads the partitions whose places were found, and looks for the others."""
        found, refused = self._starts.found, self._starts.refused
        self._put(found.copy())
        for partition, problem in refused.items():
            self._refuse(partition, problem)
        found.clear()
        refused.clear()
        self._starts.find()

    def _put(self, places: Mapping[TopicPartition, Place]) -> None:
        for partition, place in places.items():
            self._starts.discard(partition)
            self._epochs.forget(partition)
            self.positions[partition] = place.offset
            if place.leader_epoch != NO_EPOCH:
                self._epochs.read[partition] = place.leader_epoch

    # --- fetching ---

    async def _fetched(self, wait_ms: int) -> list[tuple[TopicPartition, _core.FetchedPartition]]:
        """What leaders gave of the partitions that are read now. Errors as `poll`."""
        self._hand.take([])
        member = self._member
        if member is None and self.group is not None:
            self._membership()
        since = trio.current_time()
        until = since + wait_ms / 1000
        rows: dict[TopicPartition, _core.FetchedPartition] = {}
        while True:
            if member is not None:
                await self._keep_up(member, until)
            self._raise_problems()
            self._take_places()
            patience = max(until, self._starts.patience(since))
            fetched = await self._fetcher.fetch(self._readable(), since, min(patience, self._starts.next_time()))
            has_news = self._look_at(fetched)
            rows |= {each: row for each, row in fetched.rows.items() if not row.error_code}
            await self._miss()
            if member is not None:
                member.polled()
            if has_news or trio.current_time() >= max(until, self._starts.patience(since)):
                self._note_obstacles()
                if not has_news:
                    self._raise_problems()
                return [(each, row) for each, row in rows.items() if each in self.positions]

    def _readable(self) -> Mapping[TopicPartition, int]:
        """The positions that are to be read now."""
        if not self._paused and not self._starts:
            return self.positions
        starts, paused = self._starts, self._paused
        return {each: at for each, at in self.positions.items() if each not in paused and each not in starts}

    def _look_at(self, fetched: Fetched) -> bool:
        """Sorts out what is no records. Whether there are some."""
        has_news = False
        for partition, (end, epoch) in fetched.truncated.items():
            if partition not in self.positions:
                continue
            if self.start is None:
                self._refuse(partition, self._epochs.truncated(partition, self.positions[partition], end))
            elif end < 0:
                self._reset(partition)
            else:
                # It goes on where the new leader's log parts from what was read.
                self.positions[partition] = end
                self._epochs.read[partition] = epoch
        for partition, row in fetched.rows.items():
            if partition not in self.positions:
                continue
            if not row.error_code:
                has_news = has_news or bool(row.records)
                continue
            problem = error(row.error_code, f"{partition} at offset {self.positions[partition]}")
            if isinstance(problem, OffsetOutOfRange) and self.start is not None:
                self._reset(partition)
            else:
                self._refuse(partition, problem)
        return has_news

    def _reset(self, partition: TopicPartition) -> None:
        """It is read from `start`."""
        assert self.start is not None
        self._epochs.forget(partition)
        self._starts.add({partition: STARTS[self.start]})

    async def _miss(self) -> None:
        """Partitions that are gone: the group is to share out what is there; of those assigned by hand polls tell."""
        gone: dict[TopicPartition, KafkaError] = self._starts.gone(self.gone_ms) | self._fetcher.gone(self.gone_ms)
        if not gone:
            return
        member = self._member
        if member is not None and member.is_subscribed:
            if member.is_stable:
                lost = sorted(gone)
                self._take_away(lost)
                member.needs_join = True
                await self._tell(self._listener.on_lost, lost)
            return
        for partition, problem in gone.items():
            self._refuse(partition, problem)

    def _note_obstacles(self) -> None:
        problems = {**self._starts.problems, **self._fetcher.problems}
        self.obstacles = {each: why for each, why in problems.items() if each not in self._paused}

    def _refuse(self, partition: TopicPartition, problem: KafkaError) -> None:
        """The next poll raises this, unless the partition is elsewhere by then."""
        self._refused[partition] = self.positions.get(partition), problem

    def _moved(self, partition: TopicPartition, batch: _core.BatchInfo) -> None:
        """The batch was read."""
        self.positions[partition] = batch.last_offset + 1
        if batch.leader_epoch != NO_EPOCH:
            self._epochs.read[partition] = batch.leader_epoch

    def _raise_problems(self) -> None:
        """Raises what stands in the way of a partition: an error once, after which all are asked about anew;
        CorruptMessage while it is to be read from a batch that cannot be.
        """
        refused, self._refused = self._refused, {}
        for partition, (position, problem) in refused.items():
            if self.positions.get(partition) == position and partition in self.assignment():
                raise problem
        for partition, (offset, damage) in list(self._damaged.items()):
            if self.positions.get(partition) != offset:
                del self._damaged[partition]
            elif partition not in self._paused:
                raise damage

    def _records(self, partition: TopicPartition, answer: _core.FetchedPartition, records: list[Record]) -> None:
        """Adds the answer's records from the position on, which moves batch by batch. Raises CorruptMessage with the
        position at a batch that cannot be read; what is before was added.
        """
        batches = _batches(partition, answer)
        data = answer.records or memoryview(b"")
        aborted = _Aborted(answer.aborted_transactions or []) if self.read_committed else None
        for batch in batches:
            start = self.positions[partition]
            whole = data[batch.position : batch.position + batch.size_bytes]
            if aborted is None or not aborted.drops(batch, whole):
                reader = _core.RecordReader(
                    whole, start_offset=start, check_crc=False, decompressed_bytes_max=self.unpacked_bytes_max
                )
                try:
                    records += reader.rows(Record, *partition)
                except KafkaError as problem:
                    raise self._unreadable(partition, batch.base_offset, problem) from None
            self._moved(partition, batch)

    def _unreadable(self, partition: TopicPartition, offset: int, problem: KafkaError) -> CorruptMessage:
        """The error of a batch whose checksum is right, and which cannot be unpacked."""
        why = f"{partition}: the batch at offset {offset} cannot be read: {problem}"
        if isinstance(problem, MessageTooLarge):
            why += "; Consumer(unpacked_bytes_max=...) sets it"
        return CorruptMessage(why)


class _Records:
    """The iterator of records. No generator: one that is left halfway would have to be closed."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        hand = self._consumer._hand
        while hand.at >= len(hand.records):
            hand.take(await self._consumer.poll())
        hand.at += 1
        return hand.records[hand.at - 1]


class _Batches:
    """The iterator of Arrow batches."""

    def __init__(self, consumer: Consumer, columns: Sequence[str], rows_max: int, timestamps: str) -> None:
        self._consumer = consumer
        self._columns = columns
        self._rows_max = rows_max
        self._timestamps = timestamps
        self._ready: Iterator[ArrowBatch] = iter(())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ArrowBatch:
        consumer = self._consumer
        while (batch := next(self._ready, None)) is None:
            self._ready = self._decoded(await consumer._fetched(consumer.wait_ms))
        return batch

    def _decoded(self, answers: list[tuple[TopicPartition, _core.FetchedPartition]]) -> Iterator[ArrowBatch]:
        """One partition's error comes after what the others have."""
        problems: list[KafkaError] = []
        for partition, answer in answers:
            try:
                yield from self._decoded_of(partition, answer)
            except KafkaError as problem:
                problems.append(problem)
        if problems:
            raise problems[0]

    def _decoded_of(self, partition: TopicPartition, answer: _core.FetchedPartition) -> Iterator[ArrowBatch]:
        batches = _batches(partition, answer)
        try:
            yield from self._chunks(partition, answer, batches)
        except InvalidTimestamp:
            raise
        except KafkaError as problem:
            readable = _readable(answer, batches, self._consumer.unpacked_bytes_max)
            if len(readable) == len(batches):
                raise
            yield from self._chunks(partition, answer, readable)
            raise self._consumer._unreadable(partition, batches[len(readable)].base_offset, problem) from None

    def _chunks(
        self, partition: TopicPartition, answer: _core.FetchedPartition, batches: list[_core.BatchInfo]
    ) -> Iterator[ArrowBatch]:
        from ottla.records import decode_buffers, to_arrow

        consumer = self._consumer
        place = consumer.positions.get(partition)
        if batches and answer.records is not None and place is not None:
            data = answer.records[: batches[-1].position + batches[-1].size_bytes]
            decoder = _core.ColumnDecoder(
                start_offset=place,
                columns=self._columns,
                rows_max=self._rows_max,
                timestamps=self._timestamps,
                check_crc=False,
                decompressed_bytes_max=consumer.unpacked_bytes_max,
            )
            aborted = (answer.aborted_transactions or []) if consumer.read_committed else None
            chunks = decode_buffers([data], decoder, aborted)
            for chunk in _naming(str(partition), chunks):
                if consumer.positions.get(partition) != place:
                    break  # somebody sought elsewhere
                place = consumer.positions[partition] = decoder.next_offset
                yield ArrowBatch(partition, to_arrow(chunk, self._columns))
            if consumer.positions.get(partition) == place:
                consumer._moved(partition, batches[-1])


def _naming(partition: str, chunks: Iterator[_core.Columns]) -> Iterator[_core.Columns]:
    """The same; errors about a record name its partition."""
    try:
        yield from chunks
    except InvalidTimestamp as problem:
        raise InvalidTimestamp(f'{partition}: {problem}. timestamps="null" makes it null') from problem


def _batches(partition: TopicPartition, answer: _core.FetchedPartition) -> list[_core.BatchInfo]:
    """The batches of an answer up to the first that is damaged. Raises CorruptMessage if that is the first of all."""
    data = answer.records or memoryview(b"")
    try:
        return _core.read_batches(data)
    except CorruptMessage as problem:
        whole: list[_core.BatchInfo] = []
        offset: int | str = "unknown"
        why = str(problem)
        with suppress(CorruptMessage):
            for batch in _core.read_batches(data, check_crc=False):
                offset = batch.base_offset
                try:
                    _core.read_batches(data[batch.position : batch.position + batch.size_bytes])
                except CorruptMessage as found:
                    why = str(found)
                    break
                whole.append(batch)
        if whole:
            return whole
        raise CorruptMessage(f"{partition}: the batch at offset {offset} is damaged: {why}") from None


def _readable(
    answer: _core.FetchedPartition, batches: list[_core.BatchInfo], unpacked_bytes_max: int
) -> list[_core.BatchInfo]:
    """The batches up to the first that cannot be unpacked."""
    data = answer.records or memoryview(b"")
    for number, batch in enumerate(batches):
        whole = data[batch.position : batch.position + batch.size_bytes]
        try:
            for _ in _core.RecordReader(whole, check_crc=False, decompressed_bytes_max=unpacked_bytes_max):
                pass
        except KafkaError:
            return batches[:number]
    return batches


def _checked_start(start: str | None, group: str | None) -> str | None:
    """Where to read where nothing is committed: as given, or by default the end in a group, and nowhere without one."""
    if start == "":
        return None if group is None else "latest"
    if start is not None and start not in STARTS:
        raise InvalidConfig(f"start is 'earliest', 'latest' or None, not {start!r}")
    return start


class _Aborted:
    """Which batches of an answer belong to aborted transactions: of a producer from a first offset to its abort
    marker.
    """

    def __init__(self, transactions: list[tuple[int, int]]) -> None:
        self._later = sorted(transactions, key=itemgetter(1), reverse=True)
        self._now: set[int] = set()

    def drops(self, batch: _core.BatchInfo, data: memoryview) -> bool:
        while self._later and self._later[-1][1] <= batch.last_offset:
            self._now.add(self._later.pop()[0])
        if batch.is_control:
            (marker,) = _core.RecordReader(data, with_control=True)
            if int.from_bytes((marker.key or b"")[2:4], "big") == ABORT:
                self._now.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._now


__all__ = ["EARLIEST", "LATEST", "ArrowBatch", "At", "Consumer", "RebalanceListener", "Record", "Start"]
