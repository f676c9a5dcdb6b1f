"""Changes to the cluster's topics by any broker, which writes the wish into the tree. The controller carries it out.

These functions return when the tree holds the wish. A topic can be used when the controller has chosen its leaders and
the brokers have heard of it, which a broker sees in its own metadata. Errors are Kafka's (`ottla.errors`), with Kafka's
messages, because tools show them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from ottla.controller.assignment import Assignment, assign
from ottla.controller.batches import overlapping
from ottla.controller.configs import check_topic_config
from ottla.controller.names import CollidingNames, check_name, may_be_name, may_collide
from ottla.controller.writes import Change, together, until_done
from ottla.coordination import znodes
from ottla.coordination.tree import (
    BadVersion,
    Check,
    ConnectionLoss,
    Create,
    Node,
    NodeExists,
    NoNode,
    Operation,
    Set,
    Stat,
    Tree,
    get_or_none,
)
from ottla.coordination.znodes import BrokerRegistration, TopicAssignment
from ottla.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidTopic,
    KafkaError,
    PolicyViolation,
    ReassignmentInProgress,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from ottla.kafka import INTERNAL_TOPICS
from ottla.slices import in_slices

#: Of one topic in one request, as in Kafka 4's controller (ReplicationControlManager.MAX_PARTITIONS_PER_BATCH).
NEW_PARTITIONS_MAX = 10_000
#: Of all topics in one request: as many as a cluster has.
REQUEST_PARTITIONS_MAX = 200_000
#: Nodes that are looked for at a time.
LOOKS_AT_ONCE = 64


class NewTopic(msgspec.Struct, frozen=True):
    """A topic to create: either numbers of partitions and replicas, or the assignment itself."""

    name: str
    partitions: int = 1
    replication_factor: int = 1
    assignment: Assignment | None = None
    config: Mapping[str, str] = {}


async def broker_racks(tree: Tree) -> dict[int, str | None]:
    """The registered brokers and their racks; without one whose registration cannot be understood."""
    ids = []
    for name in await tree.children(znodes.BROKER_IDS):
        with contextlib.suppress(znodes.MalformedNode):
            ids.append(znodes.broker_of(name))
    paths = [znodes.broker_path(broker_id) for broker_id in ids]
    racks: dict[int, str | None] = {}
    for broker_id, path, node in zip(ids, paths, await tree.get_many(paths), strict=True):
        if node is not None:
            with contextlib.suppress(znodes.MalformedNode):
                racks[broker_id] = BrokerRegistration.decode(path, node.data).rack
    return racks


class NewPartitions:
    """How many partitions one request has made. A folder for each is made by every replica."""

    def __init__(self) -> None:
        self.made = 0

    def check(self, more: int) -> None:
        """Raises PolicyViolation if so many more are too many."""
        if self.made + more > REQUEST_PARTITIONS_MAX:
            raise PolicyViolation(
                f"Excessively large number of partitions per request: {self.made + more}, not at most "
                f"{REQUEST_PARTITIONS_MAX}."
            )


class Creation:
    """Creates topics: what they are checked against is read once for all of them.

    What others change meanwhile is found by the creation itself, but for names whose metrics collide. All of them
    together have at most `REQUEST_PARTITIONS_MAX` partitions.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._racks: dict[int, str | None] | None = None
        self._names: CollidingNames | None = None
        self._partitions = NewPartitions()
        #: Of names that were looked for and not checked since, where the topic is.
        self._found: dict[str, Stat | None] = {}

    async def create(self, topic: NewTopic) -> Assignment:
        """Creates one and returns its assignment.

        Raises InvalidTopic, TopicAlreadyExists, PolicyViolation, InvalidPartitions, InvalidReplicationFactor,
        InvalidReplicaAssignment, InvalidConfig.
        """
        assignment = await self.check(topic)
        self.take(topic, assignment)
        await _create_topic(self._tree, topic, assignment)
        return assignment

    def take(self, topic: NewTopic, assignment: Assignment) -> None:
        """Counts a topic that is going to be written; later ones may not collide with it. Raises PolicyViolation."""
        self._partitions.check(len(assignment))
        self._partitions.made += len(assignment)
        if self._names is not None:
            self._names.add(topic.name)

    async def write(self, topics: Sequence[tuple[NewTopic, Assignment]]) -> list[KafkaError | None]:
        """Writes topics that were checked and taken; for each None, or TopicAlreadyExists if another was quicker."""
        return await together(self._tree, [_creation_of(self._tree, *each) for each in topics])

    async def look(self, names: Iterable[str]) -> None:
        """Looks whether there are topics of these names, for `check`, which looks for one alone."""
        self._found.update(await stats_of(self._tree, names))

    async def check(self, topic: NewTopic) -> Assignment:
        """The assignment that the topic gets; raises as `create` does, but for what `take` refuses."""
        if topic.name not in self._found:
            await self.look([topic.name])
        if self._found.pop(topic.name) is not None:
            raise TopicAlreadyExists(f"Topic '{topic.name}' already exists.")
        if self._racks is None:
            self._racks = await broker_racks(self._tree)
        _check_count(topic.partitions if topic.assignment is None else len(topic.assignment))
        if topic.assignment is None:
            assignment = assign(self._racks, topic.partitions, topic.replication_factor)
        else:
            assignment = dict(topic.assignment)
        check_name(topic.name)
        if may_collide(topic.name):
            if self._names is None:
                names = CollidingNames()
                async for name in in_slices(await self._tree.children(znodes.TOPICS)):
                    names.add(name)
                self._names = names
            if colliding := self._names.colliding_with(topic.name):
                raise InvalidTopic(f"Topic '{topic.name}' collides with existing topics: {', '.join(colliding)}")
        _check_assignment(assignment)
        check_topic_config(topic.config)
        return assignment


async def create_topics(tree: Tree, topics: Sequence[NewTopic]) -> dict[str, Assignment | KafkaError]:
    """Create topics, each on its own: for each name the assignment that it got, or the error (see `Creation`)."""
    creation = Creation(tree)
    results: dict[str, Assignment | KafkaError] = {}
    for topic in topics:
        try:
            results[topic.name] = await creation.create(topic)
        except KafkaError as error:
            results[topic.name] = error
    return results


async def create_topic(tree: Tree, topic: NewTopic) -> Assignment:
    """Create one topic, on its own (see `Creation`)."""
    return await Creation(tree).create(topic)


def _check_count(new_partitions: int) -> None:
    """Before anything is made of a number that may be anything: 2.7 would try to, and serve nobody meanwhile."""
    if new_partitions > NEW_PARTITIONS_MAX:
        raise PolicyViolation(
            f"Excessively large number of partitions per request: {new_partitions}, not at most {NEW_PARTITIONS_MAX}."
        )


def _check_assignment(assignment: Assignment) -> None:
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        raise InvalidReplicaAssignment("All partitions should have the same number of replicas")
    for replicas in assignment.values():
        if not replicas or len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignment(f"Duplicate replica assignment found: {assignment}")
    if sorted(assignment) != list(range(len(assignment))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")


async def stats_of(tree: Tree, topics: Iterable[str]) -> dict[str, Stat | None]:
    """The nodes of topics; None for a topic that is not there."""
    stats: dict[str, Stat | None] = dict.fromkeys(topics)

    async def look(some: Sequence[str]) -> None:
        for topic in some:
            if may_be_name(topic):
                stats[topic] = await tree.exists(znodes.topic_path(topic))

    await overlapping(look, list(stats), at_most=1, at_once=LOOKS_AT_ONCE)
    return stats


def _creation_of(tree: Tree, topic: NewTopic, assignment: Assignment) -> Change:
    async def alone(may_be_applied: bool) -> None:
        await _create_topic(tree, topic, assignment, may_be_made=may_be_applied)

    return Change(_nodes_of(topic, assignment), alone)


def _nodes_of(topic: NewTopic, assignment: Assignment) -> tuple[Create, Create]:
    """The node of a topic's settings, and its own. In one transaction: no topic is ever seen without its settings."""
    return (
        Create(znodes.config_path("topics", topic.name), znodes.encode_config(topic.config)),
        Create(znodes.topic_path(topic.name), TopicAssignment(assignment).encode()),
    )


async def _create_topic(tree: Tree, topic: NewTopic, assignment: Assignment, *, may_be_made: bool = False) -> None:
    """`may_be_made`: by a transaction of ours whose answer was lost."""
    config, make = _nodes_of(topic, assignment)
    # What a topic of that name left behind is replaced, as Kafka does.
    for write in _alternating(config, Set(config.path, config.data)):
        if may_be_made:
            node = await get_or_none(tree, make.path)
            if node is not None and node.data == make.data:
                return
        try:
            await tree.multi([write, make])
        except ConnectionLoss:
            await tree.wait_connected()
            may_be_made = True
        except (NodeExists, NoNode) as error:
            if error.index == 1 and isinstance(error, NodeExists):
                raise TopicAlreadyExists(f"Topic '{topic.name}' already exists.") from error
            if error.index == 1:
                raise
        else:
            return


def _alternating(first: Operation, second: Operation) -> Iterable[Operation]:
    while True:
        yield first
        yield second


async def delete_topics(tree: Tree, topics: Iterable[str]) -> dict[str, KafkaError | None]:
    """Mark topics for deletion: for each None, or UnknownTopicOrPartition. Marking twice is no error."""
    results: dict[str, KafkaError | None] = {}
    marks: dict[str, Change] = {}
    for topic, stat in (await stats_of(tree, topics)).items():
        results[topic] = None
        if stat is None:
            results[topic] = UnknownTopicOrPartition(f"Topic `{topic}` to delete does not exist")
        else:
            marks[topic] = _mark_of(tree, topic, stat)
    results.update(zip(marks, await together(tree, list(marks.values())), strict=True))
    return results


def _mark_of(tree: Tree, topic: str, stat: Stat) -> Change:
    async def alone(may_be_applied: bool) -> None:
        await _ensure_marked(tree, topic, stat, may_be_marked=may_be_applied)

    return Change(_mark(topic, stat), alone)


def _mark(topic: str, stat: Stat) -> list[Operation]:
    return [Check(znodes.topic_path(topic), stat.version), Create(znodes.delete_topic_path(topic))]


async def _ensure_marked(tree: Tree, topic: str, stat: Stat, *, may_be_marked: bool) -> None:
    """Marks the topic of that `czxid`, and no later one of its name: a mark whose answer was lost (`may_be_marked`) may
    have been seen, the topic be deleted, and made anew by then.
    """
    path, born = znodes.topic_path(topic), stat.czxid
    while True:
        if may_be_marked:
            found = await tree.exists(path)
            if found is None or found.czxid != born:
                return
            stat = found
        may_be_marked = True
        try:
            await tree.multi(_mark(topic, stat))
        except NodeExists:
            return
        except (NoNode, BadVersion):
            pass
        except ConnectionLoss:
            await tree.wait_connected()
        else:
            return


class MorePartitions(NamedTuple):
    """How many partitions a topic is to have in all, and the replicas of the new ones in order if they are given."""

    topic: str
    total: int
    assignments: Sequence[Sequence[int]] | None = None


class Grown(NamedTuple):
    """The new partitions of one topic, checked and placed, and the operation that adds them."""

    wanted: MorePartitions
    placed: Assignment
    """The new partitions."""
    operation: Set


class Growth:
    """Adds partitions to topics: what they are checked against is read once for all of them."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._racks: dict[int, str | None] | None = None

    async def check(self, wanted: Sequence[MorePartitions]) -> list[Grown | KafkaError]:
        """The change to be written for each of `wanted`, in order; or why there is none: UnknownTopicOrPartition,
        InvalidPartitions, PolicyViolation, InvalidReplicaAssignment, ReassignmentInProgress.
        """
        if self._racks is None:
            self._racks = await broker_racks(self._tree)
        paths = [znodes.topic_path(each.topic) for each in wanted if may_be_name(each.topic)]
        nodes = dict(zip(paths, await self._tree.get_many(paths), strict=True))
        checked: list[Grown | KafkaError] = []
        async for each in in_slices(wanted):
            try:
                checked.append(self._grown(each, nodes.get(znodes.topic_path(each.topic))))
            except KafkaError as error:
                checked.append(error)
        return checked

    async def write(self, checked: Sequence[Grown]) -> list[KafkaError | None]:
        """Writes what was checked; for each None, or as `check` if somebody else has changed the topic meanwhile."""
        return await together(self._tree, [Change([each.operation], partial(self._write, each)) for each in checked])

    async def _write(self, grown: Grown, may_be_applied: bool) -> None:
        while True:
            node = await get_or_none(self._tree, grown.operation.path)
            if node is not None and may_be_applied:
                current = TopicAssignment.decode(grown.operation.path, node.data)
                if grown.placed.items() <= current.partitions.items():
                    return
            grown = self._grown(grown.wanted, node)
            may_be_applied = False
            try:
                await self._tree.multi([grown.operation])
            except ConnectionLoss:
                await self._tree.wait_connected()
                may_be_applied = True
            except (BadVersion, NoNode):
                pass
            else:
                return

    def _grown(self, wanted: MorePartitions, node: Node | None) -> Grown:
        topic, total, assignments = wanted
        if node is None:
            raise UnknownTopicOrPartition(f"The topic '{topic}' does not exist.")
        if topic in INTERNAL_TOPICS:
            raise InvalidPartitions(
                f"The number of partitions of '{topic}' says which of them has what: with another number, coordinators "
                "would look elsewhere for what they have stored there."
            )
        path = znodes.topic_path(topic)
        current = TopicAssignment.decode(path, node.data)
        placed = _more_partitions(topic, current, total, assignments, self._racks or {})
        grown = msgspec.structs.replace(current, partitions=current.partitions | placed)
        return Grown(wanted, placed, Set(path, grown.encode(), node.stat.version))


async def create_partitions(
    tree: Tree,
    topic: str,
    total: int,
    *,
    assignments: Sequence[Sequence[int]] | None = None,
    validate_only: bool = False,
) -> Assignment:
    """Let a topic have `total` partitions; returns the new ones' assignment. Raises as `Growth.check` answers."""
    growth = Growth(tree)
    (grown,) = await growth.check([MorePartitions(topic, total, assignments)])
    if isinstance(grown, KafkaError):
        raise grown
    if not validate_only:
        (error,) = await growth.write([grown])
        if error is not None:
            raise error
    return grown.placed


def _more_partitions(
    topic: str,
    current: TopicAssignment,
    total: int,
    assignments: Sequence[Sequence[int]] | None,
    racks: Mapping[int, str | None],
) -> Assignment:
    if current.adding or current.removing:
        raise ReassignmentInProgress(f"A partition reassignment is in progress for the topic '{topic}'.")
    count = len(current.partitions)
    if total < count:
        raise InvalidPartitions(f"Topic currently has {count} partitions, which is higher than the requested {total}.")
    if total == count:
        raise InvalidPartitions(f"Topic already has {count} partitions.")
    _check_count(total - count)
    if 0 not in current.partitions:
        raise InvalidReplicaAssignment(f"The topic '{topic}' has no partition 0 in its assignment.")
    first = current.partitions[0]
    if assignments is None:
        ordered = sorted(racks)
        start = next((index for index, broker in enumerate(ordered) if broker >= first[0]), 0)
        return assign(racks, total - count, len(first), first_partition=count, start=start)
    # Before anything else: a request may name any number of brokers.
    for replicas in assignments:
        if len(replicas) != len(first):
            raise InvalidReplicaAssignment(
                f"A partition of topic '{topic}' has {len(first)} replicas, not {len(replicas)}."
            )
    unknown = sorted({broker for replicas in assignments for broker in replicas} - racks.keys())
    if unknown:
        raise InvalidReplicaAssignment(f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}.")
    if len(assignments) != total - count:
        raise InvalidReplicaAssignment(
            f"Increasing the number of partitions by {total - count} but {len(assignments)} assignments provided."
        )
    for replicas in assignments:
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignment(
                f"A partition of topic '{topic}' has {len(first)} replicas on different brokers, not {list(replicas)}."
            )
    return {count + index: tuple(replicas) for index, replicas in enumerate(assignments)}


async def notify_log_directory_failure(tree: Tree, broker_id: int) -> None:
    """Let the controller ask a broker which of its replicas still work: a log directory of it failed (KIP-112)."""
    event = znodes.encode_log_dir_event(broker_id)
    await until_done(tree, [Create(znodes.LOG_DIR_EVENT_PREFIX, event, sequential=True)])
