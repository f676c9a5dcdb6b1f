"""Random lives of a group: members that join, sync, commit, fall silent, come back; a log that answers late or with an
error; a coordinator that reads the group from the log again. After every step the protocol's invariants are checked.

A run is decided by its seed alone.
"""

import random
from collections import Counter
from dataclasses import dataclass, field

from ottla.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    IllegalGeneration,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla.group.effects import Answer, Store
from ottla.group.members import NEVER, JoinRequest, JoinResult, Member, SyncResult
from ottla.group.state import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, Group, Limits

PARTITIONS = tuple(range(6))
SESSION_MS = 10_000
REBALANCE_MS = 30_000
#: After this long in silence everybody must have been answered, and every member given up.
SILENCE_MS = 400_000

KEEPS_ITS_ID = {0, RebalanceInProgress.code, IllegalGeneration.code, CoordinatorNotAvailable.code, NotCoordinator.code}


@dataclass(eq=False)
class Client:
    """A consumer as the protocol's rules make it; or one that has gone silent."""

    name: str
    instance_id: str | None
    knows_kip_394: bool
    protocols: list[tuple[str, bytes]]
    rebalance_ms: int = REBALANCE_MS
    member_id: str = ""
    generation: int = -1
    #: the generation whose assignment it holds
    owns: tuple[int, frozenset[int]] | None = None
    is_leader_of: JoinResult | None = None
    waits_for: "Token | None" = None

    @property
    def identity(self) -> str:
        """A static member stays who it is when its process is replaced."""
        return self.instance_id or self.member_id


@dataclass(eq=False)
class Token:
    client: Client
    kind: str
    member_id: str
    answers: list[JoinResult | SyncResult] = field(default_factory=list)


@dataclass(frozen=True)
class Written:
    """The content of a group's record that a `Store` puts into the log."""

    generation: int
    protocol: str | None
    leader: str | None
    members: tuple[tuple[str, str | None, bytes, bytes], ...]


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now = self.random.randrange(1_000_000)
        self.ids = 0
        members_max = self.random.choice((2, 4, 1_000, 1_000, 1_000))
        self.limits = Limits(self.random.choice((0, 0, 3_000)), members_max)
        self.group = self.new_group()
        self.clients: list[Client] = []
        self.tokens: list[Token] = []
        self.log: list[Written] = []
        self.storing: list[tuple[Store, Written]] = []
        self.assigned: dict[int, dict[int, str]] = {}
        self.leaders: dict[int, str] = {}
        self.generation = 0
        self.committed = 0

    def new_group(self) -> Group:
        return Group("g", self.limits, self.new_id)

    def new_id(self) -> str:
        self.ids += 1
        return f"id{self.ids}"

    # --- steps ---

    def step(self) -> None:
        steps = [
            (self.start, 6),
            (self.join, 20),
            (self.join_twice, 1),
            (self.sync, 16),
            (self.heartbeat, 12),
            (self.commit, 8),
            (self.leave, 3),
            (self.restart_static, 3),
            (self.fall_silent, 2),
            (self.pass_time, 8),
            (self.log_answers, 14),
            (self.reload, 1),
        ]
        chosen = self.random.choices([step for step, _ in steps], [weight for _, weight in steps])[0]
        chosen()
        self.effects()
        self.check()

    def some(self, *, idle: bool = True) -> Client | None:
        clients = [client for client in self.clients if not idle or client.waits_for is None]
        return self.random.choice(clients) if clients else None

    def start(self) -> None:
        if len(self.clients) < 6:
            instance = self.random.choice((None, None, f"static{self.random.randrange(3)}"))
            protocols = [("range", b"a"), ("sticky", b"b")][: self.random.randrange(1, 3)]
            knows = self.random.random() < 0.5
            # Anything may be asked for; what is 0 or less must not keep the broker from all else.
            rebalance_ms = self.random.choice((REBALANCE_MS,) * 10 + (0, -1))
            self.clients.append(Client(f"c{self.new_id()}", instance, knows, protocols, rebalance_ms))

    def join(self, client: Client | None = None) -> None:
        client = client or self.some()
        if client is None:
            return
        if self.random.random() < 0.1:
            client.protocols = [("range", self.random.choice((b"a", b"changed"))), ("sticky", b"b")]
        token = self.token(client, "join")
        request = JoinRequest(
            client.member_id,
            client.instance_id,
            client.name,
            "/127.0.0.1",
            SESSION_MS,
            client.rebalance_ms,
            "consumer",
            list(client.protocols),
            client.knows_kip_394 and client.instance_id is None,
        )
        self.group.join(self.now, token, request)

    def join_twice(self) -> None:
        """Over a second connection, while the first waits."""
        self.join(self.some(idle=False))

    def sync(self) -> None:
        client = self.some()
        if client is None or client.generation < 0:
            return
        assignments: dict[str, bytes] = {}
        joined = client.is_leader_of
        if joined is not None and joined.generation == client.generation:
            for partition in PARTITIONS:
                member = joined.members[partition % len(joined.members)]
                assignments[member.member_id] = assignments.get(member.member_id, b"") + bytes([partition])
        token = self.token(client, "sync")
        self.group.sync(
            self.now,
            token,
            client.member_id,
            client.instance_id,
            client.generation,
            self.random.choice((None, "consumer")),
            None,
            assignments,
        )

    def heartbeat(self) -> None:
        client = self.some(idle=False)
        if client is not None and client.generation >= 0:
            error = self.group.heartbeat(self.now, client.member_id, client.instance_id, client.generation)
            self.learn(client, error)

    def commit(self) -> None:
        client = self.some(idle=False)
        if client is None or client.generation < 0:
            return
        error = self.group.commit_error(self.now, client.member_id, client.instance_id, client.generation)
        if error == 0:
            assert client.generation == self.generation, self.say("a commit from an old generation was taken")
            assert client.member_id in self.group.members, self.say("a commit from a stranger was taken")
            self.committed += 1
        self.learn(client, error)

    def leave(self) -> None:
        client = self.some()
        if client is not None and client.member_id:
            self.group.leave(self.now, client.member_id, client.instance_id)
            self.clients.remove(client)

    def restart_static(self) -> None:
        """A new process with the instance id of one that may well be alive."""
        static = [client for client in self.clients if client.instance_id is not None]
        if static:
            old = self.random.choice(static)
            if self.random.random() < 0.7:
                self.clients.remove(old)
            self.clients.append(Client(f"c{self.new_id()}", old.instance_id, True, list(old.protocols)))

    def fall_silent(self) -> None:
        client = self.some(idle=False)
        if client is not None:
            self.clients.remove(client)

    def pass_time(self) -> None:
        self.now += self.random.choice((1, 100, 3_000, 11_000, 31_000))
        self.group.tick(self.now)

    def log_answers(self) -> None:
        if self.storing:
            store, written = self.storing.pop(0)
            error = self.random.choice((0, 0, 0, 0, CoordinatorNotAvailable.code, RebalanceInProgress.code))
            if error in (0, RebalanceInProgress.code):  # after a timeout the record is there all the same
                self.log.append(written)
            self.group.stored(self.now, store, error)

    def reload(self) -> None:
        """Another broker takes over: it knows what is in the log, which may be more than was acknowledged."""
        for _, written in self.storing[: self.random.randrange(len(self.storing) + 1)]:
            self.log.append(written)
        self.storing.clear()
        self.group.die()
        self.effects()
        self.group = self.new_group()
        if self.log:
            last = self.log[-1]
            members = []
            for member_id, instance_id, subscription, assignment in last.members:
                member = Member(
                    member_id, instance_id, "c", "/h", SESSION_MS, REBALANCE_MS, [(last.protocol or "", subscription)]
                )
                member.assignment = assignment
                members.append(member)
            self.group.generation = last.generation
            self.group.protocol = last.protocol
            self.group.restore(members, "consumer" if members else None, last.leader)
        self.group.taken_over(self.now)
        self.generation = self.group.generation
        # Generations that nobody was assigned in may come again.
        self.leaders = {generation: who for generation, who in self.leaders.items() if generation <= self.generation}

    # --- what comes of it ---

    def token(self, client: Client, kind: str) -> Token:
        token = Token(client, kind, client.member_id)
        client.waits_for = token
        self.tokens.append(token)
        return token

    def effects(self) -> None:
        while self.group.effects:
            effects, self.group.effects = self.group.effects, []
            for effect in effects:
                if isinstance(effect, Answer):
                    self.answer(effect.token, effect.result)
                else:
                    self.store(effect)

    def store(self, store: Store) -> None:
        group = self.group
        assert store.assignments.keys() == group.members.keys(), self.say("not everybody is in what is stored")
        members = tuple(
            (m.member_id, m.instance_id, m.metadata(group.protocol or ""), store.assignments[m.member_id])
            for m in group.members.values()
        )
        self.storing.append((store, Written(group.generation, group.protocol, group.leader, members)))

    def answer(self, token: Token, result: JoinResult | SyncResult) -> None:
        token.answers.append(result)
        assert len(token.answers) == 1, self.say("a request was answered twice")
        client = token.client
        if isinstance(result, JoinResult):
            assert token.kind == "join"
            if result.error == 0:
                self.joined(client, token, result)
        else:
            assert token.kind == "sync"
            if result.error == 0:
                self.synced(client, token, result)
        if client.waits_for is not token:
            return
        client.waits_for = None
        if isinstance(result, JoinResult) and result.error in (0, MemberIdRequired.code):
            client.member_id = result.member_id
            if result.error == 0:
                client.generation = result.generation
                client.is_leader_of = result if result.members else None
        else:
            self.learn(client, result.error)

    def joined(self, client: Client, token: Token, result: JoinResult) -> None:
        assert result.generation >= self.generation, self.say("generations went back")
        assert result.member_id in self.group.members, self.say("a join is answered with an id that is no member's")
        self.generation = result.generation
        if result.members:
            assert result.leader == result.member_id, self.say("someone else than the leader assigns")
            names = [member.member_id for member in result.members]
            assert len(set(names)) == len(names)
            assert result.member_id in names
            known = self.leaders.setdefault(result.generation, client.identity or result.member_id)
            assert known in (result.member_id, client.instance_id), self.say("two leaders in a generation")

    def synced(self, client: Client, token: Token, result: SyncResult) -> None:
        # The generation is the one it asked in: nobody else's sync succeeds.
        generation = self.group.generation
        owners = self.assigned.setdefault(generation, {})
        who = client.instance_id or token.member_id
        for partition in result.assignment:
            known = owners.setdefault(partition, who)
            assert known == who, self.say(f"{known} and {who} own partition {partition} in generation {generation}")

    def learn(self, client: Client, error: int) -> None:
        """Does what clients do about errors."""
        if error == 0:
            return
        if error == FencedInstanceId.code:
            if client in self.clients:
                self.clients.remove(client)
            return
        if error == UnknownMemberId.code or error not in KEEPS_ITS_ID:
            client.member_id = ""
        if error != RebalanceInProgress.code:
            client.generation = -1

    # --- what must hold ---

    def check(self) -> None:
        group = self.group
        members = group.members.values()
        waiting = [member for member in members if member.join_token is not None]
        syncing = [member for member in members if member.sync_token is not None]
        say = self.say
        assert group._roster.awaiting_join == len(waiting), say("the count of joins that wait is wrong")
        supported = Counter(name for member in members for name in dict(member.protocols))
        assert dict(group._roster._supported) == supported, say(
            "the counts of members that support a protocol are wrong"
        )
        assert all(member.member_id == name for name, member in group.members.items())
        static = {member.instance_id: member.member_id for member in members if member.instance_id is not None}
        assert group.static_members == static, say("static members are not those of the group")
        assert not syncing or group.state is COMPLETING, say(f"a sync waits in {group.state}")
        replaced = {store.replacement.member for store, _ in self.storing if store.replacement is not None}
        if group.state in (EMPTY, DEAD):
            assert not members, say("an empty group has members")
        elif group.state is not PREPARING:
            assert set(waiting) <= replaced, say(f"a join waits in {group.state}")
        if group.state in (COMPLETING, STABLE):
            assert group.leader in group.members, say("the leader is not a member")
            assert group.protocol in group._roster._supported
        for member in members:
            # Someone watches over everybody: a timer, or, while it waits, the rebalance or the leader's timer.
            watched = member.timer_ms is not None and member.timer_ms <= member.deadline_ms < NEVER
            awaited = member in syncing or (member in waiting and not member.is_new)
            assert watched or awaited, say(f"nobody would miss {member}")

    def settle(self) -> None:
        """Everybody falls silent, and the log answers: then every request is answered, and the group is empty."""
        end = self.now + SILENCE_MS
        while True:
            while self.storing:
                store, _ = self.storing.pop(0)
                self.group.stored(self.now, store, 0)
                self.effects()
            if self.group.next_timer_ms > end:
                break
            self.now = max(self.now, self.group.next_timer_ms)
            self.group.tick(self.now)
            self.effects()
            self.check()
        unanswered = [(token.kind, token.client.name) for token in self.tokens if not token.answers]
        assert not unanswered, self.say(f"these wait for ever: {unanswered}")
        assert self.group.state is EMPTY, self.say(f"after a long silence the group is {self.group.state}")
        assert not self.group.pending_members

    def say(self, what: str) -> str:
        return f"seed {self.seed}: {what}"
