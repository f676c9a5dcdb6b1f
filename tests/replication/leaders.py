"""Partitions that a broker leads, on real logs, and the tree in which their states are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ottla import _core
from ottla._core import Follower
from ottla.coordination import znodes
from ottla.coordination.embedded import EmbeddedStore
from ottla.coordination.tree import Tree
from ottla.replication import leading
from ottla.replication.in_sync import Proposal
from ottla.replication.owner import Unowned
from ottla.replication.partition import Partition
from ottla.replication.roles import PartitionState

ME, SECOND, THIRD = 1, 2, 3
REPLICAS: tuple[int, ...] = (ME, SECOND, THIRD)
EPOCH, CONTROLLER_EPOCH = 4, 7
LAG_MS = 10_000


@dataclass
class Led(Unowned):
    """Partitions of topic t, of replicas 1, 2 and 3, all in sync."""

    tree: Tree
    directory: _core.LogDirectory
    propose: Callable[[Partition, Proposal], None] = lambda partition, proposal: None
    partitions: list[Partition] = field(default_factory=list)

    async def lead(self, count: int = 1) -> list[Partition]:
        for log in self.directory.create(
            "t", list(range(len(self.partitions), len(self.partitions) + count)), _core.LogConfig()
        ):
            partition = Partition("t", log.partition, ME, log, self)
            await self.tree.ensure(znodes.state_path("t", log.partition))
            self.appoint(partition, await self.write(log.partition))
            self.partitions.append(partition)
        return self.partitions[-count:]

    def appoint(
        self, partition: Partition, version: int, *, epoch: int = EPOCH, isr: tuple[int, ...] = REPLICAS
    ) -> None:
        """The controller makes this broker leader, by a state with this version in the tree."""
        partition.apply(PartitionState(CONTROLLER_EPOCH, ME, epoch, isr, REPLICAS, version))

    async def write(self, index: int, *, leader: int = ME, epoch: int = EPOCH, isr: tuple[int, ...] = REPLICAS) -> int:
        """Writes a state into the tree, and returns its version."""
        state = znodes.PartitionState(leader, epoch, isr, CONTROLLER_EPOCH)
        return (await self.tree.set(znodes.state_path("t", index), state.encode())).version

    async def state(self, index: int) -> tuple[znodes.PartitionState, int]:
        """The state in the tree, and its node's version."""
        path = znodes.state_path("t", index)
        node = await self.tree.get(path)
        return znodes.PartitionState.decode(path, node.data), node.stat.version


def lag(partition: Partition, *followers: int) -> None:
    """These followers are behind for too long, and the others are not."""
    assert partition.in_sync is not None
    end = partition.log.end_offset
    followers_of = partition.in_sync.followers
    for replica in followers_of:
        one = followers_of[replica] = Follower(None)
        if replica not in followers:
            one.fetched(end, 0, end, 0)
    leading.look_at_followers(partition, LAG_MS - 1, LAG_MS)


def fetch(partition: Partition, follower: int) -> None:
    """A follower has all that there is."""
    end = partition.log.end_offset
    assert leading.followed(partition, follower, end, 0, end, 0)


def waits(partition: Partition) -> bool:
    """True if a change of the ISR is under way, as far as the leader knows."""
    return partition.in_sync is not None and partition.in_sync.proposed is not None


@asynccontextmanager
async def led(path: Path) -> AsyncIterator[Led]:
    directory = _core.LogDirectory.open(path)
    store = await EmbeddedStore.open(str(path / "tree"))
    try:
        async with await store.session() as tree:
            await tree.ensure(znodes.ISR_CHANGES)
            yield Led(tree, directory)
    finally:
        await store.aclose()
        directory.close(clean=True)
