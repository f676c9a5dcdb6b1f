"""One group with members of ours and of other people's clients: every partition is owned once, and every record is read
once while members join and leave and each is the leader in turn.

A member of another client is a process that gets HOST:PORT, topic, group and assignor. It writes lines: `has 0,2` when
its partitions change, `read 17,18` before it commits these records, and `left` at its end, which a line to it asks for.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
import trio

from ottla.client import Admin, Cluster, Consumer, Producer
from ottla.client.groups import Groups
from tests.peers.apache import SCRIPT, environment, need_java
from tests.peers.ottla import Broker, Brokers
from tests.peers.processes import with_parent
from tests.peers.skips import require
from tests.support.waiting import PATIENCE_S

HERE = Path(__file__).parent / "members"
PARTITIONS = 6
_names = itertools.count()

JAVA = ("range", "roundrobin", "sticky", "cooperative-sticky")
#: The assignors that a client offers, which are those of ours too.
OFFERS = {
    "confluent": ("range", "roundrobin", "cooperative-sticky"),
    "kafka-python": ("range", "roundrobin", "sticky"),
    "Java 2.7.2": JAVA,
    "Java 4.3.1": JAVA,
}
MODULES = {"confluent": "confluent_kafka", "kafka-python": "kafka"}
#: The pairs that every run has: the one that rebalances in small steps, and one that gives all back.
SHORT = {("confluent", "cooperative-sticky"), ("Java 2.7.2", "sticky")}


def pairs() -> Iterator[object]:
    for client, assignors in OFFERS.items():
        for assignor in assignors:
            marks = [pytest.mark.java if client.startswith("Java") else pytest.mark.clients]
            if (client, assignor) not in SHORT:
                marks.append(pytest.mark.soak)
            yield pytest.param(client, assignor, id=f"{client}-{assignor}", marks=marks)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Brokers(tmp_path_factory.mktemp("mixed")) as brokers:
        settings = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
        yield brokers(settings=settings)


class Group:
    """The members of one group, as far as they are known, and what was read. Members leave a group that is settled."""

    def __init__(self, broker: Broker, assignor: str, log: Path) -> None:
        self.broker = broker
        self.assignor = assignor
        self.log = log
        self.topic = f"mixed-{next(_names)}"
        self.has: dict[str, set[int]] = {}
        self.read: dict[int, list[str]] = {}
        self.written = 0
        self.changed = trio.Event()

    def note(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    def saw(self, member: str, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.read.setdefault(number, []).append(member)

    async def until(self, what: str, holds: Callable[[], object]) -> None:
        with trio.move_on_after(PATIENCE_S):
            while not holds():
                await self.changed.wait()
            return
        raise AssertionError(f"{what} did not come true: {self.has}, read {len(self.read)} of {self.written}")

    def is_shared(self) -> bool:
        owned = [partition for each in self.has.values() for partition in each]
        return len(owned) == len(set(owned)) == PARTITIONS and all(self.has.values())

    async def is_settled(self) -> None:
        """Partitions are shared, no rebalance goes on, and records that are written now are all read. (A Java member
        that is closed in the middle of a rebalance cannot commit.)
        """
        deadline = trio.current_time() + PATIENCE_S
        async with Cluster(self.broker.bootstrap) as cluster:
            while True:
                await self.until(f"shares of {' and '.join(self.has)}", self.is_shared)
                group = await Groups(cluster).describe(self.topic)
                if group.state == "Stable" and len(group.members) == len(self.has) and self.is_shared():
                    break
                assert trio.current_time() < deadline, (self.has, group)
        until = self.written + 100
        await self.until("records of now", lambda: self.written >= until and all(n in self.read for n in range(until)))

    async def write(self) -> None:
        """Numbers, without end."""
        async with Cluster(self.broker.bootstrap) as cluster, Producer(cluster, linger_ms=0) as producer:
            while True:
                await producer.send(self.topic, b"%d" % self.written, partition=self.written % PARTITIONS)
                self.written += 1
                if self.written % 5 == 0:
                    await producer.flush()
                    await trio.sleep(0.01)

    @asynccontextmanager
    async def ours(self, name: str = "ours") -> AsyncIterator[Consumer]:
        """One of our members, until the end of the block."""
        ends = trio.Event()
        consumers: list[Consumer] = []
        self.has[name] = set()

        async def polls(*, task_status: trio.TaskStatus[None]) -> None:
            async with (
                Cluster(self.broker.bootstrap) as cluster,
                Consumer(
                    cluster,
                    group=self.topic,
                    assignors=[self.assignor],
                    start="earliest",
                    heartbeat_interval_ms=100,
                    wait_ms=50,
                ) as member,
            ):
                consumers.append(member)
                member.subscribe([self.topic])
                task_status.started()
                while not ends.is_set():
                    self.saw(name, [int(record.value or b"") for record in await member.poll()])
                    self.has[name] = {each.partition for each in member.assignment()}
                    self.note()

        async with trio.open_nursery() as nursery:
            await nursery.start(polls)
            yield consumers[0]
            await self.is_settled()
            ends.set()
        del self.has[name]
        self.note()

    @asynccontextmanager
    async def theirs(self, client: str) -> AsyncIterator[None]:
        """A member of another client, until the end of the block."""
        self.has[client] = set()
        arguments = (self.broker.bootstrap, self.topic, self.topic, self.assignor)
        if client.startswith("Java"):
            command = [str(SCRIPT), "java", client.split()[1], str(HERE / "GroupMember.java"), *arguments]
        else:
            file = HERE / f"member_{client.replace('-', '_')}.py"
            command = [sys.executable, "-W", "ignore", str(file), *arguments]
        with self.log.open("ab") as errors:
            # Not by trio: its threads would start it, and it would end with the thread (with_parent).
            process = subprocess.Popen(
                with_parent(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **environment(128)},
            )
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin, process.stdout:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._listen, client, process.stdout.fileno())
                    yield
                    await self.is_settled()
                    process.stdin.write(b"\n")
                    process.stdin.flush()
                with trio.fail_after(PATIENCE_S):
                    code = await trio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
                assert code == 0, self.log.read_text()[-4_000:]
            finally:
                process.kill()
                process.wait()
        del self.has[client]
        self.note()

    async def _listen(self, client: str, output: int) -> None:
        rest = b""
        async with trio.lowlevel.FdStream(os.dup(output)) as stream:
            async for data in stream:
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    word, _, values = line.decode().partition("\t")
                    numbers = [int(value) for value in values.split(",") if value]
                    if word == "read":
                        self.saw(client, numbers)
                    elif word == "has":
                        self.has[client] = set(numbers)
                    else:
                        assert word == "left", line
                        return
                self.note()
        raise AssertionError(f"{client} ended: {self.log.read_text()[-4_000:]}")


def leads(member: Consumer) -> bool:
    return member._member is not None and member._member._counts is not None


def need(client: str) -> None:
    """Skips, or fails where it is required, without what the client needs."""
    if client.startswith("Java"):
        need_java()
    elif find_spec(name := MODULES[client]) is None:
        require("clients", f"{name} is not installed")


def run(group: Group, life: Callable[[Group], object]) -> None:
    async def main() -> None:
        async with Cluster(group.broker.bootstrap) as cluster:
            await Admin(cluster).create_topic(group.topic, PARTITIONS)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group.write)
            await life(group)  # type: ignore[misc]
            nursery.cancel_scope.cancel()
        doubled = {number: readers for number, readers in group.read.items() if len(readers) > 1}
        assert not doubled, "read more than once"

    trio.run(main)


@pytest.mark.parametrize(("client", "assignor"), list(pairs()))
def test_each_leads_in_turn(broker: Broker, tmp_path: Path, client: str, assignor: str) -> None:
    need(client)

    async def life(group: Group) -> None:
        async with group.ours() as first:
            await group.is_settled()
            assert leads(first)
            async with group.theirs(client), group.ours("ours too"):
                await group.is_settled()
                assert leads(first), "the first one leads"
        async with group.theirs(client):
            await group.is_settled()
            async with group.ours() as second, group.ours("ours too"):
                await group.is_settled()
                assert not leads(second), "theirs leads"

    run(Group(broker, assignor, tmp_path / "member.log"), life)


@pytest.mark.soak
@pytest.mark.java
@pytest.mark.clients
@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_all_clients_in_one_group(broker: Broker, tmp_path: Path, assignor: str) -> None:
    for client in OFFERS:
        need(client)

    async def life(group: Group) -> None:
        async with group.theirs("confluent"):
            async with group.ours(), group.theirs("kafka-python"), group.theirs("Java 2.7.2"):
                await group.is_settled()
            await group.is_settled()
        async with group.ours(), group.theirs("confluent"), group.theirs("Java 4.3.1"), group.theirs("kafka-python"):
            await group.is_settled()

    run(Group(broker, assignor, tmp_path / "member.log"), life)
