"""What any broker may do to the cluster's topics and settings: write the wish into the tree. The controller carries it
out.

These functions return when the tree holds the wish. A topic can be used when the controller has chosen its leaders and
the brokers have heard of it, which a broker sees in its own metadata. Errors are Kafka's (`ottla.errors`), with Kafka's
messages, because tools show them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from ottla.config.topic import check_topic
from ottla.config.values import ConfigError
from ottla.controller.assignment import Assignment, assign
from ottla.controller.names import CollidingNames, check_name, may_collide
from ottla.controller.turns import in_turns
from ottla.coordination import znodes
from ottla.coordination.tree import (
    BadVersion,
    Check,
    ConnectionLoss,
    Create,
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
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    PolicyViolation,
    ReassignmentInProgress,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)

#: Of one topic in one request, as in Kafka 4's controller (ReplicationControlManager.MAX_PARTITIONS_PER_BATCH).
NEW_PARTITIONS_MAX = 10_000
#: Of all topics in one request: as many as a cluster has.
REQUEST_PARTITIONS_MAX = 200_000


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
    """Creates topics one after another: what they are checked against is read once for all of them.

    What others change meanwhile is found by the creation itself, but for names whose metrics collide. All of them
    together have at most `REQUEST_PARTITIONS_MAX` partitions.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._racks: dict[int, str | None] | None = None
        self._names: CollidingNames | None = None
        self._partitions = NewPartitions()

    async def create(self, topic: NewTopic) -> Assignment:
        """Creates one and returns its assignment.

        Raises InvalidTopic, TopicAlreadyExists, PolicyViolation, InvalidPartitions, InvalidReplicationFactor,
        InvalidReplicaAssignment, InvalidConfig.
        """
        assignment = await self.check(topic)
        self.take(topic, assignment)
        await self.write(topic, assignment)
        return assignment

    def take(self, topic: NewTopic, assignment: Assignment) -> None:
        """Counts a topic that is going to be written; later ones may not collide with it. Raises PolicyViolation."""
        self._partitions.check(len(assignment))
        self._partitions.made += len(assignment)
        if self._names is not None:
            self._names.add(topic.name)

    async def write(self, topic: NewTopic, assignment: Assignment) -> None:
        """Writes one that was checked and taken. Raises TopicAlreadyExists if another was quicker."""
        await _create_topic(self._tree, topic, assignment)

    async def check(self, topic: NewTopic) -> Assignment:
        """The assignment that the topic gets; raises as `create` does, but for what `take` refuses."""
        if _may_be_name(topic.name) and await self._tree.exists(znodes.topic_path(topic.name)) is not None:
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
                async for name in in_turns(await self._tree.children(znodes.TOPICS)):
                    names.add(name)
                self._names = names
            if colliding := self._names.colliding_with(topic.name):
                raise InvalidTopic(f"Topic '{topic.name}' collides with existing topics: {', '.join(colliding)}")
        _check_assignment(assignment)
        _check_config(topic.config)
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


def _check_config(config: Mapping[str, str], untouched: Collection[str] = ()) -> None:
    try:
        check_topic(config, untouched)
    except ConfigError as error:
        raise InvalidConfig(str(error)) from error


async def _create_topic(tree: Tree, topic: NewTopic, assignment: Assignment) -> None:
    data = TopicAssignment(assignment).encode()
    config = znodes.encode_config(topic.config)
    config_path = znodes.config_path("topics", topic.name)
    make = Create(znodes.topic_path(topic.name), data)
    # What a topic of that name left behind is replaced, as Kafka does. Two nodes in one transaction: no topic is ever
    # seen without its settings.
    for write in _alternating(Create(config_path, config), Set(config_path, config)):
        try:
            await tree.multi([write, make])
        except ConnectionLoss:
            await tree.wait_connected()
            node = await get_or_none(tree, make.path)
            if node is not None and node.data == data:
                return
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
    for topic in topics:
        stat = await tree.exists(znodes.topic_path(topic)) if _may_be_name(topic) else None
        if stat is None:
            results[topic] = UnknownTopicOrPartition(f"Topic `{topic}` to delete does not exist")
            continue
        await _ensure_marked(tree, topic, stat)
        results[topic] = None
    return results


async def _ensure_marked(tree: Tree, topic: str, stat: Stat) -> None:
    """Marks the topic of that `czxid`, and no later one of its name: a mark whose answer was lost may have been seen,
    the topic be deleted, and made anew by then.
    """
    path, born = znodes.topic_path(topic), stat.czxid
    while True:
        try:
            await tree.multi([Check(path, stat.version), Create(znodes.delete_topic_path(topic))])
        except NodeExists:
            return
        except (NoNode, BadVersion):
            pass
        except ConnectionLoss:
            await tree.wait_connected()
        else:
            return
        found = await tree.exists(path)
        if found is None or found.czxid != born:
            return
        stat = found


def _may_be_name(topic: str) -> bool:
    try:
        check_name(topic)
    except InvalidTopic:
        return False
    return True


async def create_partitions(
    tree: Tree,
    topic: str,
    total: int,
    *,
    assignments: Sequence[Sequence[int]] | None = None,
    validate_only: bool = False,
) -> Assignment:
    """Let a topic have `total` partitions; returns the new ones' assignment.

    `assignments` are the new partitions' replicas in order. Raises UnknownTopicOrPartition, InvalidPartitions,
    InvalidReplicaAssignment, ReassignmentInProgress.
    """
    path = znodes.topic_path(topic)
    racks = await broker_racks(tree)
    placed: Assignment | None = None
    while True:
        node = await get_or_none(tree, path) if _may_be_name(topic) else None
        if node is None:
            raise UnknownTopicOrPartition(f"The topic '{topic}' does not exist.")
        current = TopicAssignment.decode(path, node.data)
        if placed is not None and placed.items() <= current.partitions.items():
            return placed
        placed = _more_partitions(topic, current, total, assignments, racks)
        if validate_only:
            return placed
        grown = msgspec.structs.replace(current, partitions=current.partitions | placed)
        try:
            await tree.set(path, grown.encode(), node.stat.version)
        except ConnectionLoss:
            await tree.wait_connected()
        except (BadVersion, NoNode):
            placed = None
        else:
            return placed


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


# Settings.


async def get_config(tree: Tree, entity_type: str, entity_name: str) -> dict[str, str]:
    """An entity's own settings; empty if it has none. `entity_type` is topics, brokers, clients or users."""
    path = znodes.config_path(entity_type, entity_name)
    node = await get_or_none(tree, path)
    return {} if node is None else znodes.decode_config(path, node.data)


async def set_topic_config(tree: Tree, topic: str, config: Mapping[str, str], untouched: Collection[str] = ()) -> None:
    """Replace a topic's own settings and tell every broker. Those of `untouched` are stored already, as they are, and
    are not checked. Raises UnknownTopicOrPartition, InvalidConfig.
    """
    if not _may_be_name(topic) or await tree.exists(znodes.topic_path(topic)) is None:
        raise UnknownTopicOrPartition(f"Topic '{topic}' does not exist.")
    _check_config(config, untouched)
    await set_config(tree, "topics", topic, config)


async def set_config(tree: Tree, entity_type: str, entity_name: str, config: Mapping[str, str]) -> None:
    """Replace an entity's own settings, whatever it is, and tell every broker.

    Brokers' settings that hold for all of them are those of the broker "<default>". Nothing is checked here.
    """
    if not entity_name or "/" in entity_name.replace("/clients/", ""):
        raise InvalidRequest(f"no name of one of the {entity_type}: {entity_name!r}")
    path = znodes.config_path(entity_type, entity_name)
    data = znodes.encode_config(config)
    await tree.ensure(path)
    await _until_done(tree, Set(path, data))
    await notify_config_change(tree, entity_type, entity_name)


async def notify_config_change(tree: Tree, entity_type: str, entity_name: str) -> None:
    """Let every broker read an entity's settings again. After a lost answer they may be told twice."""
    change = znodes.encode_config_change(f"{entity_type}/{entity_name}")
    await _until_done(tree, Create(znodes.CONFIG_CHANGE_PREFIX, change, sequential=True))


async def notify_log_directory_failure(tree: Tree, broker_id: int) -> None:
    """Let the controller ask a broker which of its replicas still work: a log directory of it failed (KIP-112)."""
    event = znodes.encode_log_dir_event(broker_id)
    await _until_done(tree, Create(znodes.LOG_DIR_EVENT_PREFIX, event, sequential=True))


async def _until_done(tree: Tree, operation: Operation) -> None:
    """For operations that may be done twice without harm."""
    while True:
        try:
            await tree.multi([operation])
        except ConnectionLoss:
            await tree.wait_connected()
        else:
            return
