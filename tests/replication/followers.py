"""A broker's followers on real logs, without a broker around them: their leaders and fetchers are scripted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from ottla._core import Log, PartitionToFetch, ReplicationQuota
from ottla.broker.metadata_cache import BrokerMetadata, MetadataCache
from ottla.config import BrokerConfig
from ottla.errors import KafkaError
from ottla.net import Server
from ottla.peers import Address, Fetchers, Peers
from ottla.peers import fetchers as module
from ottla.replication.following import Following
from ottla.replication.log_manager import LogManager
from ottla.replication.owner import Unowned
from ottla.replication.partition import Partition
from ottla.replication.roles import PartitionState
from ottla.replication.truncation import Truncation
from tests.net.support import batch
from tests.support.log_manager import Settings
from tests.support.waiting import comes_true

ME, LEADER, OTHER = 2, 1, 3
EPOCH = 4
BACKOFF_S = 1.0


def fill(log: Log, *epochs: int) -> None:
    """Appends one record of each of these leader epochs."""
    for epoch in epochs:
        if epoch != log.leader_epoch:
            log.begin_epoch(epoch)
        log.append_bytes(batch(b"%d" % epoch), epoch)


@dataclass
class Event:
    """As a native fetcher reports it."""

    kind: str
    partition: int = 0
    leader_epoch: int = EPOCH
    code: int = 0
    epoch: int = -1
    offset: int = -1
    topic: str = "t"
    message: str = "as the test says"


class ScriptedFetcher:
    """In place of the native one: notes what it is given, and reports what it is told to."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.has: dict[tuple[str, int], int] = {}
        self.adds: list[tuple[int, int]] = []
        #: Partitions whose replicas a reassignment adds.
        self.moved: set[int] = set()
        #: Partitions that are fetched without comparing epochs.
        self.agreed: set[int] = set()
        self.is_closed = False
        self._events: list[Event] = []

    def add(self, rows: list[PartitionToFetch], *, is_move: bool = False, is_agreed: bool = False) -> None:
        assert not self.is_closed
        for row in rows:
            index = row.partition
            self.has[row.topic, index] = row.leader_epoch
            (self.moved.add if is_move else self.moved.discard)(index)
            (self.agreed.add if is_agreed else self.agreed.discard)(index)
            self.adds.append((index, row.leader_epoch))

    def remove(self, keys: list[tuple[str, int]]) -> None:
        for key in keys:
            del self.has[key]

    def events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        self.is_closed = True
        self.has.clear()


class ScriptedServer:
    """The part of a server that fetchers need."""

    def __init__(self) -> None:
        self.token = count(1).__next__
        self.hub = SimpleNamespace(completions=None)
        self.listening: dict[int, Callable[[object, BaseException | None], None]] = {}

    def listen_to(self, token: int, callback: Callable[[object, BaseException | None], None]) -> None:
        self.listening[token] = callback

    def forget(self, token: int) -> None:
        del self.listening[token]


class ScriptedPeers:
    """Answers with what is next in `answers`: a message, an exception, or a callable that is given the question."""

    def __init__(self, address: Address = lambda _: None) -> None:
        self.address = address
        self.asked: list[tuple[int, str, Any, int]] = []
        self.answers: list[Any] = []
        #: Held back while it is not set.
        self.may_answer = trio.Event()
        self.may_answer.set()

    async def call(self, broker: int, api: Any, message: Any, version: int) -> Any:
        self.asked.append((broker, api.name, message, version))
        # What cannot be written in this version is an error of the asker.
        api.encode_request(version, message)
        await self.may_answer.wait()
        answer = self.answers.pop(0)
        if callable(answer):
            answer = answer(message)
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class Stand(Unowned):
    following: Following
    logs: LogManager
    cache: MetadataCache
    peers: ScriptedPeers
    server: ScriptedServer
    #: Gives the broker other settings.
    change: Callable[..., None]
    fetchers: list[ScriptedFetcher] = field(default_factory=list)
    partitions: dict[int, Partition] = field(default_factory=dict)
    cuts: list[Truncation] = field(default_factory=list)
    storage_errors: list[tuple[Partition, BaseException]] = field(default_factory=list)
    #: Called when a log failed, after it was noted.
    on_storage_error: Callable[[Partition], None] = lambda partition: None
    #: Cuts wait for it.
    may_cut: trio.Event = field(default_factory=trio.Event)
    is_cutting: bool = False
    #: The errors with which cuts end, if not with a cut.
    instead: list[KafkaError] = field(default_factory=list)

    async def log(self, index: int) -> Log:
        if ("t", index) not in self.logs.logs:
            await self.logs.open_or_create("t", [index], [index])
        return self.logs.logs["t", index]

    async def follow(
        self, index: int, *records: int, epoch: int = EPOCH, leader: int = LEADER, adding: tuple[int, ...] = ()
    ) -> Partition:
        """Follows a leader, with a log that has a record of each of these epochs more than it had. A reassignment adds
        the replicas of `adding`.
        """
        log = await self.log(index)
        fill(log, *records)
        partition = self.partitions.get(index)
        if partition is None:
            partition = self.partitions[index] = Partition("t", index, ME, log, self)
        partition.apply(PartitionState(1, leader, epoch, (leader,), (leader, ME), 0, adding))
        await self.logs.follow({("t", index): epoch})
        self.following.follow(partition)
        return partition

    def is_at(self, broker: int, port: int | None) -> None:
        """A broker listens here from now on, or nowhere."""
        brokers = {other: at for other, at in self.cache.brokers.items() if other != broker}
        if port is not None:
            brokers[broker] = BrokerMetadata(broker, None, {"PLAINTEXT": ("127.0.0.1", port)})
        self.cache.brokers = brokers
        self.cache.changed()

    async def truncate(self, cuts: list[Truncation]) -> list[KafkaError | None]:
        self.is_cutting = True
        await self.may_cut.wait()
        self.cuts.extend(cuts)
        if self.instead:
            return [self.instead.pop(0) for _ in cuts]
        errors = await self.logs.truncate(cuts)
        self.is_cutting = False
        return errors

    def storage_error(self, partition: Partition, error: BaseException) -> None:
        self.storage_errors.append((partition, error))
        self.on_storage_error(partition)

    def tell(self, *events: Event, fetcher: int = 0) -> None:
        """A fetcher reports these."""
        one = self.fetchers[fetcher]
        one._events.extend(events)
        callback = self.server.listening.get(one.settings["token"])
        if callback is not None:
            callback(None, None)

    def adds(self, fetcher: int = 0) -> list[tuple[int, int]]:
        """Which partitions came to a fetcher, with the leader epoch of each, in their order."""
        return self.fetchers[fetcher].adds if fetcher < len(self.fetchers) else []

    def fetched(self) -> dict[int, int]:
        """Which partitions fetchers have now, with the leader epoch of each. No two have the same."""
        # Partitions come and go on another thread.
        have = [item for fetcher in self.fetchers for item in fetcher.has.copy().items()]
        assert len({key for key, _ in have}) == len(have)
        return {index: epoch for (_, index), epoch in have}

    async def until(self, condition: Callable[[], Any]) -> None:
        await comes_true("the condition of the test", condition)

    async def settled(self) -> None:
        """Returns when all that was begun has come to its end, except for what waits for a time."""
        for _ in range(3):
            await trio.testing.wait_all_tasks_blocked()
            await self.until(lambda: not self.following._moving.locked() or not self.may_cut.is_set())


@asynccontextmanager
async def following(path: Path, monkeypatch: pytest.MonkeyPatch, **settings: str) -> AsyncIterator[Stand]:
    """Followers whose leader is broker 1 at port 9001, unless the test moves it."""
    config = BrokerConfig.load(None, {"log.dirs": str(path), **settings})
    fetchers: list[ScriptedFetcher] = []

    def change(**other: str) -> None:
        nonlocal config
        config = BrokerConfig.load(None, {"log.dirs": str(path), **settings, **other})

    def fetcher(**settings: Any) -> ScriptedFetcher:
        fetchers.append(ScriptedFetcher(**settings))
        return fetchers[-1]

    monkeypatch.setattr(module, "Fetcher", fetcher)
    server, cache = ScriptedServer(), MetadataCache()
    peers = ScriptedPeers(lambda broker: cache.address(broker, "PLAINTEXT"))
    async with LogManager.open(config) as logs, trio.open_nursery() as nursery:
        await logs.load(Settings(config))
        stand: Stand
        one = Following(
            ME,
            cast("Server", server),
            cast("Peers", peers),
            Fetchers(ME, lambda: config, ReplicationQuota(11, 1), server.hub.completions),
            lambda: config,
            address_known=cache.wait_until,
            truncate=lambda cuts: stand.truncate(cuts),
        )
        stand = Stand(one, logs, cache, peers, server, change, fetchers)
        stand.may_cut.set()
        stand.is_at(LEADER, 9001)
        nursery.start_soon(one.run)
        yield stand
        nursery.cancel_scope.cancel()
    assert all(each.is_closed for each in fetchers)
    assert not server.listening


def keys(indexes: Iterable[int]) -> list[tuple[str, int]]:
    return [("t", index) for index in indexes]
