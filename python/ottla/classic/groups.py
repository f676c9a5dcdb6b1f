"""Groups in ZooKeeper as an administrator sees them: who is in them, how far they have read, and how to change that.

These are the groups of the consumers before Kafka 0.9, of Java and of `ottla.classic`. Nodes that make no sense do not
stop the rest: each is named in `problems`.

A group that has members is not changed. Between the look and the change a member may come: each change begins with the
removal of the node that members register below, which ZooKeeper refuses once there is a member.

Source: kafka/admin/ConsumerGroupCommand.scala and AdminUtils.scala of 0.10.2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.classic.discovery import TOPICS
from ottla.classic.errors import ClassicError
from ottla.classic.registry import MalformedRegistration, Subscription, ids_path, offset_path
from ottla.coordination.transfer import walk
from ottla.coordination.tree import (
    Create,
    Delete,
    Node,
    NotEmpty,
    Operation,
    Set,
    Tree,
    children_or_none,
    get_or_none,
    in_batches,
    parent_of,
)
from ottla.coordination.znodes import CONSUMERS, MalformedNode, TopicAssignment
from ottla.errors import counted
from ottla.kafka import TopicPartition

SHOWN_BYTES_MAX = 60
"""How much of a node that makes no sense a problem shows."""
OFFSET_MAX = 2**63 - 1


class GroupHasMembers(ClassicError):
    """A group cannot be changed while members are in it."""


class ListedGroup(NamedTuple):
    """A group's name and how many members are registered in it."""

    group: str
    members: int


class GroupMember(NamedTuple):
    """A member as it is registered. `topics` are those that it names; empty for a filter, which is in `pattern`."""

    member_id: str
    topics: tuple[str, ...]
    pattern: str


class Owner(NamedTuple):
    """Who reads a partition: the name of a member's thread. `is_alive`: the node goes with its member's session."""

    name: str
    is_alive: bool


@dataclass
class TreeGroup:
    """What ZooKeeper has of a group. `topics` are those that it has nodes of."""

    group: str
    members: list[GroupMember] = field(default_factory=list)
    owners: dict[TopicPartition, Owner] = field(default_factory=dict)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    topics: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    """The paths of all nodes, parents before their children."""
    left_behind: list[str] = field(default_factory=list)
    """The paths of nodes beside those of members that go with nobody's session: whoever made them is no member."""

    @property
    def is_active(self) -> bool:
        """Whether it has members; then it cannot be changed."""
        return bool(self.members) or any(owner.is_alive for owner in self.owners.values())

    def check_inactive(self) -> None:
        """Raises GroupHasMembers."""
        if self.is_active:
            count = counted(len(self.members), "member") if self.members else "owners of partitions"
            raise GroupHasMembers(f"group '{self.group}' has {count}: stop them first")

    def check_resettable(self) -> None:
        """Raises GroupHasMembers, also for what is beside the nodes of members."""
        self.check_inactive()
        if self.left_behind:
            what = f"group '{self.group}' has no member, but {self.left_behind[0]}"
            raise GroupHasMembers(f"{what}, which goes with nobody's session: delete that node, or the whole group")


async def list_groups(tree: Tree) -> list[ListedGroup]:
    """All groups, by name. Raises TreeError."""
    names = await children_or_none(tree, CONSUMERS) or []
    nodes = await tree.get_many([ids_path(name) for name in names])
    members: dict[str, str] = {}
    for name, node in zip(names, nodes, strict=True):
        if node is not None and node.stat.children_count:
            path = ids_path(name)
            members |= {f"{path}/{member}": name for member in await children_or_none(tree, path) or []}
    # A node that goes with nobody's session is no member's.
    alive = Counter(
        group
        for group, node in zip(members.values(), await tree.get_many([*members]), strict=True)
        if node is not None and node.stat.ephemeral_owner
    )
    return [ListedGroup(name, alive[name]) for name in names]


async def read_group(tree: Tree, group: str) -> TreeGroup | None:
    """A group; None if there is none. Raises TreeError."""
    found = TreeGroup(group)
    for path, node in await walk(tree, group_path(group)):
        found.nodes.append(path)
        parts = path.split("/")[3:]
        if len(parts) == 2 and parts[0] == "ids":
            _take_member(found, parts[1], path, node)
        elif len(parts) == 2 and parts[0] in ("owners", "offsets"):
            found.topics.add(parts[1])
        elif len(parts) == 3 and parts[0] in ("owners", "offsets"):
            _take_partition(found, parts[0], parts[1], parts[2], path, node)
    return found if found.nodes else None


def _take_member(found: TreeGroup, name: str, path: str, node: Node) -> None:
    if not node.stat.ephemeral_owner:
        found.problems.append(f"{path} outlives its member: no session has made it, and nobody reads what it is given")
        found.left_behind.append(path)
        return
    try:
        read = Subscription.decode(node.data)
    except MalformedRegistration:
        found.problems.append(f"{path} is no consumer's registration: {_shown(node.data)}")
        found.members.append(GroupMember(name, (), ""))
        return
    topics = tuple(read.topics) if read.filter is None else ()
    found.members.append(GroupMember(name, topics, read.pattern if read.filter is None else read.filter.regex))


def _take_partition(found: TreeGroup, kind: str, topic: str, number: str, path: str, node: Node) -> None:
    if not re.fullmatch("[0-9]{1,9}", number):
        found.problems.append(f"{path} is the node of no partition")
        return
    place = TopicPartition(topic, int(number))
    if kind == "owners":
        is_alive = node.stat.ephemeral_owner != 0
        found.owners[place] = Owner(node.data.decode(errors="backslashreplace"), is_alive)
        if not is_alive:
            found.problems.append(f"{path} outlives its owner: no member's session has made it")
    elif re.fullmatch(b"[0-9]{1,19}", node.data) and int(node.data) <= OFFSET_MAX:
        found.offsets[place] = int(node.data)
    else:
        found.problems.append(f"{path} has no offset, but {_shown(node.data)}")


def _shown(data: bytes) -> str:
    text = data[:SHOWN_BYTES_MAX].decode(errors="backslashreplace")
    return repr(text) + ("..." if len(data) > SHOWN_BYTES_MAX else "")


def group_path(group: str) -> str:
    """The node that all of a group is below."""
    return f"{CONSUMERS}/{group}"


async def partitions_of(tree: Tree, topics: Iterable[str]) -> dict[str, list[int]]:
    """The partitions of those topics that there are. Raises TreeError."""
    names = sorted(topics)
    paths = [f"{TOPICS}/{name}" for name in names]
    found = {}
    for name, path, node in zip(names, paths, await tree.get_many(paths), strict=True):
        if node is not None:
            try:
                found[name] = sorted(TopicAssignment.decode(path, node.data).partitions)
            except MalformedNode:
                continue
    return found


async def write_offsets(tree: Tree, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Sets where a group goes on to read; a group that is not there is made.

    Raises:
        GroupHasMembers: it has members. TreeError: what else ZooKeeper says; with many offsets some may be set.
    """
    paths = {offset_path(group, place): str(offset).encode() for place, offset in offsets.items()}
    await tree.ensure(ids_path(group), *{parent_of(path) for path in paths})
    nodes = await tree.get_many(list(paths))
    changes: list[Operation] = [Delete(ids_path(group)), Create(ids_path(group))]
    changes += [
        Create(path, data) if node is None else Set(path, data)
        for (path, data), node in zip(paths.items(), nodes, strict=True)
    ]
    await _change(tree, group, changes)


async def delete_group(tree: Tree, found: TreeGroup, topics: Collection[str] = ()) -> bool:
    """Deletes a group, or what it has of some topics; a group that has no other topic goes as a whole. Returns whether
    it went as a whole.

    Raises:
        GroupHasMembers: it has members. TreeError: what else ZooKeeper says.
    """
    found.check_inactive()
    ids = ids_path(found.group)
    is_whole = not topics or found.topics <= set(topics)
    changes: list[Operation] = []
    if ids in found.nodes and not is_whole:
        found.check_resettable()
        changes = [Delete(ids), Create(ids)]
    elif ids in found.nodes:
        changes = [*map(Delete, found.left_behind), Delete(ids)]
    deleted = {each.path for each in changes}
    gone = [path for path in found.nodes if path not in deleted and (is_whole or _topic_of(path) in topics)]
    changes += [Delete(path) for path in reversed(gone)]
    await _change(tree, found.group, changes)
    return is_whole


def _topic_of(path: str) -> str | None:
    parts = path.split("/")[3:]
    return parts[1] if len(parts) > 1 and parts[0] in ("owners", "offsets") else None


async def _change(tree: Tree, group: str, changes: Sequence[Operation]) -> None:
    """All of it, or nothing where one transaction has room for it."""
    try:
        for batch in in_batches(list(changes)):
            await tree.multi(batch)
    except NotEmpty:
        ids = await get_or_none(tree, ids_path(group))
        if ids is None or not ids.stat.children_count:
            raise
        raise GroupHasMembers(f"group '{group}' has got a member meanwhile: stop it first") from None
