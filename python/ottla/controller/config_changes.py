"""Hearing of changed settings: every broker watches `/config/changes` and reads again what is named there.

A change is told by a sequential node that names the entity. Nodes are kept for 15 minutes, so that every broker sees
them, and removed by whoever looks when there is a newer one. A broker that starts reads all settings anyway; what it
then finds here names entities it may read once too often. (Kafka: ZkNodeChangeNotificationListener.)
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from ottla.coordination import znodes
from ottla.coordination.tree import ConnectionLoss, Delete, NoNode, SessionExpired, Stat, Tree, WatchEvent

logger = logging.getLogger(__name__)

KEPT_MS = 15 * 60 * 1000

OnChange = Callable[[str, str], Awaitable[None]]
"""Gets the entity's type ("topics", "brokers", "clients", "users") and its name."""


async def watch_config_changes(
    tree: Tree, on_change: OnChange, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Call `on_change` for each change, in order, until cancelled. Started when what was there has been handled.

    `on_change` may raise SessionExpired: it is called again for the same change once there is a new session.
    """
    seen = -1
    started = False
    while True:
        changed = trio.Event()

        def wake(_: WatchEvent, changed: trio.Event = changed) -> None:
            changed.set()

        try:
            names = await tree.children(znodes.CONFIG_CHANGES, wake)
            numbered = sorted((number, name) for name in names if (number := _number(name)) is not None)
            for number, name in numbered:
                if number > seen:
                    await _handle(tree, f"{znodes.CONFIG_CHANGES}/{name}", on_change)
                    seen = number
        except SessionExpired:
            # What was not handled is looked at again in the next session.
            await tree.wait_connected()
            continue
        await _remove_old(tree, [name for _, name in numbered])
        if not started:
            started = True
            task_status.started()
        await changed.wait()


def _number(name: str) -> int | None:
    digits = name.removeprefix("config_change_")
    return int(digits) if digits.isdecimal() else None


async def _handle(tree: Tree, path: str, on_change: OnChange) -> None:
    try:
        node = await tree.get(path)
        entity_type, _, entity_name = znodes.decode_config_change(path, node.data).partition("/")
        await on_change(entity_type, entity_name)
    except NoNode:
        return
    except znodes.MalformedNode as error:
        # Written by hand, most likely. What was in force before stays in force.
        logger.error("a change of settings cannot be understood: %s", error)


async def _remove_old(tree: Tree, names: list[str]) -> None:
    """Removes the notifications that are too old. `names` are in the order in which the nodes were made. The newest
    node's time counts as the present: a broker whose clock is ahead would remove notifications that others have not
    seen.
    """
    newest: Stat | None = None
    for name in names:
        path = f"{znodes.CONFIG_CHANGES}/{name}"
        try:
            # One look where nothing is old: thousands of changes at once must not mean as many looks for each of them.
            stat = await tree.exists(path)
            if stat is None:
                continue
            if newest is None:
                newest = await tree.exists(f"{znodes.CONFIG_CHANGES}/{names[-1]}")
            if newest is None or newest.ctime_ms - stat.ctime_ms <= KEPT_MS:
                return
            await tree.multi([Delete(path)])
        except NoNode:
            continue
        except (ConnectionLoss, SessionExpired):
            logger.debug("old changes are removed another time: the tree is away")
            return
