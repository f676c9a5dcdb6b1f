"""Fetch sessions that are lent to the hub: what it serves without asking Python, and how Python takes them back."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.broker.fetch import session as rules
from ottla.broker.fetch.session import FetchSession
from ottla.broker.network_threads import VARIABLE as THREADS
from ottla.errors import FetchSessionIdNotFound, InvalidFetchSessionEpoch, NotLeaderOrFollower, UnknownTopicOrPartition
from ottla.replication.partition import Partition
from ottla.wire.k01_fetch import FETCH
from tests.support.client import Client, batch
from tests.support.fetch_session import Session
from tests.support.leased import One, started
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = [pytest.mark.trio, pytest.mark.usefixtures("leases_on")]

TOPIC = "data"
PARTITIONS = 3
SIZE = len(batch(b"x"))
WAITS = {"max_wait_ms": 300_000, "min_bytes": 1}


class Reader:
    """A client with a session on all partitions, of which it knows everything. It asks in a thread."""

    def __init__(self, one: One, client: Client) -> None:
        self.one = one
        self.session = Session(client, TOPIC)

    @property
    def lent(self) -> FetchSession | None:
        """Python's side of the session, while it is lent."""
        found = self.one.broker.fetch_sessions._sessions.get(self.session.id)
        return found if found is not None and found.loan is not None else None

    async def ask(self, offsets: dict[int, int] | None = None, **options: Any) -> dict[int, int]:
        found: dict[int, int] = await trio.to_thread.run_sync(lambda: self.session.ask(offsets, **options))
        return found

    async def error(self, **fields: int) -> int:
        """The error code of an answer as a whole, with other fields of the session."""
        known = {name: getattr(self.session, name) for name in fields}
        vars(self.session).update(fields)
        answer = await trio.to_thread.run_sync(self.session.fetch, {})
        vars(self.session).update(known)
        code: int = answer.error_code
        return code


class Stand:
    def __init__(self, one: One, partitions: list[Partition]) -> None:
        self.one = one
        self.partitions = partitions

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[Reader]:
        port = self.one.broker.addresses.listening[0].port
        client = await trio.to_thread.run_sync(lambda: Client.connect("127.0.0.1", port, "reader"))
        with client:
            found = Reader(self.one, client)
            await found.ask(dict.fromkeys(range(PARTITIONS), 0))
            await comes_true("a session that is lent", lambda: found.lent is not None)
            yield found

    async def write(self, partition: int) -> None:
        records = batch(b"x")
        await self.one.talk(lambda client: client.produce(TOPIC, records, partition=partition, acks=1))

    @asynccontextmanager
    async def waiting(self, reader: Reader, told: dict[int, int]) -> AsyncIterator[None]:
        """A Fetch of the session waits in the hub. What is done meanwhile has it answered with `told`."""
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                assert await reader.ask(**WAITS) == told

            nursery.start_soon(wait)
            hub = self.one.broker.server.hub
            await comes_true("a Fetch that waits in the hub", lambda: hub.waiting_fetches == 1)
            yield


@asynccontextmanager
async def stand(path: Path, monkeypatch: pytest.MonkeyPatch, **settings: str) -> AsyncIterator[Stand]:
    async with started(path, monkeypatch, **settings) as one:
        await one.create(TOPIC, PARTITIONS)
        partitions = [one.broker.replicas.partitions[TOPIC, index] for index in range(PARTITIONS)]
        with trio.fail_after(2 * PATIENCE_S):
            yield Stand(one, partitions)


@pytest.mark.parametrize("threads", ["0", "2"])
async def test_a_session_is_served_without_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: str
) -> None:
    monkeypatch.setenv(THREADS, threads)
    async with stand(tmp_path, monkeypatch) as found, found.reader() as reader:
        before = found.one.asked_of[FETCH.key]
        for number in range(20):
            async with found.waiting(reader, {number % PARTITIONS: SIZE}):
                await found.write(number % PARTITIONS)
            offset = number // PARTITIONS + 1
            assert await reader.ask({number % PARTITIONS: offset}) == {}
        # Those that leave and enter again, as the partitions of Java's consumer do all the time.
        assert await reader.ask(forget=(0, 2)) == {}
        await found.write(0)
        await found.write(1)
        assert await reader.ask() == {1: SIZE}
        assert await reader.ask({0: 7, 1: 8}) == {0: SIZE}
        assert found.one.asked_of[FETCH.key] == before
        assert found.one.broker.fetch_sessions.partitions_cached == 2


async def test_what_is_wrong_is_answered_by_python_and_the_session_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stand(tmp_path, monkeypatch) as found, found.reader() as reader:
        for off in (1, 7, -7):
            assert await reader.error(epoch=reader.session.epoch + off) == InvalidFetchSessionEpoch.code
            assert reader.lent is None
            assert await reader.ask() == {}
            assert reader.lent is not None
        assert await reader.error(id=reader.session.id ^ 1) == FetchSessionIdNotFound.code
        assert reader.lent is not None
        # A full Fetch ends the session that it names.
        ended = reader.session.id
        assert await reader.error(epoch=-1) == 0
        assert reader.lent is None
        assert await reader.error(id=ended) == FetchSessionIdNotFound.code


async def test_the_one_of_two_connections_that_comes_second_has_the_wrong_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stand(tmp_path, monkeypatch) as found, found.reader() as reader, found.reader() as other:
        ended = other.session.id
        other.session.id, other.session.epoch = reader.session.id, reader.session.epoch
        async with found.waiting(reader, {}):
            # It waits: who comes has the next epoch, and the first is answered with what there is.
            other.session.epoch += 1
            assert await other.ask() == {}
        assert await reader.error() == InvalidFetchSessionEpoch.code
        assert await other.ask() == {}
        assert ended != other.session.id


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_a_session_that_gives_way_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_waiting: bool
) -> None:
    settings = {"max.incremental.fetch.session.cache.slots": "1"}
    async with stand(tmp_path, monkeypatch, **settings) as found, found.reader() as reader:
        assert await reader.ask() == {}
        sessions = found.one.broker.fetch_sessions

        async def begin_another() -> int:
            def ask(client: Client) -> int:
                session = Session(client, TOPIC)
                session.ask({0: 0})
                return session.id

            number: int = await found.one.talk(ask)
            return number

        async with found.waiting(reader, {}) if is_waiting else _nothing():
            # The hub knows that it was used.
            assert await begin_another() == 0
            monkeypatch.setattr(rules, "EVICTION_MS", -1)
            monkeypatch.setattr(rules, "LOOK_UP_MS", -1)
            assert await begin_another() != 0
        assert (len(sessions), sessions.evictions_total) == (1, 1)
        assert await reader.error() == FetchSessionIdNotFound.code


@asynccontextmanager
async def _waits_in_python(found: Stand, reader: Reader) -> AsyncIterator[None]:
    """A Fetch of the session waits in Python: nobody else adds up what several partitions have."""
    sessions = found.one.broker.fetch_sessions
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            assert await reader.ask(max_wait_ms=300_000, min_bytes=2) == {}

        nursery.start_soon(wait)
        number = reader.session.id
        await comes_true("a Fetch that waits in Python", lambda: sessions._sessions[number].parked is not None)
        yield


async def test_it_is_not_lent_before_python_has_answered_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stand(tmp_path, monkeypatch) as found, found.reader() as reader, found.reader() as other:
        async with _waits_in_python(found, reader):
            other.session.id, other.session.epoch = reader.session.id, reader.session.epoch + 1
            assert await other.ask() == {}
        for _ in range(3):
            assert await other.ask() == {}
        assert other.lent is not None


async def test_one_that_ends_while_python_has_a_request_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stand(tmp_path, monkeypatch) as found, found.reader() as reader, found.reader() as other:
        async with _waits_in_python(found, reader):
            assert await other.error(id=reader.session.id, epoch=-1) == 0
        assert await reader.error() == FetchSessionIdNotFound.code


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize(
    ("happens", "error"),
    [(Partition.resign, NotLeaderOrFollower.code), (Partition.end_lease, 0)],
    ids=["another-leads", "lease-ends"],
)
async def test_the_end_of_a_lease_is_told_with_the_next_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: Callable[[Partition], None], error: int
) -> None:
    async with stand(tmp_path, monkeypatch) as found, found.reader() as reader:
        async with found.waiting(reader, {}):
            happens(found.partitions[1])
        answer = await trio.to_thread.run_sync(reader.session.fetch, {})
        codes = [row.error_code for topic in answer.responses for row in topic.partition_responses]
        assert codes == ([error] if error else [])
        assert (reader.lent is None) == bool(error)


async def test_a_topic_that_was_deleted_and_made_anew_is_read_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stand(tmp_path, monkeypatch) as found, found.reader() as reader:
        one = found.one
        await found.write(0)
        assert await reader.ask() == {0: SIZE}
        assert await reader.ask({0: 1}) == {}
        async with found.waiting(reader, {}):
            await one.talk(lambda client: client.delete_topic(TOPIC))
            await one.broker.metadata.wait_until(lambda: TOPIC not in one.broker.metadata.topics)
        answer = await trio.to_thread.run_sync(reader.session.fetch, {0: 0})
        rows = [row for topic in answer.responses for row in topic.partition_responses]
        assert {row.error_code for row in rows} == {UnknownTopicOrPartition.code}
        reader.session.epoch += 1
        await one.create(TOPIC, PARTITIONS)
        await found.write(0)
        await found.write(0)
        assert await reader.ask() == {0: 2 * SIZE, 1: 0, 2: 0}
        assert reader.lent is not None
        assert await reader.ask({0: 2}) == {}


async def test_who_may_not_read_under_leases_asks_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quotas end all leases: the session comes back with its next request, and is not lent before they are gone."""
    async with stand(tmp_path, monkeypatch) as found, found.reader() as reader:
        for _ in range(2):
            found.one.broker.leases.allow(False)
            assert await reader.ask() == {}
            assert reader.lent is None
            found.one.broker.leases.allow(True)
            assert await reader.ask() == {}
            assert reader.lent is not None


async def test_a_session_of_many_partitions_is_pythons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, monkeypatch) as one:
        await one.create(TOPIC, 101)

        def ask(client: Client) -> int:
            session = Session(client, TOPIC)
            session.ask(dict.fromkeys(range(100), 0))
            before = one.asked
            assert session.ask() == {}
            assert one.asked == before
            assert session.ask({100: 0}) == {100: 0}
            assert one.asked == before + 1
            assert session.ask() == {}
            return one.asked - before

        assert await one.talk(ask) == 2
