"""Access rules in the coordination tree: read at the start, watched, and changed.

Brokers of Kafka's may be in the same tree. A change of a pattern's rules is a compare-and-set on its node, in one
transaction with the node that tells everybody. (Kafka needs two, and may stop between them.) Whoever hears of a change
reads the pattern's node again. What was read last holds while the tree is out of reach.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from ottla.broker.authorization.nodes import (
    CHANGE_PREFIX,
    CHANGES,
    NODE_BYTES_MAX,
    PERSISTENT_PATHS,
    ROOTS,
    decode_change,
    decode_entries,
    encode_change,
    encode_entries,
    has_place,
    path_of,
    resource_of,
)
from ottla.controller.batches import batches
from ottla.controller.config_changes import Place, watch_changes
from ottla.coordination.tree import (
    BadVersion,
    ConnectionLoss,
    Create,
    Delete,
    Node,
    NodeExists,
    NoNode,
    Operation,
    Set,
    get_or_none,
    join,
)
from ottla.coordination.znodes import MalformedNode
from ottla.errors import UnknownServerError
from ottla.wire.acls import Entry, Pattern, PatternType
from ottla.wire.needs import Resource

if TYPE_CHECKING:
    from ottla.broker.authorization.snapshot import Snapshot
    from ottla.coordination.tree import Tree

logger = logging.getLogger("ottla.authorizer")

#: How often a change is tried again while others change the same node. As in Kafka.
RETRIES_MAX: Final = 10
RETRY_S: Final = 0.1
RETRY_JITTER_S: Final = 0.05

Changed = Callable[[Pattern | None], object]
"""Called with the pattern that has other rules now; None if any may have."""

Alter = Callable[[frozenset[Entry]], frozenset[Entry]]
"""Gets the entries that a pattern has, and returns those that it is to have. It may be called several times."""


class AclStore:
    """The rules that hold now. All methods are for the loop's thread.

    empty: A snapshot without rules.

    changed: Called when other rules hold.
    """

    def __init__(self, tree: Tree, empty: Snapshot, changed: Changed) -> None:
        self._tree = tree
        self._empty = empty
        self.snapshot = empty
        self._changed = changed
        #: One reads or changes at a time, so that what was read last holds.
        self._lock = trio.Lock()

    async def load(self) -> None:
        """Reads all there is. Until it returns, what was read before holds."""
        await self._tree.ensure(*PERSISTENT_PATHS)
        async with self._lock:
            found = self._empty
            async for some in self._patterns():
                nodes = await self._tree.get_many([path_of(pattern) for pattern in some])
                found = found.changed({one: _entries(one, node) for one, node in zip(some, nodes, strict=True)})
            if not found.is_as(self.snapshot):
                self._take(found, None)

    async def _patterns(self) -> AsyncIterator[list[Pattern]]:
        for kind, root in ROOTS.items():
            for name in await self._tree.children(root):
                resource = resource_of(name)
                if resource < Resource.TOPIC:
                    logger.warning("rules about resources of an unknown kind have no effect: %s", join(root, name))
                    continue
                names = await self._tree.children(join(root, name))
                for some in batches(names):
                    yield [Pattern(resource, one, kind) for one in some]

    async def watch(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hears of changes, until cancelled. Started when those that were there have been heard."""
        async with trio.open_nursery() as nursery:
            for kind, parent in CHANGES.items():
                heard = partial(self._heard, kind)
                await nursery.start(watch_changes, self._tree, Place(parent, CHANGE_PREFIX), heard, self.load)
            task_status.started()

    async def _heard(self, kind: PatternType, path: str, data: bytes) -> None:
        pattern = decode_change(path, data, kind)
        async with self._lock:
            self._set(pattern, _entries(pattern, await self._read(pattern)))

    async def alter(self, pattern: Pattern, alter: Alter) -> None:
        """Changes the entries of a pattern, and tells every broker. Raises UnknownServerError, as Kafka does, if the
        node cannot be changed. What `alter` raises is raised as it is.
        """
        if not has_place(pattern.name):
            raise UnknownServerError(f"The coordination tree has no place for a pattern called {pattern.name!r}.")
        async with self._lock:
            for _ in range(RETRIES_MAX + 1):
                node = await self._read(pattern)
                try:
                    before = frozenset() if node is None else decode_entries(path_of(pattern), node.data)
                except MalformedNode as error:
                    raise UnknownServerError(str(error)) from error
                after = alter(before)
                try:
                    if operations := _operations(pattern, node, before, after):
                        await self._tree.multi(operations)
                except ConnectionLoss:
                    # It was done or not: with what the node has now, the same is wanted.
                    await self._tree.wait_connected()
                except (BadVersion, NodeExists, NoNode):
                    await trio.sleep(RETRY_S + random.uniform(0, RETRY_JITTER_S))
                else:
                    self._set(pattern, after)
                    return
        raise UnknownServerError(f"Failed to update ACLs for {pattern} after trying a maximum of {RETRIES_MAX} times")

    async def _read(self, pattern: Pattern) -> Node | None:
        """The pattern's node; None if there is none. It is no older than what anybody had written before."""
        await self._tree.sync()
        return await get_or_none(self._tree, path_of(pattern))

    def _set(self, pattern: Pattern, entries: Iterable[Entry] | None) -> None:
        snapshot = self.snapshot.changed({pattern: entries})
        if snapshot is not self.snapshot:
            self._take(snapshot, pattern)

    def _take(self, snapshot: Snapshot, pattern: Pattern | None) -> None:
        self.snapshot = snapshot
        self._changed(pattern)


def _entries(pattern: Pattern, node: Node | None) -> frozenset[Entry] | None:
    """None if the node is damaged."""
    if node is None:
        return frozenset()
    try:
        return decode_entries(path_of(pattern), node.data)
    except MalformedNode as error:
        logger.error("nobody but super users may do anything with %s: %s", _covered(pattern), error)
        return None


def _covered(pattern: Pattern) -> str:
    kind = pattern.resource.name.lower()
    if pattern.kind is PatternType.PREFIXED:
        return f"a {kind} whose name begins with {pattern.name}"
    return f"any {kind}" if pattern.name == "*" else f"the {kind} {pattern.name}"


def _operations(
    pattern: Pattern, node: Node | None, before: frozenset[Entry], after: frozenset[Entry]
) -> list[Operation]:
    """Nothing if nothing changes."""
    path = path_of(pattern)
    data = encode_entries(after)
    if len(data) > NODE_BYTES_MAX:
        raise UnknownServerError(f"{len(after)} rules are more than the coordination tree has room for in {path}.")
    first: Operation
    if node is None:
        if not after:
            return []
        first = Create(path, data)
    elif not after:
        first = Delete(path, node.stat.version)
    elif after == before:
        return []
    else:
        first = Set(path, data, node.stat.version)
    change = Create(f"{CHANGES[pattern.kind]}/{CHANGE_PREFIX}", encode_change(pattern), sequential=True)
    return [first, change]
