"""Two sessions on the same logs, which are asked the same: the hub serves one, and Python alone the other. The bytes of
all answers are the same, but for the sessions' numbers.
"""

import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from ottla.broker.fetch import incremental
from ottla.broker.fetch.context import Context
from ottla.broker.fetch.session import FetchSession
from ottla.broker.network_threads import VARIABLE as THREADS
from ottla.errors import TopicAlreadyExists
from ottla.wire.headers import request_frame
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.wire.k21_delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.faults.broker import settings as faults
from tests.support.client import Client, batch
from tests.support.leased import One, produce, started
from tests.support.transactions import SETTINGS, TOPIC, Writer
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = [pytest.mark.trio, pytest.mark.usefixtures("leases_on")]

#: Who asks: Python serves the first, and the hub the second where it can.
TWINS = ("python", "hub")
PARTITIONS = 3
PASSING = "passing"
FLEXIBLE_SINCE = 12


@dataclass
class Session:
    """A session as both twins know it."""

    version: int
    #: Of each twin.
    ids: list[int] = field(default_factory=lambda: [0, 0])
    epoch: int = 0
    isolation_level: int = 0
    #: By topic and partition.
    known: set[tuple[str, int]] = field(default_factory=set)


class Pair:
    """The connections of the twins."""

    def __init__(self, port: int) -> None:
        self._sockets = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) for _ in TWINS]
        self._files = [connection.makefile("rb") for connection in self._sockets]
        #: How often each was asked.
        self.asked = 0

    def ask(self, session: Session, request: FetchRequest) -> bytes:
        """The answer to both, without the session's number. That is noted."""
        found = []
        self.asked += 1
        for twin, name in enumerate(TWINS):
            request.session_id = session.ids[twin]
            body = FETCH.encode_request(session.version, request)
            self._sockets[twin].sendall(request_frame(FETCH.key, session.version, 7, name, body))
            answer = self._files[twin].read(int.from_bytes(self._files[twin].read(4), "big"))
            # Correlation id, tags, throttle time, error code.
            place = 4 + (session.version >= FLEXIBLE_SINCE) + 4 + 2
            number = int.from_bytes(answer[place : place + 4], "big")
            if request.session_epoch == 0:
                session.ids[twin] = number
            known = session.ids[twin] if number == session.ids[twin] else number
            assert number in (0, known)
            found.append(answer[:place] + bytes([0, 0, 0, number != 0]) + answer[place + 4 :])
        assert found[0] == found[1], (session, request)
        return found[0]

    def close(self) -> None:
        for file, connection in zip(self._files, self._sockets, strict=True):
            file.close()
            connection.close()


class Machine:
    """Does anything to the logs and to the sessions, in an order that a seed decides."""

    def __init__(self, one: One, chosen: int) -> None:
        self.one = one
        self.random = random.Random(chosen)
        self.pair = Pair(one.broker.addresses.listening[0].port)
        self.sessions = [Session(version) for version in (7, 9, 11, 12)]
        self.writers = [Writer("one"), Writer("other")]
        self.is_open = dict.fromkeys(self.writers, False)
        #: Of each kind, how often.
        self.done: dict[str, int] = {}

    def odds(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    async def step(self) -> None:
        kinds = {
            self.fetch: 16,
            self.produce: 4,
            self.transact: 4,
            self.delete_records: 0.5,
            self.end_a_lease: 1,
            self.allow: 0.3,
            self.make_anew: 0.3,
        }
        (kind,) = self.random.choices([*kinds], [*kinds.values()])
        self.done[kind.__name__] = self.done.get(kind.__name__, 0) + 1
        await kind()

    def place(self) -> tuple[str, int]:
        if self.odds(4):
            return PASSING, 0
        return TOPIC, self.random.randrange(PARTITIONS)

    def offsets(self, place: tuple[str, int]) -> tuple[int, int]:
        """Where the log of a partition starts and ends."""
        partition = self.one.broker.replicas.partitions.get(place)
        return (0, 0) if partition is None else (partition.log.start_offset, partition.log.end_offset)

    async def fetch(self) -> None:
        session = self.random.choice(self.sessions)
        epoch = session.epoch
        if self.odds(40):
            # It begins anew, ends, or is wrong.
            epoch = self.random.choice([0, 0, -1, epoch + 1, -5])
        is_full = epoch in (0, -1)
        if is_full:
            session.known = set()
            session.isolation_level = self.random.randrange(2)
        named = {self.place() for _ in range(self.random.randrange(5 if is_full else 4))}
        forgotten = {place for place in session.known if self.odds(8)} if not is_full else set()
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=self.random.choice([0, 0, 1]),
            min_bytes=self.random.choice([0, 1, 1, 1, 1, 1, 1, 200]),
            max_bytes=self.random.choice([1, 300, 1 << 20, 1 << 20]),
            isolation_level=session.isolation_level if not self.odds(40) else self.random.randrange(2),
            session_epoch=epoch,
            topics=[FetchTopic(topic=topic, partitions=[self.row(topic, number)]) for topic, number in sorted(named)],
            forgotten_topics_data=[ForgottenTopic(topic=topic, partitions=[number]) for topic, number in forgotten],
        )
        if is_full and epoch == 0:
            session.epoch = 0
        await trio.to_thread.run_sync(self.pair.ask, session, request)
        if epoch == session.epoch:
            session.epoch += 1
            session.known = (session.known | named) - forgotten
        if not session.known or not all(session.ids) or epoch == -1:
            session.epoch = 0

    def row(self, topic: str, number: int) -> FetchPartition:
        start, end = self.offsets((topic, number))
        return FetchPartition(
            partition=number,
            current_leader_epoch=self.random.choice([0, 0, 1]) if self.odds(12) else -1,
            fetch_offset=self.random.choice([end, end, self.random.randrange(start, end + 1)])
            if not self.odds(40)
            else self.random.choice([-1, start - 1, end + 1]),
            partition_max_bytes=self.random.choice([1, 200, 1 << 20]),
        )

    async def produce(self) -> None:
        topic, number = self.place()
        records = batch(b"plain", bytes(self.random.randrange(300)))
        await self.one.talk(lambda client: client.produce(topic, records, partition=number, acks=1))

    async def transact(self) -> None:
        writer = self.random.choice(self.writers)
        if self.is_open[writer] and self.odds(2):
            await self.one.talk(lambda client: writer.end(client, commit=self.odds(2)))
            self.is_open[writer] = False
        else:
            await self.one.talk(lambda client: writer.write(client, b"of a transaction"))
            self.is_open[writer] = True

    async def delete_records(self) -> None:
        topic, number = self.place()
        start, end = self.offsets((topic, number))
        offset = self.random.randrange(start, end + 1)

        def delete(client: Client) -> None:
            row = DeleteRecordsPartition(partition_index=number, offset=offset)
            topics = [DeleteRecordsTopic(name=topic, partitions=[row])]
            client.call(DELETE_RECORDS, DeleteRecordsRequest(topics=topics, timeout_ms=60_000), 2)

        await self.one.talk(delete)

    async def end_a_lease(self) -> None:
        partition = self.one.broker.replicas.partitions.get(self.place())
        if partition is not None:
            partition.end_lease()

    async def allow(self) -> None:
        self.one.broker.leases.allow(False)
        for _ in range(3):
            await self.fetch()
        self.one.broker.leases.allow(True)

    async def make_anew(self) -> None:
        broker = self.one.broker
        if PASSING in broker.metadata.topics:
            await self.one.talk(lambda client: client.delete_topic(PASSING))
            await comes_true("its end", lambda: (PASSING, 0) not in broker.replicas.partitions)
        else:
            while PASSING not in broker.metadata.topics:
                with suppress(TopicAlreadyExists):  # its deletion is not at its end
                    partition = await self.one.create(PASSING)
                    await comes_true("its leader", lambda partition=partition: partition.is_leader)


@asynccontextmanager
async def machine(path: Path, monkeypatch: pytest.MonkeyPatch, chosen: int) -> AsyncIterator[Machine]:
    lend = incremental.lend

    def lend_to_one(context: Context, session: FetchSession) -> None:
        if context.call.client_id != TWINS[0]:
            lend(context, session)

    monkeypatch.setattr(incremental, "lend", lend_to_one)
    settings = {name: str(value) for name, value in SETTINGS.items()}
    replicated = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
    async with started(path, monkeypatch, **settings, **replicated) as one:
        await one.create(TOPIC, PARTITIONS)
        await one.create(PASSING)
        found = Machine(one, chosen)
        for writer in found.writers:
            await one.talk(writer.begin)
        await one.talk(lambda client: produce(client, TOPIC, b"plain"))
        try:
            yield found
        finally:
            found.pair.close()


@pytest.mark.parametrize("threads", ["0", "2"])
async def test_answers_in_sessions_are_those_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: str
) -> None:
    monkeypatch.setenv(THREADS, threads)
    chosen, steps = faults.seed(), round(1000 * faults.seconds(1))
    async with machine(tmp_path, monkeypatch, chosen) as found:
        for _ in range(steps):
            with trio.fail_after(2 * PATIENCE_S):
                await found.step()
        # Python's twin asks it each time.
        served = 2 * found.pair.asked - found.one.asked_of[FETCH.key]
        print(found.done, f"the hub has served {served} of {found.pair.asked} Fetches of its twin")
        assert served > 20
