"""The election of the controller, and what was won by it.

One `multi` makes the ephemeral `/controller` and raises `/controller_epoch` on condition of its version; both or none.
So there is never a controller whose epoch another one has, and whoever has a smaller epoch has lost. If the answer is
lost, the nodes tell: `/controller` owned by our session with the epoch that we wrote was our doing.
(Kafka: KafkaZkClient.registerControllerAndIncrementControllerEpoch.)
"""

from __future__ import annotations

import contextlib
import logging
from typing import NamedTuple

from ottla.coordination import znodes
from ottla.coordination.tree import (
    BadVersion,
    ConnectionLoss,
    Create,
    Node,
    NodeExists,
    NoNode,
    Set,
    Tree,
    Watch,
    ensure_one,
    get_or_none,
)
from ottla.coordination.znodes import MalformedNode

logger = logging.getLogger(__name__)


class Elected(NamedTuple):
    """The proof of a term: its epoch, the version that /controller_epoch got, and the transaction that made
    /controller.
    """

    epoch: int
    epoch_version: int
    czxid: int


async def elect(tree: Tree, broker_id: int, watch: Watch) -> tuple[Elected | None, int | None]:
    """Become the controller if nobody is. Returns what was won, or None and the id of the broker that is the
    controller.

    The watch tells when `/controller` changes. Raises SessionExpired; a lost connection is waited for.
    """
    while True:
        if await tree.exists(znodes.CONTROLLER, watch) is not None:
            current = await get_or_none(tree, znodes.CONTROLLER)
            if current is None:
                continue
            if current.stat.ephemeral_owner != tree.session_id:
                return None, _named_in(current)
            # Ours, and yet nobody serves: a term that ended on an error and could not give its place back. Without this
            # the cluster would have no controller for as long as our session lives.
            with contextlib.suppress(NoNode, BadVersion, ConnectionLoss):
                await tree.delete(znodes.CONTROLLER, current.stat.version)
            await tree.wait_connected()
            continue
        await ensure_one(tree, znodes.CONTROLLER_EPOCH, znodes.encode_epoch(0))
        counter = await tree.get(znodes.CONTROLLER_EPOCH)
        epoch = znodes.decode_epoch(counter.data) + 1
        try:
            _, stat = await tree.multi(
                [
                    Create(znodes.CONTROLLER, znodes.encode_controller(broker_id, znodes.now_ms()), ephemeral=True),
                    Set(znodes.CONTROLLER_EPOCH, znodes.encode_epoch(epoch), counter.stat.version),
                ]
            )
        except ConnectionLoss:
            await tree.wait_connected()
        except (BadVersion, NodeExists):
            pass
        else:
            return Elected(epoch, stat.version, stat.mzxid), broker_id
        won = await _was_it_us(tree, epoch)
        if won is not None:
            return won, broker_id


def _named_in(controller: Node) -> int | None:
    """The broker that the node names. None if the node cannot be understood: while it is there, nobody is elected."""
    try:
        return znodes.decode_controller(controller.data)
    except MalformedNode as error:
        logger.error("nobody is known to be the controller until the node is removed: %s", error)
        return None


async def _was_it_us(tree: Tree, epoch: int) -> Elected | None:
    controller = await get_or_none(tree, znodes.CONTROLLER)
    counter: Node | None = await get_or_none(tree, znodes.CONTROLLER_EPOCH)
    if controller is None or counter is None or controller.stat.ephemeral_owner != tree.session_id:
        return None
    if znodes.decode_epoch(counter.data) != epoch:
        return None
    return Elected(epoch, counter.stat.version, controller.stat.czxid)
