"""An internal topic on real logs, without a broker around it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from ottla import _core
from ottla.config import BrokerConfig
from ottla.coordination.tree import Tree
from ottla.net import Server
from ottla.replication.belonging import Belonging
from ottla.replication.delayed import Deadlines
from ottla.replication.internal_topic import InternalTopic, LoadedBatch
from ottla.replication.leases import Leases
from ottla.replication.log_manager import LogManager
from ottla.replication.replicas import Replicas
from ottla.replication.roles import PartitionState
from ottla.replication.turn import Turn
from ottla.replication.unclean_start import UncleanStart
from tests.support.log_manager import Settings

ME = 1
NAME = "__consumer_offsets"


@dataclass
class Opened:
    replicas: Replicas
    topic: InternalTopic
    deadlines: Deadlines
    turn: Turn
    created: list[str]

    async def apply(self, index: int, epoch: int, *, leader: int = ME) -> None:
        replicas = tuple({ME, leader})
        await self.replicas.apply(NAME, {index: PartitionState(1, leader, epoch, (leader,), replicas, 0)})

    async def everything(self, index: int) -> list[LoadedBatch]:
        return [batch async for batch in self.topic.load(index)]


@asynccontextmanager
async def opened(
    path: Path,
    *,
    in_turns: bool = False,
    load_bytes: int = 1 << 20,
    required_acks: int = -1,
    unclean_start: UncleanStart | None = None,
    tree: Tree | None = None,
    **settings: str,
) -> AsyncIterator[Opened]:
    config = BrokerConfig.load(None, {"log.dirs": str(path), **settings})
    async with LogManager.open(config) as logs, trio.open_nursery() as nursery:
        await logs.load(Settings(config))
        server = Server(_core.Hub(supported={}))
        belonging = None if tree is None else Belonging(ME, tree, logs)
        replicas = Replicas(ME, logs, server, unclean_start=unclean_start, belonging=belonging)
        deadlines = Deadlines()
        turn = Turn(replicas, Leases(server.hub, 1 << 20), deadlines)
        created: list[str] = []

        async def create() -> None:
            created.append(NAME)

        topic = InternalTopic(
            NAME,
            replicas=replicas,
            server=server,
            deadlines=deadlines,
            partition_count=lambda: 50,
            create=create,
            append_timeout_ms=5_000,
            turn=turn if in_turns else None,
            load_bytes=load_bytes,
            required_acks=required_acks,
        )
        nursery.start_soon(server.run, lambda request: None)
        nursery.start_soon(deadlines.run)
        turn.is_open = in_turns
        yield Opened(replicas, topic, deadlines, turn, created)
        nursery.cancel_scope.cancel()
