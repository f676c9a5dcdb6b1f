"""Hearing of changed settings: every broker watches `/config/changes` and reads again what is named there.

A change is told by a sequential node that names the entity. Nodes are kept for 15 minutes, so that every broker sees
them, and removed by whoever looks when there is a newer one. A broker that starts reads all settings anyway; what it
then finds here names entities it may read once too often. (Kafka: ZkNodeChangeNotificationListener.) So does one that
has a new session: it may have been away for longer than the nodes are kept. (Kafka's does not.)
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence

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
_NAME = re.compile("config_change_[0-9]{10}")

OnChange = Callable[[str, str], Awaitable[None]]
"""Gets the entity's type ("topics", "brokers", "clients", "users") and its name."""


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
                names = await tree.children(znodes.CONFIG_CHANGES, wake)
                # Names are in the order of their numbers, and thousands are known already.
                new = [name for name in names[bisect_right(names, last) :] if _is_change(name)]
                for some in batches(new):
                    paths = [f"{znodes.CONFIG_CHANGES}/{name}" for name in some]
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
                await _come_back(tree, changed, wake)
                continue
            await _remove_old(tree, names)
            if not started:
                started = True
                task_status.started()
            await changed.wait()
    finally:
        stop_listening()


async def _come_back(tree: Tree, changed: trio.Event, wake: Watch) -> None:
    """Returns when the tree may have its settings again."""
    try:
        if await tree.exists(znodes.CONFIG_CHANGES, wake) is None:
            await changed.wait()
        else:
            # Only a part of it is there yet.
            await trio.sleep(RETRY_S)
    except SessionExpired:
        await tree.wait_connected()


def _is_change(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _newest(names: Sequence[str]) -> str:
    return next(name for name in reversed(names) if _is_change(name))


async def _handle(path: str, data: bytes, on_change: OnChange) -> None:
    try:
        entity_type, _, entity_name = znodes.decode_config_change(path, data).partition("/")
        await on_change(entity_type, entity_name)
    except NoNode:
        return
    except znodes.MalformedNode as error:
        # Written by hand, most likely. What was in force before stays in force.
        logger.error("a change of settings cannot be understood: %s", error)


async def _remove_old(tree: Tree, names: Sequence[str]) -> None:
    """Removes the notifications that are too old. `names` are in the order in which the nodes were made. The newest
    node's time counts as the present: a broker whose clock is ahead would remove notifications that others have not
    seen.
    """
    newest: Stat | None = None
    for name in (name for name in names if _is_change(name)):
        path = f"{znodes.CONFIG_CHANGES}/{name}"
        try:
            # One look where nothing is old: thousands of changes at once must not mean as many looks for each of them.
            stat = await tree.exists(path)
            if stat is None:
                continue
            if newest is None:
                newest = await tree.exists(f"{znodes.CONFIG_CHANGES}/{_newest(names)}")
            if newest is None or newest.ctime_ms - stat.ctime_ms <= KEPT_MS:
                return
            await tree.multi([Delete(path)])
        except NoNode:
            continue
        except (ConnectionLoss, SessionExpired):
            logger.debug("old changes are removed another time: the tree is away")
            return
