"""Membership in a group: joining, heartbeats, leaving (Kafka's classic group protocol).

What may happen at any time (heartbeats, an answer to a join, a topic that grew) is done by background tasks, which only
note what they learn. `Consumer.poll` looks at the notes, so that partitions change hands and listeners are called in
the task that polls, as in the Java client:

| note         | what a poll does                                                                                |
|--------------|-------------------------------------------------------------------------------------------------|
| `failure`    | raises it                                                                                       |
| `is_lost`    | gives up all partitions (`on_lost`): the group has gone on without this member                  |
| `needs_join` | commits, gives back what it must (`on_revoked`), and starts a join in the background            |
| `got`        | takes the new assignment (`on_revoked`, `on_assigned`)                                          |

A static member (KIP-345) has an `instance_id`, does not leave when it is closed, and takes its partitions up again when
it comes back in time. A second one with the same name fences the first (FencedInstanceId).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import trio

from ottla.client.assignors import Assignor, assignors_of
from ottla.client.consumer_protocol import (
    NO_GENERATION,
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidConfig,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    RemoteProtocolError,
    UnknownMemberId,
    error,
)
from ottla.kafka import INTERNAL_TOPICS, TopicPartition
from ottla.wire.k11_join_group import JOIN_GROUP, JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.k12_heartbeat import HEARTBEAT, HeartbeatRequest
from ottla.wire.k13_leave_group import LEAVE_GROUP, LeaveGroupRequest, MemberIdentity
from ottla.wire.k14_sync_group import SYNC_GROUP, SyncGroupRequest, SyncGroupRequestAssignment

if TYPE_CHECKING:
    from ottla.client.group_connection import GroupConnection

RETRY_MS = 100
#: How often a topic is looked for that is wanted and does not exist.
MISSING_TOPIC_MS = 1_000
#: A join may take as long as the slowest member may poll; the answer needs a moment more.
JOIN_EXTRA_MS = 5_000
_MEMBERS_SINCE = 3
"""The version of LeaveGroup that names members in a list."""


@dataclass(frozen=True)
class GroupSettings:
    """How a member behaves, by the names and defaults of the Java client (since 3.0: KIP-735, and KIP-726 for the
    assignors). Times are milliseconds.

    Raises:
        InvalidConfig: the values contradict each other, or an assignor is not known.
    """

    instance_id: str | None = None
    assignors: Sequence[str] = ("range", "cooperative-sticky")
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    metadata_max_age_ms: int = 300_000

    def __post_init__(self) -> None:
        assignors_of(self.assignors)
        if not 0 < self.heartbeat_interval_ms < self.session_timeout_ms:
            raise InvalidConfig(
                f"heartbeat_interval_ms ({self.heartbeat_interval_ms}) is less than session_timeout_ms "
                f"({self.session_timeout_ms}), and more than 0"
            )
        if self.max_poll_interval_ms <= 0 or self.metadata_max_age_ms <= 0:
            raise InvalidConfig("max_poll_interval_ms and metadata_max_age_ms are more than 0")


class GroupMetadata(NamedTuple):
    """Who commits, for `TransactionalProducer.send_offsets` (KIP-447)."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None


class Got(NamedTuple):
    """The end of a rebalance for this member."""

    assignment: Assignment
    assignor: Assignor


class Membership:
    """One member of one group. `run` is its background task; everything else is for the task that polls."""

    def __init__(self, connection: GroupConnection, settings: GroupSettings) -> None:
        self.connection = connection
        self.cluster = connection.cluster
        self.group = connection.group
        self.settings = settings
        self.assignors = assignors_of(settings.assignors)
        #: Members keep partitions through rebalances only if all of their assignors know how.
        self.is_cooperative = all(each.is_cooperative for each in self.assignors)
        self.member_id = ""
        self.generation = NO_GENERATION
        #: The topics that are wanted: those that were named, or that match the pattern now.
        self.topics: tuple[str, ...] = ()
        self.pattern: re.Pattern[str] | None = None
        self.is_subscribed = False
        self.failure: KafkaError | None = None
        self.is_lost = False
        self.needs_join = False
        self.got: Got | None = None
        self.is_joining = False
        self._is_syncing = False
        self.changed = trio.Event()
        #: Called at each change; must not raise.
        self.on_change: Callable[[], object] = lambda: None
        self._last_got: tuple[tuple[TopicPartition, ...], int] | None = None
        self._counts: dict[str, int] | None = None
        """Partitions by topic, as the leader assigned them; None in other members."""
        self._group_topics: tuple[str, ...] = ()
        self._last_poll = trio.current_time()
        self._last_answer = 0.0
        self._nursery: trio.Nursery | None = None
        self._join_scope = trio.CancelScope()

    # --- for the task that polls ---

    @property
    def is_stable(self) -> bool:
        """Whether this is a member of a generation now."""
        return self.generation != NO_GENERATION and not self.is_joining

    def subscribe(self, topics: Collection[str] | re.Pattern[str]) -> None:
        """The next join asks for these topics."""
        if isinstance(topics, re.Pattern):
            self.pattern, self.topics = topics, ()
        else:
            self.pattern, self.topics = None, tuple(dict.fromkeys(topics))
        self.is_subscribed = self.needs_join = True
        self._last_poll = trio.current_time()
        self._note()

    def polled(self) -> None:
        """The program is alive: it polls."""
        self._last_poll = trio.current_time()

    def start_join(self, owned: Collection[TopicPartition]) -> None:
        """Joins in the background; `owned` is what this member keeps meanwhile."""
        assert self._nursery is not None
        assert not self.is_joining
        self.is_joining, self.needs_join = True, False
        self._join_scope = trio.CancelScope()
        self._nursery.start_soon(self._join, tuple(sorted(owned)), self._join_scope)

    def expelled(self, problem: KafkaError, generation: int) -> None:
        """An answer to a request of this generation says that the member is out of it."""
        if self.is_joining or generation != self.generation or generation == NO_GENERATION:
            return  # what a join brings is newer
        if isinstance(problem, FencedInstanceId):
            self._lose(forget_id=True)
            self.failure, self.needs_join = problem, False
        elif isinstance(problem, RebalanceInProgress):
            self.needs_join = True
        elif isinstance(problem, UnknownMemberId | IllegalGeneration):
            self._lose(forget_id=isinstance(problem, UnknownMemberId))
        self._note()

    async def stop_joining(self) -> None:
        """Ends a join before something that needs a generation. Others learn of a rebalance by their heartbeats: for
        so long its end is waited for. Then the join is taken back, and the generation before it counts as long as the
        group has not gone on.
        """
        for patience_ms in (self.settings.heartbeat_interval_ms, self.settings.session_timeout_ms):
            with trio.move_on_after(patience_ms / 1000):
                while self.is_joining:
                    await self.changed.wait()
            if not self._is_syncing:
                break  # the leader's answer is on its way else
        if self.is_joining:
            self._join_scope.cancel()
            # A broker answers a connection's requests in order: the next one would wait for the join.
            await self.connection.forget()
            while self.is_joining:
                await self.changed.wait()

    async def leave(self) -> None:
        """Leaves the group, so that others need not wait for the session's end. A static member stays."""
        if self.is_joining:
            self._join_scope.cancel()
            await self.connection.forget()
        member_id, self.member_id, self.generation = self.member_id, "", NO_GENERATION
        if not member_id or self.settings.instance_id is not None:
            return
        with suppress(KafkaError):
            if await self.connection.version(LEAVE_GROUP) >= _MEMBERS_SINCE:
                request = LeaveGroupRequest(self.group, members=[MemberIdentity(member_id=member_id)])
            else:
                request = LeaveGroupRequest(self.group, member_id=member_id)
            await self.connection.call(LEAVE_GROUP, request, timeout_ms=self.settings.session_timeout_ms)

    async def unsubscribe(self) -> None:
        """Leaves, and joins no more until the next `subscribe`."""
        self.is_subscribed = self.needs_join = self.is_lost = False
        self.topics, self.pattern, self.got = (), None, None
        await self.leave()

    # --- background ---

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until it is cancelled; started by `nursery.start`."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            nursery.start_soon(self._beat)
            nursery.start_soon(self._watch_topics)

    def _note(self) -> None:
        self.changed.set()
        self.changed = trio.Event()
        self.on_change()

    def _lose(self, *, forget_id: bool) -> None:
        self.generation = NO_GENERATION
        if forget_id:
            self.member_id = ""
        self.is_lost = True
        self.needs_join = self.is_subscribed
        self.got = None

    async def _beat(self) -> None:
        interval = self.settings.heartbeat_interval_ms / 1000
        max_poll = self.settings.max_poll_interval_ms / 1000
        next_beat = trio.current_time()
        while True:
            changed = self.changed
            if not self.is_stable:
                await changed.wait()
                next_beat = trio.current_time() + interval
                continue
            now = trio.current_time()
            if now >= self._last_poll + max_poll:
                # The program does not poll: its partitions are for others (KIP-62).
                await self.leave()
                self._lose(forget_id=True)
                self._note()
                continue
            if now < next_beat:
                with trio.move_on_after(min(next_beat, self._last_poll + max_poll) - now):
                    await changed.wait()
                continue
            next_beat = now + (interval if await self._beat_once() else min(interval, RETRY_MS / 1000))

    async def _beat_once(self) -> bool:
        """Whether the coordinator answered."""
        generation = self.generation
        request = HeartbeatRequest(self.group, generation, self.member_id, self.settings.instance_id)
        try:
            answer = await self.connection.call(HEARTBEAT, request, timeout_ms=self.settings.session_timeout_ms)
            if answer.error_code:
                raise error(answer.error_code, f"group '{self.group}'")
        except (FencedInstanceId, RebalanceInProgress, UnknownMemberId, IllegalGeneration) as problem:
            self.expelled(problem, generation)
        except KafkaError as problem:
            await self.connection.failed(problem)
            if not problem.retriable:
                self.failure = problem
                self._note()
            elif (
                generation == self.generation
                and not self.is_joining
                and trio.current_time() > self._last_answer + self.settings.session_timeout_ms / 1000
            ):
                # The coordinator must have given this member up by now.
                self._lose(forget_id=True)
                self._note()
            return False
        self._last_answer = trio.current_time()
        return True

    async def _join(self, owned: tuple[TopicPartition, ...], scope: trio.CancelScope) -> None:
        deadline = trio.current_time() + self.cluster.timeout_ms / 1000
        with scope:
            try:
                while True:
                    try:
                        self.got = await self._join_once(owned)
                        self._last_answer = trio.current_time()
                        return
                    except MemberIdRequired:
                        continue
                    except RebalanceInProgress:
                        deadline = trio.current_time() + self.cluster.timeout_ms / 1000
                    except (UnknownMemberId, IllegalGeneration) as problem:
                        self._lose(forget_id=isinstance(problem, UnknownMemberId))
                        return
                    except (KafkaError, OSError, RemoteProtocolError) as problem:
                        if await self._gives_up(problem, deadline):
                            return
                    await trio.sleep(RETRY_MS / 1000)
            finally:
                self.is_joining = self._is_syncing = False
                self._note()

    async def _gives_up(self, cause: Exception, deadline: float) -> bool:
        """Whether a join ends with this problem, which a poll raises then."""
        problem = cause if isinstance(cause, KafkaError) else CoordinatorNotAvailable(str(cause))
        await self.connection.failed(problem)
        is_late = trio.current_time() > deadline and not isinstance(problem, CoordinatorLoadInProgress)
        if problem.retriable and not is_late and not self.cluster.is_in_vain(cause.__cause__):
            return False
        self.failure = problem
        # A member that was fenced must not fight with the one that has its name.
        self.needs_join = not isinstance(problem, FencedInstanceId)
        return True

    async def _join_once(self, owned: tuple[TopicPartition, ...]) -> Got:
        settings = self.settings
        self._is_syncing = False
        if self.pattern is not None:
            await self._match()
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(each.name, self._metadata(each, owned)) for each in self.assignors],
        )
        answer = await self.connection.call(
            JOIN_GROUP, request, timeout_ms=settings.max_poll_interval_ms + JOIN_EXTRA_MS
        )
        if answer.error_code == MemberIdRequired.code:
            self.member_id = answer.member_id
        if answer.error_code:
            raise error(answer.error_code, self._why(answer.error_code))
        if answer.protocol_type not in (None, PROTOCOL_TYPE):
            raise InconsistentGroupProtocol(f"group '{self.group}' is one of '{answer.protocol_type}', not consumers")
        assignor = next((each for each in self.assignors if each.name == answer.protocol_name), None)
        if assignor is None:
            raise InconsistentGroupProtocol(f"group '{self.group}' chose '{answer.protocol_name}', which nobody offers")
        self.member_id = answer.member_id
        self._is_syncing = True
        self._counts = None
        shares = await self._shares(answer, assignor) if answer.leader == answer.member_id else {}
        sync = SyncGroupRequest(
            group_id=self.group,
            generation_id=answer.generation_id,
            member_id=answer.member_id,
            group_instance_id=settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=assignor.name,
            assignments=[SyncGroupRequestAssignment(member, data) for member, data in shares.items()],
        )
        synced = await self.connection.call(SYNC_GROUP, sync, timeout_ms=settings.max_poll_interval_ms + JOIN_EXTRA_MS)
        if synced.error_code:
            raise error(synced.error_code, self._why(synced.error_code))
        assignment = decode_assignment(bytes(synced.assignment))
        self.generation = answer.generation_id
        self._last_got = assignment.partitions, answer.generation_id
        return Got(assignment, assignor)

    def _metadata(self, assignor: Assignor, owned: tuple[TopicPartition, ...]) -> bytes:
        user_data = None
        if assignor.user_data is not None and self._last_got is not None:
            user_data = assignor.user_data(*self._last_got)
        return encode_subscription(Subscription(tuple(sorted(self.topics)), user_data, owned))

    def _why(self, code: int) -> str:
        if code == InconsistentGroupProtocol.code:
            names = ", ".join(each.name for each in self.assignors)
            return f"group '{self.group}' is no group of consumers, or its members share none of the assignors {names}"
        if code == FencedInstanceId.code:
            return f"group '{self.group}': another member has come as '{self.settings.instance_id}'"
        return f"group '{self.group}'"

    async def _shares(self, answer: JoinGroupResponse, assignor: Assignor) -> Mapping[str, bytes]:
        """As the leader: what each member gets."""
        subscriptions = {
            member.member_id: decode_subscription(bytes(member.metadata), member.group_instance_id)
            for member in answer.members
        }
        if not subscriptions:
            return {}  # a static leader that came back: the assignment stands
        topics = sorted({topic for each in subscriptions.values() for topic in each.topics})
        self._group_topics = tuple(topics)
        self._counts = await self._count(topics)
        found = assignor.assign(self._counts, subscriptions)
        return {member: encode_assignment(Assignment(tuple(partitions))) for member, partitions in found.items()}

    async def _count(self, topics: Collection[str]) -> dict[str, int]:
        """How many partitions each of the topics has that exist."""

        async def ask() -> dict[str, int]:
            answer = await self.cluster.refresh(topics)
            return {topic.name: len(topic.partitions) for topic in answer.topics if topic.error_code == 0}

        return await self.cluster.retry(ask) if topics else {}

    async def _match(self) -> None:
        """The topics that match the pattern now. Kafka's internal ones are named, or not read."""
        pattern = self.pattern
        assert pattern is not None
        answer = await self.cluster.retry(self.cluster.refresh)
        self.topics = tuple(
            sorted(
                topic.name
                for topic in answer.topics
                if topic.error_code == 0 and topic.name not in INTERNAL_TOPICS and pattern.fullmatch(topic.name)
            )
        )

    async def _watch_topics(self) -> None:
        """Topics that come, go and grow make the group rebalance: its leader looks at those of all members."""
        looked = trio.current_time()
        while True:
            changed = self.changed
            missing = self._counts is not None and len(self._counts) < len(self._group_topics)
            age_ms = self.settings.metadata_max_age_ms
            wait = looked + (min(age_ms, MISSING_TOPIC_MS) if missing else age_ms) / 1000 - trio.current_time()
            if wait > 0:
                with trio.move_on_after(wait):
                    await changed.wait()
                continue
            looked = trio.current_time()
            if not self.is_stable or self.needs_join:
                continue
            generation, topics = self.generation, self.topics
            try:
                if self.pattern is not None:
                    await self._match()
                counts = None if self._counts is None else await self._count(self._group_topics)
            except (KafkaError, OSError, RemoteProtocolError):
                continue
            if generation == self.generation and (self.topics != topics or counts != self._counts):
                self.needs_join = True
                self._note()
