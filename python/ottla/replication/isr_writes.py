"""The place of the AlterIsrManager before inter-broker protocol 2.7-IV2, which has AlterIsr: leaders write changes of
the set of replicas in sync into the tree themselves.

A write is on condition of the version of the partition's node that the leader knows. The state keeps the epoch of the
controller that appointed the leader, as Kafka's leaders have it. An answer may be lost after the write was made. The
next try finds a newer version then, and the node says whose it is.

The controller does not watch those nodes. So brokers leave it a list of the partitions that they changed
(`/isr_change_notification`), some time after the last change: when many replicas come and go, it is one list.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

import trio

from ottla.coordination import znodes
from ottla.coordination.tree import BadVersion, NoNode, Tree, TreeError
from ottla.kafka import TopicPartition
from ottla.replication.isr_proposals import Found, IsrProposals, Proposed, logger

if TYPE_CHECKING:
    from ottla.replication.partition import Partition

#: Writes under way.
WRITES_MAX = 100
#: The controller is told when nothing has changed for so long, or when it was told nothing for so long (Kafka's
#: `ReplicaManager.IsrChangePropagationBlackOut` and `...Interval`).
QUIET_S, SILENCE_S = 5.0, 60.0
#: Before the controller is told again, if it could not be.
AGAIN_S = 1.0
#: Partitions in one list; a node of ZooKeeper has at most 1 MB.
LISTED_MAX = 2000


class IsrWrites(IsrProposals):
    """The proposals of one broker."""

    def __init__(self, broker_id: int, tree: Tree) -> None:
        super().__init__(broker_id, tree)
        #: The partitions that the controller is to be told of.
        self._untold: dict[TopicPartition, None] = {}
        self._any_untold = trio.Event()
        self._changed_at = 0.0

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(super().run)
            nursery.start_soon(self._tell)

    def _changed(self, partition: Partition) -> None:
        self._untold[TopicPartition(partition.topic, partition.index)] = None
        self._changed_at = trio.current_time()
        self._any_untold.set()

    async def _send(self, proposals: list[Proposed]) -> Collection[Proposed]:
        again: list[Proposed] = []
        limit = trio.CapacityLimiter(WRITES_MAX)

        async def write(proposed: Proposed) -> None:
            async with limit:
                if not await self._write(proposed):
                    again.append(proposed)

        async with trio.open_nursery() as nursery:
            for proposed in proposals:
                nursery.start_soon(write, proposed)
        return again

    async def _write(self, proposed: Proposed) -> bool:
        """False if the outcome is unknown."""
        partition, proposal = proposed
        if not proposed.is_current or partition.state is None:
            return True
        path = znodes.state_path(partition.topic, partition.index)
        epoch, isr = proposal.leader_epoch, proposal.isr
        state = znodes.PartitionState(self._broker_id, epoch, isr, partition.state.controller_epoch)
        try:
            if proposal.version < 0:  # to the tree it would mean any version
                raise BadVersion(path)
            stat = await self._tree.set(path, state.encode(), proposal.version)
        except BadVersion:
            is_known = await self._look(proposed) is Found.NEWER
            self.failures_total += is_known and partition.isr != isr
            return is_known
        except NoNode:
            self.failures_total += 1
            logger.info("%s: the ISR stays as it is: the partition is being deleted", partition)
            return True
        except TreeError as problem:
            reason = (path, type(problem).__name__)
            message = "%s: nobody knows whether its ISR was written, it is tried again: %s"
            self._troubles.log(logging.INFO, reason, message, partition, problem)
            return False
        self._is(partition, epoch, isr, stat.version)
        return True

    async def _tell(self) -> None:
        """Leaves lists of what has changed for the controller, until cancelled."""
        told_at = trio.current_time()
        while True:
            if not self._untold:
                self._any_untold = trio.Event()
                await self._any_untold.wait()
            while trio.current_time() < (due := min(self._changed_at + QUIET_S, told_at + SILENCE_S)):
                await trio.sleep_until(due)
            names = [*self._untold][:LISTED_MAX]
            for name in names:
                del self._untold[name]
            try:
                await self._leave(names)
            except TreeError as problem:
                self._troubles.log(logging.INFO, type(problem).__name__, "the controller is not told: %s", problem)
                self._untold.update(dict.fromkeys(names))
                await trio.sleep(AGAIN_S)
            else:
                told_at = trio.current_time()

    async def _leave(self, names: list[TopicPartition]) -> None:
        """Leaves one list. After a lost answer the controller may find it twice, and looks twice."""
        path, data = f"{znodes.ISR_CHANGES}/isr_change_", znodes.encode_isr_change(names)
        try:
            await self._tree.create(path, data, sequential=True)
        except NoNode:
            await self._tree.ensure(znodes.ISR_CHANGES)
            await self._tree.create(path, data, sequential=True)
