"""Brokers that come, leave, change what they say of themselves, or are positively gone while their sessions live.

A registration in `/brokers/ids` is what makes a broker one of the cluster. Its epoch, the czxid of the node, says which
life of the broker it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.controller.away import AwayBrokers
from ottla.controller.channels import Channels
from ottla.controller.deletions import Deletions
from ottla.controller.early_removal import remove_registration
from ottla.controller.events import BrokerChange, BrokerModifications, Events, UncleanLeaderElectionEnable
from ottla.controller.left_out import LeftOut
from ottla.controller.model import Broker, Cluster
from ottla.controller.moves import Moves
from ottla.controller.neighbours import Proof
from ottla.controller.partition_states import PartitionStates
from ottla.controller.relapses import Relapses
from ottla.controller.requests import RequestBatch
from ottla.controller.store import FencedTree
from ottla.controller.unclean_elections import UncleanElections
from ottla.coordination import znodes
from ottla.coordination.znodes import BrokerRegistration, MalformedNode
from ottla.slices import in_slices

logger = logging.getLogger("ottla.controller.controller")


class Brokers:
    """The brokers of the cluster. `proof` is the proof that a broker's process is gone, if there is one now."""

    def __init__(
        self,
        cluster: Cluster,
        store: FencedTree,
        states: PartitionStates,
        channels: Channels,
        moves: Moves,
        deletions: Deletions,
        relapses: Relapses,
        unclean: UncleanElections,
        away: AwayBrokers,
        events: Events,
        left_out: LeftOut,
        proof: Callable[[int], Proof | None],
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._states = states
        self._channels = channels
        self._moves = moves
        self._deletions = deletions
        self._relapses = relapses
        self._unclean = unclean
        self._away = away
        self._events = events
        self._left_out = left_out
        self._proof = proof
        #: Brokers whose registration is removed just now.
        self._removed: set[int] = set()

    async def remove_gone(self, gone: Mapping[int, int]) -> None:
        """Before the cluster is read: else every broker is told first that processes lead that are gone, and hears who
        leads instead only when it has taken all of that. `gone` are epochs by broker.
        """
        for broker_id, epoch in [*gone.items()]:
            await remove_registration(self._store, broker_id, epoch)

    async def read_all(self) -> None:
        """Takes over all brokers of the tree, and tells nobody."""
        self._cluster.brokers = await self._read_registered()
        for broker in self._cluster.brokers.values():
            self._channels.open(broker)

    async def look(self) -> None:
        """Brokers may have come, left, or changed."""
        now = await self._read_registered()
        known = self._cluster.brokers
        # A broker that came back under the same id between two looks did both: it left, and another process came.
        left = [id for id, broker in known.items() if id not in now or now[id].epoch != broker.epoch]
        came = [id for id, broker in now.items() if id not in known or known[id].epoch != broker.epoch]
        if left:
            await self._left(left)
        if came:
            await self._came([now[id] for id in came])
        # Only now: a broker that did both is asked again.
        await self._moves.end()
        await self._changed(now)

    async def look_at(self, broker: int) -> None:
        """A broker changed what it says of itself. That it left or came is another event."""
        await self._changed(await self._read([broker]))

    async def gone(self, broker_id: int, epoch: int) -> None:
        """A process is positively gone: its registration goes before its session ends."""
        known, proof = self._cluster.brokers.get(broker_id), self._proof(broker_id)
        if known is not None and known.epoch == epoch and proof is not None and proof.epoch == epoch:
            self._unclean.put_off()
            self._removed.add(broker_id)
            await remove_registration(self._store, broker_id, epoch)
            await self.look()
            # If it has said something new of itself, it lives.
            self._removed.discard(broker_id)

    async def epoch_of(self, broker: int, epoch: int) -> int | None:
        """The epoch that a broker has now. Looks again if it may be newer than known, by `epoch`, which it names
        itself. None: it is not registered.
        """
        known = self._cluster.brokers.get(broker)
        if known is None or known.epoch < epoch:
            # Its request was quicker than the watch.
            await self.look()
            known = self._cluster.brokers.get(broker)
        return None if known is None else known.epoch

    async def strangers(self, brokers: Iterable[int]) -> set[int]:
        """Those of the brokers whose registration is gone, or not the one that is known; by a fresh look."""
        ids = sorted(brokers)
        nodes = await self._store.tree.get_many([znodes.broker_path(broker_id) for broker_id in ids])
        strangers = set()
        for broker_id, node in zip(ids, nodes, strict=True):
            known = self._cluster.brokers.get(broker_id)
            if known is None or node is None or node.stat.czxid != known.epoch:
                strangers.add(broker_id)
        if strangers:
            await self.look()
        return strangers

    async def _read_registered(self) -> dict[int, Broker]:
        ids = []
        for name in await self._store.tree.children(znodes.BROKER_IDS, self._events.watch(BrokerChange())):
            try:
                ids.append(znodes.broker_of(name))
            except MalformedNode as error:
                self._left_out.say("a broker", error)
        return await self._read(ids)

    async def _read(self, ids: Sequence[int]) -> dict[int, Broker]:
        """Those of the brokers that are registered, and whose registration can be understood."""
        paths = [znodes.broker_path(broker_id) for broker_id in ids]
        watches = [self._events.watch(BrokerModifications(broker_id)) for broker_id in ids]
        nodes = await self._store.tree.get_many(paths, watches)
        brokers = {}
        for broker_id, path, node in zip(ids, paths, nodes, strict=True):
            if node is None:
                continue
            try:
                registration = BrokerRegistration.decode(path, node.data)
            except MalformedNode as error:
                self._left_out.say("a broker", error)
            else:
                brokers[broker_id] = Broker.of(broker_id, node.stat.czxid, registration)
        return brokers

    async def _left(self, left: list[int]) -> None:
        logger.info("brokers left: %s", left)
        cluster = self._cluster
        is_named_on = self._removed | cluster.leaving
        self._away.name_on((cluster.brokers[broker], None) for broker in left if broker in is_named_on)
        for broker in left:
            del cluster.brokers[broker]
            self._removed.discard(broker)
            cluster.leaving.discard(broker)
            cluster.failed_replicas.pop(broker, None)
            self._relapses.forget(broker)
            cluster.unheard.pop(broker, None)
            self._channels.close(broker)
            cluster.endings.broker_left(broker)
            for deletion in cluster.deletions.values():
                deletion.broker_left(broker)
        await self._states.availability_changed(cluster.on_brokers(left))

    async def _came(self, came: list[Broker]) -> None:
        logger.info("brokers came: %s", [broker.id for broker in came])
        cluster = self._cluster
        for broker in came:
            cluster.brokers[broker.id] = broker
            cluster.away.pop(broker.id, None)
            self._channels.open(broker)
            for deletion in cluster.deletions.values():
                deletion.broker_came(broker.id)
        ids = {broker.id for broker in came}
        batch = self._channels.batch()
        batch.metadata_to(cluster.brokers.keys() - ids)
        await self._channels.send(batch)
        batch = self._channels.batch()
        async for name, partition in in_slices(cluster.partitions()):
            batch.metadata(name, partition, deleted=cluster.is_deleting(name.topic))
        batch.metadata_to(ids)
        await self._channels.send(batch)

        names = cluster.on_brokers(ids)
        asked = cluster.suspect(came)
        asked |= await self._states.settle(names)
        batch = self._channels.batch()
        async for name in in_slices(names):
            batch.roles_of(name, only=None if name in asked else ids)
        for broker in came:
            self._ask_again(batch, broker.id)
        await self._channels.send(batch)
        await self._deletions.advance()

    def _ask_again(self, batch: RequestBatch, broker: int) -> None:
        """A broker that came back is to delete what left it meanwhile, while the tree says so still."""
        endings = self._cluster.endings
        for name in endings.left_by(broker):
            partition = self._cluster.get(name)
            if partition is not None and partition.state is not None:
                batch.stop(name, [broker], partition.state.leader_epoch, delete=True)
                endings.asked_again(name, broker)

    async def _changed(self, now: Mapping[int, Broker]) -> None:
        known = self._cluster.brokers
        changed = [
            broker
            for broker in now.values()
            if broker.id in known and broker != known[broker.id] and broker.epoch == known[broker.id].epoch
        ]
        for broker in changed:
            if known[broker.id].is_unclean and not broker.is_unclean:
                # What kept others from leading is over.
                self._events.put(UncleanLeaderElectionEnable())
            known[broker.id] = broker
            self._channels.update(broker)
        if changed:
            await self._channels.tell_metadata()
