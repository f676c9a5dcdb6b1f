"""Changes of the set of replicas in sync that leaders propose, and what became of them.

A leader proposes a change and goes on with the larger of both sets (`in_sync.py`) until it is told what is true: by an
answer, by the partition's node in the tree, or by a newer leader epoch. A change whose outcome is unknown may have been
made. So it is never taken back: it is asked for again until the outcome is known. If it were taken back, the high
watermark would not wait any more for a replica that the controller may elect.

How a change is asked for depends on the protocol between brokers: `isr_changes.py`, `isr_writes.py`.
"""

from __future__ import annotations

import abc
import enum
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

import trio

from ottla.coordination import znodes
from ottla.coordination.tree import Tree, TreeError, get_or_none
from ottla.logging_setup import Repeated
from ottla.replication import leading
from ottla.slices import Slices

if TYPE_CHECKING:
    from ottla.kafka import PartitionKey
    from ottla.replication.in_sync import InSync, Proposal
    from ottla.replication.partition import Partition

logger = logging.getLogger("ottla.replicas")

#: Before a change is asked for again, as Kafka's brokers wait.
BACKOFF_MS = 50
#: Before a change that was refused may be proposed anew: a follower proposes one with each of its fetches.
REFUSED_MS = 1000


class Proposed(NamedTuple):
    """A change that a partition wants."""

    partition: Partition
    proposal: Proposal

    @property
    def key(self) -> PartitionKey:
        return self.partition.topic, self.partition.index

    @property
    def is_current(self) -> bool:
        """Whether the partition waits for the outcome. A newer leader epoch overtakes what was proposed before."""
        in_sync = self.partition.in_sync
        return in_sync is not None and in_sync.proposed == self.proposal


class Found(enum.Enum):
    """What the tree says of a partition's state, beside what a proposal is based on."""

    #: It is taken, or another leader epoch that is on its way says it.
    NEWER = enum.auto()
    #: The change was not made, or this broker's server of the tree is behind.
    NOTHING_NEWER = enum.auto()
    UNREADABLE = enum.auto()


class IsrProposals(abc.ABC):
    """The proposals of one broker. What is proposed while others are under way goes with the next ones."""

    def __init__(self, broker_id: int, tree: Tree) -> None:
        self._broker_id = broker_id
        self._tree = tree
        self._proposals: dict[PartitionKey, Proposed] = {}
        self._wake = trio.Event()
        self._troubles = Repeated(logger)
        #: Counted for metrics.
        self.shrinks_total = 0
        self.expansions_total = 0
        self.failures_total = 0

    def propose(self, partition: Partition, proposal: Proposal) -> None:
        """Asks for a change. An older proposal of the partition is not asked for any more."""
        proposed = Proposed(partition, proposal)
        self._proposals[proposed.key] = proposed
        self._wake.set()

    async def run(self) -> None:
        """Asks for what is proposed, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            while True:
                if not self._proposals:
                    self._wake = trio.Event()
                    await self._wake.wait()
                await self._ready()
                proposals, self._proposals = self._proposals, {}
                current, slices = [], Slices(own=True)
                for proposed in proposals.values():
                    await slices.row()
                    if proposed.is_current:
                        current.append(proposed)
                again = await self._send(current) if current else ()
                if again:
                    for proposed in again:
                        self._proposals.setdefault(proposed.key, proposed)
                    await trio.sleep(BACKOFF_MS / 1000)

    async def _ready(self) -> None:
        """Returns when there is somebody to ask."""
        return

    @abc.abstractmethod
    async def _send(self, proposals: list[Proposed]) -> Collection[Proposed]:
        """Asks once for these, and takes the outcomes. Returns those whose outcome is unknown."""

    # --- outcomes ---

    def _is(self, partition: Partition, leader_epoch: int, isr: tuple[int, ...], version: int) -> None:
        """The ISR of a partition, as the controller or the tree says it."""
        before = partition.isr
        if not leading.isr_changed(partition, leader_epoch, isr, version):
            return
        if len(isr) < len(before):
            self.shrinks_total += 1
        else:
            self.expansions_total += 1
        logger.info("%s: in sync are %s now, version %d", partition, ", ".join(map(str, isr)), version)
        self._changed(partition)

    def _changed(self, partition: Partition) -> None:
        """The ISR of a partition is another one now."""
        return

    def _refused(self, proposed: Proposed) -> None:
        """A change was surely not made: nothing waits for it any more. After a while the partition may propose what it
        wants then.
        """
        in_sync = leading.isr_refused(proposed.partition, proposed.proposal)
        if in_sync is not None:
            self._nursery.start_soon(self._allow, in_sync)

    async def _allow(self, in_sync: InSync) -> None:
        await trio.sleep(REFUSED_MS / 1000)
        in_sync.allow()

    async def _look(self, proposed: Proposed) -> Found:
        """Reads the state in the tree, and takes it if it is newer than the one that the proposal is based on."""
        partition, proposal = proposed
        path = znodes.state_path(partition.topic, partition.index)
        try:
            node = await get_or_none(self._tree, path)
            state = None if node is None else znodes.PartitionState.decode(path, node.data)
        except (TreeError, znodes.MalformedNode) as problem:
            self._troubles.log(
                logging.INFO, (path, type(problem).__name__), "%s: its state cannot be read: %s", partition, problem
            )
            return Found.UNREADABLE
        if node is None or state is None or state.leader_epoch > proposal.leader_epoch:
            # The partition is deleted, or another leader epoch is on its way and says what is true.
            return Found.NEWER
        if state.leader_epoch < proposal.leader_epoch or node.stat.version <= proposal.version:
            return Found.NOTHING_NEWER
        self._is(partition, state.leader_epoch, state.isr, node.stat.version)
        return Found.NEWER
