"""The AlterIsrManager: leaders ask the controller to change the set of replicas in sync (AlterIsr, KIP-497).

One request is under way at a time. It is given up when another broker becomes the controller: the old one may be silent
for as long as it likes.

A refusal for a newer version may mean that the change was made and its answer was lost. The partition's node in the
tree tells, and the leader takes from there what is true.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING

import trio

from ottla.coordination.tree import Tree, TreeError
from ottla.errors import (
    FencedLeaderEpoch,
    InvalidRequest,
    InvalidUpdateVersion,
    OperationNotAttempted,
    ProtocolError,
    UnknownTopicOrPartition,
    error,
)
from ottla.replication import leading
from ottla.replication.isr_proposals import Found, IsrProposals, Proposed
from ottla.slices import Slices
from ottla.wire.k56_alter_isr import (
    ALTER_ISR,
    AlterIsrRequest,
    AlterIsrRequestPartition,
    AlterIsrRequestTopic,
    AlterIsrResponse,
    AlterIsrResponsePartition,
)

if TYPE_CHECKING:
    from ottla.peers import Peers

VERSION = 0

#: The leader is in error about its partition. A request for another leader epoch should be on its way.
_IN_ERROR = frozenset({FencedLeaderEpoch.code, UnknownTopicOrPartition.code, InvalidRequest.code})
#: Kafka's INELIGIBLE_REPLICA, which 2.7 does not have.
_INELIGIBLE_REPLICA = 107
#: A replica's broker is dead or shutting down. The controller has changed nothing. (Kafka's since 3.2 say so; ours
#: answers with the state as it is.)
_REFUSED = frozenset({OperationNotAttempted.code, _INELIGIBLE_REPLICA})


class IsrChanges(IsrProposals):
    """The proposals of one broker.

    `controller` says which broker is the controller now (-1: none is known), `broker_epoch` this broker's own epoch.
    `told` returns once what it is given is true, and asks that when the controller may be another one.
    """

    def __init__(
        self,
        broker_id: int,
        peers: Peers,
        tree: Tree,
        *,
        controller: Callable[[], int],
        told: Callable[[Callable[[], bool]], Awaitable[None]],
        broker_epoch: Callable[[], int],
    ) -> None:
        super().__init__(broker_id, tree)
        self._peers = peers
        self._controller = controller
        self._told = told
        self._broker_epoch = broker_epoch

    async def _ready(self) -> None:
        await self._told(lambda: self._controller() != -1)

    async def _send(self, proposals: list[Proposed]) -> Collection[Proposed]:
        try:
            answer = await self._call(await self._request(proposals))
        except (OSError, ProtocolError) as problem:
            self._trouble("the controller does not answer a change of replicas in sync", problem)
            return proposals
        if answer is None:
            return proposals
        if answer.error_code:
            # Another broker is the controller, or this one is registered anew.
            self._trouble("the controller refuses changes of replicas in sync", error(answer.error_code))
            return proposals
        return await self._answered(proposals, answer)

    def _trouble(self, what: str, problem: Exception) -> None:
        self._troubles.log(logging.INFO, (what, str(problem)), "%s, they are sent again: %s", what, problem)

    async def _call(self, request: AlterIsrRequest) -> AlterIsrResponse | None:
        """Sends a request to the controller. None if another broker becomes the controller before it answers."""
        controller = self._controller()
        answer: AlterIsrResponse | None = None
        problem: OSError | ProtocolError | None = None
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                await self._told(lambda: self._controller() != controller)
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            try:
                answer = await self._peers.call(controller, ALTER_ISR, request, VERSION)
            except (OSError, ProtocolError) as raised:
                problem = raised
            nursery.cancel_scope.cancel()
        if problem is not None:
            raise problem
        return answer

    async def _request(self, proposals: list[Proposed]) -> AlterIsrRequest:
        topics: dict[str, AlterIsrRequestTopic] = {}
        slices = Slices(own=True)
        for partition, proposal in proposals:
            await slices.row()
            row = AlterIsrRequestPartition(
                partition_index=partition.index,
                leader_epoch=proposal.leader_epoch,
                new_isr=list(proposal.isr),
                current_isr_version=proposal.version,
            )
            topics.setdefault(partition.topic, AlterIsrRequestTopic(name=partition.topic)).partitions.append(row)
        return AlterIsrRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    async def _answered(self, proposals: list[Proposed], answer: AlterIsrResponse) -> Collection[Proposed]:
        """Takes the answer, row by row. Returns those of which it does not say whether the change was made."""
        rows = {(topic.name, row.partition_index): row for topic in answer.topics for row in topic.partitions}
        again = []
        slices = Slices(own=True)
        for proposed in proposals:
            await slices.row()
            row = rows.get(proposed.key)
            if row is None or row.error_code:
                self.failures_total += 1
            if row is None:
                again.append(proposed)
            elif not row.error_code:
                self._take(proposed, row)
            elif row.error_code == InvalidUpdateVersion.code:
                if await self._look(proposed) is not Found.NEWER:
                    again.append(proposed)
            elif row.error_code in _IN_ERROR:
                if not await self._corrected(proposed, error(row.error_code).name):
                    again.append(proposed)
            else:
                self._log_refusal(proposed, error(row.error_code).name)
                if row.error_code in _REFUSED:
                    self._refused(proposed)
                else:
                    again.append(proposed)
        return again

    async def _corrected(self, proposed: Proposed, reason: str) -> bool:
        """The controller says that the proposal is wrong. Either the tree has a newer state, or the change was not made
        and the partition may propose anew after a while: it would wait for ever for a leader epoch that nobody begins.
        False if nobody can say now.
        """
        message = "%s: the controller says that the change of its ISR is wrong: %s"
        self._troubles.log(logging.INFO, (proposed.key, reason), message, proposed.partition, reason)
        try:
            # After this, a server of the tree that is behind does not hide that the change was made.
            await self._tree.sync()
        except TreeError:
            return False
        found = await self._look(proposed)
        if found is Found.NOTHING_NEWER:
            self._refused(proposed)
        return found is not Found.UNREADABLE

    def _take(self, proposed: Proposed, row: AlterIsrResponsePartition) -> None:
        partition, proposal = proposed
        self._is(partition, row.leader_epoch, tuple(row.isr), row.current_isr_version)
        if not proposed.is_current or (row.leader_epoch, row.current_isr_version) != (
            proposal.leader_epoch,
            proposal.version,
        ):
            return
        # The state is the one that is known.
        if set(row.isr) == set(proposal.isr):
            leading.isr_not_changed(partition, proposal)
        else:
            self.failures_total += 1
            self._log_refusal(proposed, "a replica may not join")
            self._refused(proposed)

    def _log_refusal(self, proposed: Proposed, reason: str) -> None:
        message = "%s: the ISR stays as it is for now: %s"
        self._troubles.log(logging.INFO, (proposed.key, reason), message, proposed.partition, reason)
