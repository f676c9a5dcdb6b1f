"""Moves of partitions to other replicas: ordered through a request (KIP-455), or, as older tools do, through a node in
the tree, which names what is under way until it is done.

A move is made of steps. Each is in the tree before anybody is told, and another controller can take it again:

1. The assignment names all replicas, the old and the new ones, and which of them are on their way in (`adding`) and out
   (`removing`). Then the leader epoch is raised: the leader hears of its new followers, and they of their leader.
2. The leader takes the new replicas into the ISR, as it takes any that has caught up.
3. When the whole target is in sync, the state names the target alone, under the next epoch, with a leader among it.
4. The others are told to delete what they have. The assignment in the tree names them until they have answered
   (`endings`), though for this controller they are replicas no more: they are told of no role, and are in no ISR.
5. The assignment names the target alone.

A controller that dies leaves a state and an assignment, and the next one goes by them:

- The target is not all in sync: the move is under way. So it is taken where the state named the target alone already,
  and a broker of the target has left the ISR since. Then the old replicas copy again what they have deleted, as in
  Kafka; they are followers, so nobody misses what they had.
- The target is all in sync: steps 3 to 5 are taken, again if need be. The old replicas that are out of the ISR are not
  told of a role before.
- The assignment names the target alone: all that lived have answered.

Kafka's controller sends what step 4 says and writes the assignment without waiting. If it dies then, the old replicas
stay on brokers that live.

A move may get another target, or be taken back, while it is under way. Replicas that nobody needs any more are left out
at once, by steps 4 and 5: until they are deleted the assignment in the tree has them both on their way in and out,
which makes them part of neither end. Where they are the only ones that could lead, they stay, on their way out, until
the target is in sync; Kafka would leave them out and with them what only they have. Once nothing is left to be copied,
clients are told that the move is over, as Kafka tells them. It cannot be taken back then, and an order to go elsewhere
is one like any other; it leaves in the tree who has not answered yet.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
import trio

from ottla.controller import decisions
from ottla.controller.asked import NO_PARTITION, REPLICAS_MAX, Reasons, asked_in
from ottla.controller.batches import batches
from ottla.controller.channels import Channels
from ottla.controller.decisions import Reassigned
from ottla.controller.endings import ANSWERS_S
from ottla.controller.events import EndingsOverdue, Events, IsrsGrown, Reassignment
from ottla.controller.model import Cluster, Partition
from ottla.controller.partition_states import PartitionStates
from ottla.controller.store import FencedTree
from ottla.coordination import znodes
from ottla.coordination.tree import BadVersion, ConnectionLoss, NoNode, Operation, Set, in_batches
from ottla.coordination.znodes import MalformedNode, PartitionState, TopicAssignment
from ottla.errors import (
    InvalidReplicaAssignment,
    KafkaError,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
    counted,
)
from ottla.kafka import TopicPartition
from ottla.slices import in_slices

logger = logging.getLogger(__name__)


class Moves:
    """The moves of one cluster, in one controller's term."""

    def __init__(
        self,
        cluster: Cluster,
        store: FencedTree,
        states: PartitionStates,
        channels: Channels,
        events: Events,
        nursery: trio.Nursery,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._states = states
        self._channels = channels
        self._events = events
        self._nursery = nursery
        #: Moves that are under way because a node in the tree asks for them, with the replicas that are wanted.
        self._in_tree: dict[TopicPartition, tuple[int, ...]] = {}
        #: Partitions whose ISR has grown since moves were looked at.
        self._grown: set[TopicPartition] = set()
        #: `EndingsOverdue` is about to come.
        self._watches_endings = False

    async def under_way(self) -> dict[TopicPartition, Reassigned]:
        """All moves that are going on."""
        return {
            name: Reassigned.of(partition)
            async for name, partition in in_slices(self._cluster.partitions())
            if partition.adding or partition.removing
        }

    def isr_grew(self, names: Iterable[TopicPartition]) -> None:
        """Moves of these partitions may be at their end."""
        self._grown.update(names)
        if self._grown:
            self._events.put(IsrsGrown())

    async def advance_grown(self) -> None:
        """Ends those of the moves whose ISR has grown to the target."""
        grown, self._grown = self._grown, set()
        await self.advance(grown)

    async def reassign(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Begins moves, and ends those that need nobody to copy anything; by partition None or why it is not moved."""
        results = await self._reassign(wanted)
        # What the node in the tree says of these partitions is overruled.
        overruled = {name for name, error in results.items() if error is None}
        await self._name_in_tree({name: to for name, to in self._in_tree.items() if name not in overruled})
        return results

    async def _reassign(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        results: dict[TopicPartition, KafkaError | None] = {}
        reasons = Reasons()
        plans: dict[TopicPartition, Reassigned] = {}
        before: dict[TopicPartition, Reassigned] = {}
        async for name, target in in_slices(wanted.items()):
            plan = self._plan(name, target)
            if isinstance(plan, KafkaError):
                results[name] = reasons.one(plan)
                continue
            results[name] = None
            partition = self._cluster.topics[name.topic][name.partition]
            before[name] = Reassigned.of(partition)
            # Who asks again for what is under way already does not disturb it.
            if plan != before[name] or not (plan.is_move or name in self._cluster.endings):
                plans[name] = plan
        dropped: dict[TopicPartition, list[int]] = {}
        in_tree: dict[TopicPartition, Reassigned] = {}
        async for name, plan in in_slices(plans.items()):
            ending = self._cluster.endings.get(name)
            held = (*before[name].replicas, *(sorted(ending.leaving) if ending is not None else ()))
            dropped[name] = [broker for broker in dict.fromkeys(held) if broker not in plan.replicas]
            in_tree[name] = plan.beside(dropped[name])
        await self._write_assignments(in_tree)
        async for name, plan in in_slices(plans.items()):
            known = self._cluster.get(name)
            if known is None:
                results[name] = UnknownTopicOrPartition(NO_PARTITION)
                del dropped[name]
            elif Reassigned.of(known) != in_tree[name]:
                # Nobody could write it.
                dropped[name] = []
            else:
                if dropped[name]:
                    self._hold(name, plan, dropped[name])
                if new := set(plan.adding) - set(before[name].replicas):
                    self._cluster.untold.setdefault(name, set()).update(new)
        await self._step(dropped, begin=True)
        return results

    def _hold(self, name: TopicPartition, plan: Reassigned, leaving: Collection[int]) -> None:
        """From now on a partition is held as `plan` says, and the tree follows when `leaving` have deleted it."""
        partition = self._cluster.topics[name.topic][name.partition]
        self._cluster.endings.begin(name, Reassigned.of(partition), leaving)
        partition.replicas, partition.adding, partition.removing = plan

    def _plan(self, name: TopicPartition, target: Sequence[int] | None) -> Reassigned | KafkaError:
        partition = self._cluster.get(name) or Partition(())
        if target is not None and (wrong := _wrong(target)):
            return InvalidReplicaAssignment(wrong)
        plan = decisions.reassigned(partition, target, self._cluster.online(name, partition.replicas))
        if plan is None:
            return NoReassignmentInProgress("The partition is not being moved.")
        live = sorted(self._cluster.brokers)
        # Not those that stay for what only they have: they may be away.
        new = [broker for broker in plan.adding if broker not in plan.removing]
        if target is not None and not set(new) <= set(live):
            return InvalidReplicaAssignment(
                f"Replica assignment has brokers that are not alive. Replica list: {new}, alive: {live}"
            )
        if not partition.replicas or self._cluster.is_deleting(name.topic):
            return UnknownTopicOrPartition(NO_PARTITION)
        return plan

    async def resume(self, names: Iterable[TopicPartition]) -> None:
        """Goes on with the moves that a former controller began, whatever it had come to."""
        await self._step(dict.fromkeys(await self._under_way(names), ()), begin=True)

    async def advance(self, names: Iterable[TopicPartition]) -> None:
        """Ends those of the moves whose target replicas are all in sync."""
        await self._step(dict.fromkeys(await self._under_way(names), ()), begin=False)

    async def _under_way(self, names: Iterable[TopicPartition]) -> list[TopicPartition]:
        found = []
        async for name in in_slices(names):
            partition = self._cluster.get(name)
            if (
                partition is not None
                and (partition.adding or partition.removing)
                and not self._cluster.is_deleting(name.topic)
            ):
                found.append(name)
        return found

    async def _step(self, dropped: Mapping[TopicPartition, Collection[int]], *, begin: bool) -> None:
        """Ends moves that can end, and with `begin` begins the others. `dropped` are by partition the brokers that had
        a replica and have none in the assignment any more.
        """
        endings = self._cluster.endings
        pending = list(dropped)
        while pending:
            states: dict[TopicPartition, PartitionState] = {}
            ended: dict[TopicPartition, Reassigned] = {}
            versions: dict[TopicPartition, int] = {}
            async for name in in_slices(pending):
                partition = self._cluster.get(name)
                if partition is None:
                    continue
                online = self._cluster.online(name, partition.replicas)
                target = Reassigned.of(partition).target
                state = decisions.after_reassignment(partition, target, online, self._store.epoch)
                if state is not None:
                    ended[name] = Reassigned(target, (), ())
                elif begin:
                    state = decisions.begun_reassignment(partition, online, self._store.epoch)
                if state is not None:
                    states[name], versions[name] = state, partition.version
            written = await self._states.change(states)
            told: dict[TopicPartition, Collection[int]] = {}
            async for name in in_slices(written):
                partition = self._cluster.topics[name.topic][name.partition]
                told[name] = gone = {*dropped[name], *(partition.removing if name in ended else ())}
                if name in ended and ended[name] != Reassigned.of(partition):
                    self._hold(name, ended[name], gone)
                self._cluster.untold.get(name, set()).difference_update(gone)
                for broker in gone:
                    self._cluster.failed_replicas.get(broker, set()).discard(name)
                if name in ended:
                    logger.info("%s is held by %s now", name, list(ended[name].replicas))
            await self._channels.tell_moved(told)
            until_s = trio.current_time() + ANSWERS_S
            async for name, leaving in in_slices(told.items()):
                partition = self._cluster.get(name)
                if name in endings and partition is not None and partition.state is not None:
                    epoch = partition.state.leader_epoch
                    endings.asked(name, self._cluster.brokers.keys() & leaving, epoch, until_s)
            # Somebody else had written another state meanwhile: decide again from that.
            pending = [name for name in states if name not in written and self._version(name) != versions[name]]
        async for name in in_slices(dropped):
            ending = endings.get(name)
            if ending is not None and ending.waiting is None:
                # A partition that was never led: nobody has anything of it.
                endings.asked(name, (), -1, -math.inf)
        await self.end()

    async def end(self) -> None:
        """Writes into the tree who holds the partitions that nobody has to delete any more."""
        names = self._cluster.endings.take_complete()
        plans = {name: Reassigned.of(partition) for name in names if (partition := self._cluster.get(name)) is not None}
        await self._write_assignments(plans)
        for name in names:
            self._cluster.endings.forget(name)
        left = {name: to for name, to in self._in_tree.items() if name not in plans or plans[name].is_move}
        await self._name_in_tree(left)
        self._watch_endings()

    async def give_up_silent(self) -> None:
        """Ends the moves that have waited long enough for brokers to delete what they hold no longer."""
        self._watches_endings = False
        silent = self._cluster.endings.give_up(trio.current_time())
        if silent:
            brokers = sorted({broker for brokers in silent.values() for broker in brokers})
            are = counted(len(silent), "move is", "moves are")
            logger.warning(
                "%s not held up by brokers %s, which do not say that they deleted their replicas", are, brokers
            )
        await self.end()

    async def forget(self, topic: str) -> None:
        """A topic is gone, and with it the moves of its partitions."""
        for number in self._cluster.endings.of_topic(topic):
            self._cluster.endings.forget(TopicPartition(topic, number))
        await self._name_in_tree({name: to for name, to in self._in_tree.items() if name.topic != topic})

    def _version(self, name: TopicPartition) -> int | None:
        partition = self._cluster.get(name)
        return None if partition is None else partition.version

    async def _write_assignments(self, plans: Mapping[TopicPartition, Reassigned]) -> None:
        """First in the tree, then here. Nothing for topics that are gone."""
        by_topic: dict[str, dict[int, Reassigned]] = {}
        async for name, plan in in_slices(plans.items()):
            by_topic.setdefault(name.topic, {})[name.partition] = plan
        for topics in batches(list(by_topic)):
            await self._write_topics({topic: by_topic[topic] for topic in topics})

    async def _write_topics(self, plans: Mapping[str, Mapping[int, Reassigned]]) -> None:
        """Until the tree says so: what somebody else had changed meanwhile is read again and kept."""
        left = {znodes.topic_path(topic): topic for topic in plans}
        while left:
            nodes = await self._store.tree.get_many(list(left))
            operations: list[Operation] = []
            for (path, topic), node in zip(list(left.items()), nodes, strict=True):
                if node is None:
                    del left[path]
                    continue
                try:
                    current = TopicAssignment.decode(path, node.data)
                except MalformedNode as error:
                    logger.error("no partition of %s is moved: %s", topic, error)
                    del left[path]
                    continue
                assignment = _with(current, plans[topic])
                if assignment == current:
                    self._cluster.assign(topic, assignment)
                    del left[path]
                else:
                    operations.append(Set(path, assignment.encode(), node.stat.version))
            for batch in in_batches(operations):
                try:
                    await self._store.multi(batch)
                except ConnectionLoss:
                    await self._store.tree.wait_connected()
                except (BadVersion, NoNode):
                    pass  # Looked at again.

    async def ordered_in_tree(self) -> None:
        """Moves that were asked for in `/admin/reassign_partitions`."""
        path = znodes.REASSIGN_PARTITIONS
        asked = await asked_in(self._store.tree, path, self._events.watch(Reassignment()))
        if asked is None:
            # Somebody took it away, which ends nothing.
            self._in_tree.clear()
            return
        try:
            wanted = {TopicPartition(*name): to for name, to in znodes.decode_reassignment(path, asked).items()}
        except MalformedNode as error:
            logger.error("no partition is moved: %s", error)
            await self._store.delete_nodes([path])
            return
        self._in_tree = dict(wanted)
        for name, refused in (await self._reassign(wanted)).items():
            if refused is not None:
                logger.warning("%s is not moved: %s", name, refused)
        under_way = await self._under_way(wanted)
        under_way += [name for name in wanted if name in self._cluster.endings]
        await self._name_in_tree({name: wanted[name] for name in under_way})

    async def _name_in_tree(self, left: dict[TopicPartition, tuple[int, ...]]) -> None:
        """Has the node name what is left of its moves; without any it goes, and tools know that all is done."""
        if left == self._in_tree:
            return
        self._in_tree = left
        path = znodes.REASSIGN_PARTITIONS
        if not left:
            await self._store.delete_nodes([path])
            return
        try:
            await self._store.multi([Set(path, znodes.encode_reassignment(left))])
        except ConnectionLoss:
            # The next that ends, or the next controller, writes it anew.
            await self._store.tree.wait_connected()
        except NoNode:
            self._in_tree = {}

    def _watch_endings(self) -> None:
        """Has `give_up_silent` called when brokers have had their time."""
        if self._watches_endings or (until_s := self._cluster.endings.next_s()) is None:
            return
        self._watches_endings = True
        self._nursery.start_soon(self._events.put_at, EndingsOverdue(), until_s)


def _wrong(target: Sequence[int]) -> str | None:
    """The problem with a list of replicas, whatever brokers there are, in Kafka's words; None if there is none."""
    if not target:
        return "Empty replica list specified in partition reassignment."
    if len(target) > REPLICAS_MAX:
        return f"{len(target)} replicas in partition reassignment: no partition has more than {REPLICAS_MAX}."
    if len(set(target)) != len(target):
        return f"Duplicate replica ids in partition reassignment replica list: {list(target)}"
    if min(target) < 0:
        return f"Invalid broker id in replica list: {list(target)}"
    return None


def not_to_be_told(partition: Partition) -> frozenset[int]:
    """Who is on its way out of a partition and has perhaps deleted it already, where the next step is to have it do so.
    It would make the replica anew, if it was told of its role.
    """
    state = partition.state
    if state is None or not set(Reassigned.of(partition).target) <= set(state.isr):
        return frozenset()
    return frozenset(partition.removing) - {state.leader, *state.isr}


def _with(current: TopicAssignment, plans: Mapping[int, Reassigned]) -> TopicAssignment:
    adding = {number: those for number, those in current.adding.items() if number not in plans}
    removing = {number: those for number, those in current.removing.items() if number not in plans}
    return msgspec.structs.replace(
        current,
        partitions={**current.partitions, **{number: plan.replicas for number, plan in plans.items()}},
        adding=adding | {number: plan.adding for number, plan in plans.items() if plan.adding},
        removing=removing | {number: plan.removing for number, plan in plans.items() if plan.removing},
    )
