"""Hearing of changed settings: every broker watches `/config/changes` and reads again what is named there.

A change is told by a sequential node that names the entity. Changes of access rules are told in the same way, elsewhere
(`watch_changes`). Nodes are kept for 15 minutes, so that every broker sees
them, and removed by whoever looks when there is a newer one. A broker that starts reads all settings anyway; what it
then finds here names entities it may read once too often. (Kafka: ZkNodeChangeNotificationListener.) So does one that
has a new session: it may have been away for longer than the nodes are kept. (Kafka's does not.)
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import trio

from ottla.controller.batches import batches
from ottla.coordination import znodes
from ottla.coordination.tree import (
    ConnectionLoss,
    Delete,
    NoNode,
    SessionExpired,
    SessionState,
    Stat,
    Tree,
    Watch,
    WatchEvent,
)

logger = logging.getLogger(__name__)

KEPT_MS = 15 * 60 * 1000
RETRY_S = 1.0
_NUMBER = re.compile("[0-9]{10}")

OnChange = Callable[[str, str], Awaitable[None]]
"""Gets the entity's type ("topics", "brokers", "clients", "users") and its name."""


class Place(NamedTuple):
    """Where changes are told: `parent` is a node, and the names of those below it begin with `prefix`."""

    parent: str
    prefix: str

    def is_change(self, name: str) -> bool:
        """True if a node of this name tells a change."""
        return name.startswith(self.prefix) and _NUMBER.fullmatch(name, len(self.prefix)) is not None


SETTINGS = Place(znodes.CONFIG_CHANGES, znodes.CONFIG_CHANGE_PREFIX.rpartition("/")[2])


async def watch_config_changes(
    tree: Tree,
    on_change: OnChange,
    read_all: Callable[[], Awaitable[None]],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Call `on_change` for each change, in order, until cancelled. Started when what was there has been handled.
    `read_all` is called when there is a new session: changes may have come and gone meanwhile.

    Both may raise SessionExpired: they are called again, for the same change, once there is a new session.
    """

    async def handle(path: str, data: bytes) -> None:
        entity_type, _, entity_name = znodes.decode_config_change(path, data).partition("/")
        await on_change(entity_type, entity_name)

    await watch_changes(tree, SETTINGS, handle, read_all, task_status=task_status)


async def watch_changes(
    tree: Tree,
    place: Place,
    on_change: Callable[[str, bytes], Awaitable[None]],
    read_all: Callable[[], Awaitable[None]],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """The same for changes in another place. `on_change` gets the path of a change's node and its data, and may raise
    MalformedNode.
    """
    last = ""
    session_id: int | None = tree.session_id
    started = False
    changed = trio.Event()

    def wake(_: WatchEvent | SessionState) -> None:
        changed.set()

    # A watch that is set when its session has just ended may never fire.
    stop_listening = tree.listen(wake)
    try:
        while True:
            changed = trio.Event()
            try:
                if (current := tree.session_id) != session_id:
                    await read_all()
                    session_id = current
                names = await tree.children(place.parent, wake)
                # Names are in the order of their numbers, and thousands are known already.
                new = [name for name in names[bisect_right(names, last) :] if place.is_change(name)]
                for some in batches(new):
                    paths = [f"{place.parent}/{name}" for name in some]
                    for name, path, node in zip(some, paths, await tree.get_many(paths), strict=True):
                        if node is not None:
                            await _handle(path, node.data, on_change)
                        last = name
            except SessionExpired:
                # What was not handled is looked at again in the next session.
                await tree.wait_connected()
                continue
            except NoNode:
                # Somebody has emptied the tree. Settings stay as they are; all are read when the tree is back.
                session_id, last = None, ""
                await _come_back(tree, place.parent, changed, wake)
                continue
            await _remove_old(tree, place, names)
            if not started:
                started = True
                task_status.started()
            await changed.wait()
    finally:
        stop_listening()


async def _come_back(tree: Tree, parent: str, changed: trio.Event, wake: Watch) -> None:
    """Returns when the tree may have its settings again."""
    try:
        if await tree.exists(parent, wake) is None:
            await changed.wait()
        else:
            # Only a part of it is there yet.
            await trio.sleep(RETRY_S)
    except SessionExpired:
        await tree.wait_connected()


async def _handle(path: str, data: bytes, on_change: Callable[[str, bytes], Awaitable[None]]) -> None:
    try:
        await on_change(path, data)
    except NoNode:
        return
    except znodes.MalformedNode as error:
        # Written by hand, most likely. What was in force before stays in force.
        logger.error("a change cannot be understood: %s", error)


async def _remove_old(tree: Tree, place: Place, names: Sequence[str]) -> None:
    """Removes the notifications that are too old. `names` are in the order in which the nodes were made. The newest
    node's time counts as the present: a broker whose clock is ahead would remove notifications that others have not
    seen.
    """
    newest: Stat | None = None
    for name in filter(place.is_change, names):
        path = f"{place.parent}/{name}"
        try:
            # One look where nothing is old: thousands of changes at once must not mean as many looks for each of them.
            stat = await tree.exists(path)
            if stat is None:
                continue
            if newest is None:
                last = next(filter(place.is_change, reversed(names)))
                newest = await tree.exists(f"{place.parent}/{last}")
            if newest is None or newest.ctime_ms - stat.ctime_ms <= KEPT_MS:
                return
            await tree.multi([Delete(path)])
        except NoNode:
            continue
        except (ConnectionLoss, SessionExpired):
            logger.debug("old changes are removed another time: the tree is away")
            return
