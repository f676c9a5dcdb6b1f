"""Clients with rights are served without asking Python, until rules change that may concern them."""

import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest
import trio

from ottla.broker.authorization.authorizer import NUMBERS_MAX
from ottla.client import Security
from ottla.errors import ClusterAuthorizationFailed, TopicAuthorizationFailed
from ottla.wire.acls import Binding, PatternType, Permission
from ottla.wire.k00_produce import PRODUCE
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.needs import Operation, Resource
from tests.broker.authorization.ruled import PLAIN, rule, settings
from tests.peers.certificates import certified
from tests.support.client import Client, batch
from tests.support.leased import Counted, One, produce, started
from tests.support.tls import store
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = [pytest.mark.trio, pytest.mark.usefixtures("leases_on")]

DENIED: Final = TopicAuthorizationFailed.code
READ: Final = rule("alice", Operation.READ, Resource.TOPIC, "t")
WRITE: Final = rule("alice", Operation.WRITE, Resource.TOPIC, "t")
IDEMPOTENT: Final = rule("alice", Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, "kafka-cluster")
#: Longer than any test waits.
LONG_MS: Final = int(PATIENCE_S * 2000)
#: Requests of one conversation.
MANY: Final = 20


class Guarded:
    """A broker with an authorizer, and a topic `t` with a record."""

    def __init__(self, one: One) -> None:
        self.one = one
        self.partition = one.broker.replicas.partitions["t", 0]
        (self.port,) = [each.port for each in one.broker.addresses.listening if each.name == "SASL"]

    def enter(self, user: str) -> Client:
        given = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} required username="{user}" password="p";',
        }
        return Client.connect("127.0.0.1", self.port, "test", security=Security.of(given))

    @asynccontextmanager
    async def entered(self, user: str) -> AsyncIterator[Client]:
        with await trio.to_thread.run_sync(self.enter, user) as client:
            yield client

    async def needed(self, user: str, conversation: Callable[[Client], Any]) -> int:
        """How many Produces and Fetches of a user's new connection came to Python."""
        before = self.one.asked

        def run() -> None:
            with self.enter(user) as client:
                conversation(client)

        await trio.to_thread.run_sync(run)
        return self.one.asked - before

    async def allow(self, *rules: Binding) -> None:
        await self._alter(rules, frozenset.union)

    async def withdraw(self, *rules: Binding) -> None:
        await self._alter(rules, frozenset.difference)

    async def _alter(self, rules: Iterable[Binding], change: Callable[..., frozenset[Any]]) -> None:
        assert self.one.broker.authorizer is not None
        store = self.one.broker.authorizer.store
        for one in rules:
            await store.alter(one.pattern, lambda before, entry=one.entry: change(before, {entry}))  # type: ignore[misc]


@asynccontextmanager
async def guarded(path: Path, monkeypatch: pytest.MonkeyPatch, **others: str) -> AsyncIterator[Guarded]:
    given = {name: str(value) for name, value in settings(0, 0, ("alice", "bob"), **others).items()}
    async with started(path, monkeypatch, **given) as one:
        await one.create("t")
        await one.create("u")
        await one.talk(lambda client: produce(client, "t", b"a"))
        yield Guarded(one)


def code(answer: FetchResponse) -> int:
    ((row,),) = [topic.partition_responses for topic in answer.responses]
    return int(row.error_code)


def reads(count: int = MANY, expected: int = 0) -> Callable[[Client], None]:
    def conversation(client: Client) -> None:
        assert [code(client.fetch("t")) for _ in range(count)] == [expected] * count

    return conversation


def writes(count: int = MANY, expected: int = 0) -> Callable[[Client], None]:
    def conversation(client: Client) -> None:
        assert [produce(client, "t", b"v")[0] for _ in range(count)] == [expected] * count

    return conversation


async def test_who_may_read_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with guarded(tmp_path, monkeypatch) as broker:
        assert await broker.needed("alice", reads(expected=DENIED)) == MANY
        await broker.allow(READ)
        assert await broker.needed("alice", reads()) == 1
        # Another connection has to be known, but not who may not.
        assert await broker.needed("alice", reads()) == 1
        assert await broker.needed("bob", reads(expected=DENIED)) == MANY
        assert await broker.needed("alice", writes(expected=DENIED)) == MANY


async def test_who_may_write_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with guarded(tmp_path, monkeypatch) as broker:
        await broker.allow(WRITE)
        # A write that took long has the next append in a thread, and so in Python.
        assert await broker.needed("alice", writes()) < MANY
        assert await broker.needed("alice", reads(expected=DENIED)) == MANY
        assert await broker.needed("bob", writes(expected=DENIED)) == MANY


async def test_producer_ids_are_a_right_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def numbered(expected: int, first: int) -> Callable[[Client], None]:
        def conversation(client: Client) -> None:
            assert produce(client, "t", b"v")[0] == 0
            for number in range(first, first + MANY):
                records = batch(b"v", producer_id=5, producer_epoch=0, base_sequence=number)
                ((row,),) = [topic.partitions for topic in client.produce("t", records, acks=1).responses]
                assert row.error_code == expected

        return conversation

    async with guarded(tmp_path, monkeypatch) as broker:
        await broker.allow(WRITE)
        refused = ClusterAuthorizationFailed.code
        assert await broker.needed("alice", numbered(refused, 0)) >= MANY
        await broker.allow(IDEMPOTENT)
        assert await broker.needed("alice", numbered(0, 0)) < MANY
        await broker.withdraw(IDEMPOTENT)
        assert await broker.needed("alice", numbered(refused, MANY)) >= MANY


DENY = Permission.DENY


@pytest.mark.parametrize(
    ("before", "withdrawn", "added"),
    [
        ([READ], [READ], []),
        ([READ], [], [rule("alice", Operation.READ, Resource.TOPIC, "t", DENY)]),
        ([READ], [], [rule("*", Operation.ALL, Resource.TOPIC, "*", DENY)]),
        ([READ], [], [rule("alice", Operation.READ, Resource.TOPIC, "t", DENY, PatternType.PREFIXED, "127.0.0.1")]),
        (
            [rule("*", Operation.READ, Resource.TOPIC, "t", kind=PatternType.PREFIXED)],
            [rule("*", Operation.READ, Resource.TOPIC, "t", kind=PatternType.PREFIXED)],
            [],
        ),
    ],
)
async def test_a_right_that_goes_is_gone_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: list[Binding],
    withdrawn: list[Binding],
    added: list[Binding],
) -> None:
    """On a connection that the hub serves, with a Fetch that waits there."""
    async with guarded(tmp_path, monkeypatch) as broker:
        await broker.allow(*before)
        hub = broker.one.broker.server.hub

        def conversation(client: Client) -> None:
            reads()(client)
            answers.append(code(client.fetch("t", 1, max_wait_ms=LONG_MS, min_bytes=1)))
            answers.append(code(client.fetch("t")))

        answers: list[int] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.needed, "alice", conversation)
            await comes_true("a Fetch waits in the hub", lambda: hub.waiting_fetches == 1)
            await broker.withdraw(*withdrawn)
            await broker.allow(*added)
        assert answers == [0, DENIED]


async def test_sessions_are_lent_to_those_who_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with guarded(tmp_path, monkeypatch) as broker:
        await broker.allow(READ)
        seen: list[tuple[int, list[int]]] = []
        hub = broker.one.broker.server.hub

        def ask(client: Client, session: tuple[int, int], names: bool, wait_ms: int = 0) -> FetchResponse:
            rows = [FetchTopic("t", [FetchPartition(0, -1, 1, partition_max_bytes=1000)])] if names else []
            asked = FetchRequest(
                replica_id=-1,
                max_wait_ms=wait_ms,
                min_bytes=1,
                session_id=session[0],
                session_epoch=session[1],
                topics=rows,
            )
            answer: FetchResponse = client.call(FETCH, asked, 11)
            seen.append(
                (answer.error_code, [row.error_code for one in answer.responses for row in one.partition_responses])
            )
            return answer

        def conversation(client: Client) -> None:
            session_id = ask(client, (0, 0), True).session_id
            before = broker.one.asked
            for epoch in range(1, MANY):
                ask(client, (session_id, epoch), False)
            assert broker.one.asked == before
            ask(client, (session_id, MANY), False, LONG_MS)
            ask(client, (session_id, MANY + 1), False)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.needed, "alice", conversation)
            await comes_true("a Fetch waits in the hub", lambda: hub.waiting_fetches == 1)
            await broker.withdraw(READ)
        assert seen == [(0, [0]), *[(0, [])] * MANY, (0, [DENIED])]


async def test_a_prefix_concerns_what_begins_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with guarded(tmp_path, monkeypatch) as broker:
        await broker.one.create("prefixed")
        await broker.allow(rule("alice", Operation.READ, Resource.TOPIC, "prefixed"))
        async with broker.entered("alice") as client:

            async def read() -> list[int]:
                return await trio.to_thread.run_sync(lambda: [code(client.fetch("prefixed")) for _ in range(MANY)])

            assert await read() == [0] * MANY
            await broker.allow(rule("bob", Operation.ALL, Resource.TOPIC, "pre", DENY, PatternType.PREFIXED))
            before = broker.one.asked
            assert await read() == [0] * MANY
            assert broker.one.asked == before + 1
            await broker.allow(rule("alice", Operation.ALL, Resource.TOPIC, "pre", DENY, PatternType.PREFIXED))
            assert await read() == [DENIED] * MANY


async def test_other_rules_end_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [
        rule("alice", Operation.READ, Resource.TOPIC, "u"),
        rule("alice", Operation.READ, Resource.TOPIC, "tt", kind=PatternType.PREFIXED),
        rule("alice", Operation.READ, Resource.GROUP, "t"),
        rule("alice", Operation.ALL, Resource.TRANSACTIONAL_ID, "*", DENY),
    ]
    async with guarded(tmp_path, monkeypatch) as broker:
        await broker.allow(READ)
        assert await broker.needed("alice", reads()) == 1
        lease = broker.partition.lease
        assert lease is not None
        await broker.allow(*others)
        await broker.withdraw(*others)
        # It reads all there is again, as after an outage of the tree, and finds the same.
        assert broker.one.broker.authorizer is not None
        await broker.one.broker.authorizer.store.load()
        assert broker.partition.lease is lease
        await broker.allow(rule("bob", Operation.READ, Resource.TOPIC, "t"))
        assert broker.partition.lease is None


async def test_what_is_written_down_comes_to_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = {"audit_log_file": str(tmp_path / "audit.log"), "audit_log_allowed": "true"}
    async with guarded(tmp_path / "data", monkeypatch, **audit) as broker:
        await broker.allow(READ, WRITE)
        assert await broker.needed("alice", reads()) == MANY
        assert await broker.needed("alice", writes()) == MANY


async def test_no_number_is_given_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with guarded(tmp_path, monkeypatch) as broker:
        authorizer = broker.one.broker.authorizer
        assert authorizer is not None
        assert authorizer.number("alice", "h") == authorizer.number("alice", "h")
        count = 2 * NUMBERS_MAX + 1
        assert len({authorizer.number("bob", str(host)) for host in range(count)}) == count


TOPICS: Final = ("t", "u", "tu")
POOL: Final = [
    rule(who, operation, Resource.TOPIC, name, permission, kind)
    for who in ("alice", "bob", "*")
    for operation in (Operation.READ, Operation.WRITE, Operation.ALL)
    for name, kind in (
        ("t", PatternType.LITERAL),
        ("u", PatternType.LITERAL),
        ("*", PatternType.LITERAL),
        ("t", PatternType.PREFIXED),
    )
    for permission in (Permission.ALLOW, Permission.ALLOW, Permission.DENY)
]


@pytest.mark.parametrize(("seed", "threads"), [(0, None), (1, None), (2, "2")])
async def test_random_rules_are_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, threads: str | None
) -> None:
    """On connections that stay: whatever was allowed or denied before, each request is served by today's rules."""
    if threads is not None:
        monkeypatch.setenv("OTTLA_NETWORK_THREADS", threads)
    chance = random.Random(seed)
    async with guarded(tmp_path, monkeypatch) as broker:
        await broker.one.create("tu")
        authorizer = broker.one.broker.authorizer
        assert authorizer is not None
        steps, before = 600, broker.one.asked
        async with broker.entered("alice") as alice, broker.entered("bob") as bob:
            clients = {"alice": alice, "bob": bob}
            for _ in range(steps):
                if chance.random() < 0.1:
                    change = broker.allow if chance.random() < 0.6 else broker.withdraw
                    await change(chance.choice(POOL))
                user, topic = chance.choice(list(clients)), chance.choice(TOPICS)
                reads = chance.random() < 0.5
                operation = Operation.READ if reads else Operation.WRITE
                decision = authorizer.store.snapshot.decide(user, "127.0.0.1", operation, Resource.TOPIC, topic)

                def ask(client: Client = clients[user], topic: str = topic, reads: bool = reads) -> int:
                    return code(client.fetch(topic)) if reads else produce(client, topic, b"v")[0]

                assert await trio.to_thread.run_sync(ask) == (0 if decision.is_allowed else DENIED)
        # Some of what was allowed did not come to Python.
        assert broker.one.asked - before < steps


async def test_by_tls_as_many_are_served_without_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka's producer and consumer, on a listener with TLS, logins and rules."""
    rounds = 200
    authority = certified("authority")
    (tmp_path / "authority.pem").write_text(authority.certificate_pem)
    others = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store(tmp_path / "broker.pem", certified("broker", authority, ["127.0.0.1"]))),
    }
    async with guarded(tmp_path, monkeypatch, **others) as broker:
        await broker.allow(READ, WRITE, rule("alice", Operation.READ, Resource.GROUP, "none"))
        given = {
            "bootstrap.servers": f"127.0.0.1:{broker.port}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(tmp_path / "authority.pem"),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "p",
        }
        producer = confluent_kafka.Producer({**given, "acks": 1, "linger.ms": 0})
        consumer = confluent_kafka.Consumer({**given, "group.id": "none", "enable.auto.commit": False})
        consumer.assign([confluent_kafka.TopicPartition("t", 0, 1)])

        def talk() -> None:
            for number in range(rounds):
                producer.produce("t", b"%d" % number, partition=0)
                assert producer.flush(PATIENCE_S) == 0
                message = consumer.poll(PATIENCE_S)
                assert message is not None
                assert message.value() == b"%d" % number
            consumer.close()

        counted = [Counted(broker.one, key) for key in (PRODUCE.key, FETCH.key)]
        await trio.to_thread.run_sync(talk)
        for each in counted:
            assert each.count() >= rounds / 2
            # Beside a write that took long, which has the next append in Python, each asks once.
            assert each.share_without_python() >= 0.9
