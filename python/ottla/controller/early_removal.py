"""Fencing before session expiry: what is done when a broker's process is gone (`neighbours`) and its session is not.

The proof may be wrong: a firewall can refuse what a process would take. So nothing is done that would not be right if
its session had ended just now. Its registration is removed, after which it is out of every ISR, and what it says under
its old epoch counts no more; if it lives, it notices and registers again. Or `/controller` is removed, so that another
one is elected, with a higher epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol

from ottla.coordination import znodes
from ottla.coordination.tree import BadVersion, Check, ConnectionLoss, Delete, NoNode, Operation, Tree, get_or_none

logger = logging.getLogger(__name__)


class Store(Protocol):
    """The tree in the hands of a controller."""

    tree: Tree

    async def multi(self, operations: Sequence[Operation]) -> list[Any]:
        """As Tree.multi; raises ControllerMoved if this controller's time is over."""


async def remove_registration(store: Store, broker: int, epoch: int) -> None:
    """Removes the registration of a process, if it is still the one with this epoch. Raises ControllerMoved."""
    path = znodes.broker_path(broker)
    node = await get_or_none(store.tree, path)
    if node is None or node.stat.czxid != epoch:
        return
    try:
        await store.multi([Delete(path, node.stat.version)])
    except (NoNode, BadVersion):
        # Its session has ended meanwhile, or it has said something new of itself: then it lives.
        return
    logger.warning("the process of broker %d is gone: the end of its session is not waited for", broker)


async def remove_controller(tree: Tree, broker: int, epoch: int, controller_epoch_version: int) -> bool:
    """Removes `/controller`, which names a broker whose process with this epoch is gone. False if another process has
    that id by now.

    `controller_epoch_version` is the version that /controller_epoch had before it was known who the controller is: with
    it, a controller that was elected since stays. Caller looks again who is the controller.
    """
    stat = await tree.exists(znodes.broker_path(broker))
    if stat is not None and stat.czxid != epoch:
        return False
    try:
        await tree.multi([Check(znodes.CONTROLLER_EPOCH, controller_epoch_version), Delete(znodes.CONTROLLER)])
    except (BadVersion, NoNode, ConnectionLoss):
        # Somebody else was quicker, or it is not known what came of it.
        await tree.wait_connected()
    else:
        logger.warning("the process of the controller, broker %d, is gone: another one is elected", broker)
    return True
