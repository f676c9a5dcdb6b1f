"""The states of partitions: who leads and who is in sync, first in the tree, then in memory, then at the brokers
(Kafka's PartitionStateMachine).

What a state is to be is in `decisions`. Here it is written on condition of the version that is known. Where somebody
else had written meanwhile, that is taken over, and decided on again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from ottla.controller import decisions
from ottla.controller.batches import overlapping
from ottla.controller.channels import Channels
from ottla.controller.decisions import TRANSITIONS, Phase
from ottla.controller.model import Cluster, Partition
from ottla.controller.store import FencedTree, Written
from ottla.controller.unclean_elections import UncleanElections
from ottla.coordination.znodes import PartitionState
from ottla.errors import counted
from ottla.kafka import NO_LEADER, TopicPartition
from ottla.slices import in_slices

logger = logging.getLogger("ottla.controller.controller")


class PartitionStates:
    """Changes the states of the cluster's partitions."""

    def __init__(self, cluster: Cluster, store: FencedTree, channels: Channels, unclean: UncleanElections) -> None:
        self._cluster = cluster
        self._store = store
        self._channels = channels
        self._unclean = unclean

    async def change(self, wanted: Mapping[TopicPartition, PartitionState]) -> set[TopicPartition]:
        """Writes new states on condition of the versions that are known; returns those that are written. What someone
        else had changed meanwhile is taken over instead.
        """
        states = {}
        async for name, state in in_slices(wanted.items()):
            partition = self._cluster.get(name)
            if partition is not None:
                states[name] = state, partition.version
        return set((await self.write(states)).done)

    async def write(self, states: Mapping[TopicPartition, tuple[PartitionState, int]]) -> Written:
        """Writes new states, each on condition of a version of its node. Memory follows: what somebody else had changed
        meanwhile is taken over.
        """
        outcome = Written({}, {})

        async def write(names: Sequence[TopicPartition]) -> None:
            written = await self._store.set_states({name: states[name] for name in names})
            self._take_over(written, {name: states[name][0] for name in names})
            outcome.done.update(written.done)
            outcome.found.update(written.found)

        await overlapping(write, list(states))
        return outcome

    async def lead_anew(self, names: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Has partitions led by the same in the next leader epoch. Returns those whose state is written."""
        states = {}
        async for name in in_slices(names):
            partition = self._cluster.get(name)
            state = None if partition is None else decisions.next_epoch(partition, self._store.epoch)
            if state is not None:
                states[name] = state
        return await self.change(states)

    async def settle(self, names: Sequence[TopicPartition]) -> set[TopicPartition]:
        """Gives each partition the state that fits who is online. Returns those whose state changed."""
        return set().union(*await overlapping(self._settle_piece, names))

    async def availability_changed(self, names: list[TopicPartition]) -> None:
        """Replicas of these partitions can be used no longer, or again: leaders and metadata follow."""
        changed = await self.settle(names)
        batch = self._channels.batch()
        async for name in in_slices(names):
            if name in changed:
                batch.roles_of(name)
            else:
                # Its replicas that are offline now are news all the same.
                batch.metadata_of(name)
        batch.metadata_to(self._cluster.brokers)
        await self._channels.send(batch)

    async def elect_unclean(self, topic: str | None = None) -> None:
        """Replicas that are not in sync may lead: partitions without a leader may get one, of all topics or of one."""
        await self.availability_changed(
            [
                name
                for name, partition in self._cluster.partitions()
                if topic in (None, name.topic) and partition.state is not None and partition.state.leader == NO_LEADER
            ]
        )

    async def _settle_piece(self, names: Iterable[TopicPartition]) -> set[TopicPartition]:
        settled: set[TopicPartition] = set()
        pending = [name for name in names if not self._cluster.is_deleting(name.topic)]
        while pending:
            unclean = await self._unclean.topics_of(pending)
            first: dict[TopicPartition, PartitionState] = {}
            later: dict[TopicPartition, tuple[PartitionState, int]] = {}
            for name in pending:
                partition = self._cluster.get(name)
                if partition is None:
                    continue
                if partition.state is None:
                    online = self._cluster.online(name, partition.replicas)
                    state = decisions.first_state(online, self._store.epoch)
                    if state is not None:
                        first[name] = state
                    continue
                state = self._later_state(name, partition, partition.state, unclean)
                if state is not None:
                    later[name] = (state, partition.version)
            pending = []
            if first:
                written = await self._store.create_states(first)
                for name in written.done:
                    self._cluster.untold[name] = set(self._cluster.topics[name.topic][name.partition].replicas)
                settled |= written.done.keys() | written.found.keys()
                pending += self._take_over(written, first)
            if later:
                written = await self._store.set_states(later)
                settled |= written.done.keys()
                pending += self._take_over(written, {name: state for name, (state, _) in later.items()})
        return settled

    def _later_state(
        self, name: TopicPartition, partition: Partition, state: PartitionState, unclean: Collection[str]
    ) -> PartitionState | None:
        """The state of a partition that has one, by who is online. None if it stays."""
        cluster = self._cluster
        if cluster.is_unheard(name, state.leader):
            return None
        online = cluster.online(name, partition.replicas)
        if state.leader not in online:
            online = [broker for broker in online if not cluster.is_unheard(name, broker)]
        return decisions.after_replicas_left(
            partition,
            online,
            self._store.epoch,
            leaving=cluster.leaving_with(name),
            # Those that may have lost records have the most all the same, and find out who leads.
            unclean=name.topic in unclean and not cluster.suspected(name),
        )

    def _take_over(self, written: Written, wanted: Mapping[TopicPartition, PartitionState]) -> list[TopicPartition]:
        """Memory follows the tree. Returns the partitions to decide on again, because someone else had written."""
        unclean = 0
        for name, version in written.done.items():
            partition = self._cluster.get(name)
            if partition is None:
                continue
            before, after = Phase.of(partition.state), Phase.of(wanted[name])
            assert after in TRANSITIONS[before], f"{name} cannot go from {before.value} to {after.value}"
            if decisions.is_unclean(partition, wanted[name]):
                unclean += 1
                assert partition.state is not None
                logger.warning(
                    "%s: broker %d leads and was not in sync: what only brokers %s had is lost",
                    name,
                    wanted[name].leader,
                    ", ".join(map(str, partition.state.isr)),
                )
            self._cluster.set_state(name, wanted[name], version)
        if unclean:
            self._unclean.count(unclean)
            are = counted(unclean, "partition is", "partitions are")
            logger.warning("%s now led by a replica that was not in sync", are)
        for name, (state, version) in written.found.items():
            self._cluster.set_state(name, state, version)
        return list(written.found)
