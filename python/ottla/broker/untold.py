"""A broker that starts waits for the controller, which connects to the address that the broker advertises. Where that
leads nowhere, only the controller's log would say so: this broker hears nothing.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

import trio

from ottla.coordination import znodes
from ottla.coordination.tree import SessionExpired, get_or_none
from ottla.coordination.znodes import BrokerRegistration, MalformedNode

if TYPE_CHECKING:
    from ottla.broker.addresses import Addresses
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.config import BrokerConfig
    from ottla.coordination.tree import Tree

#: A controller that lives tells a new broker of the cluster within milliseconds.
UNTOLD_SECONDS: Final = 5.0


class Waiting(Protocol):
    """The parts that are asked of a broker that waits."""

    id: int
    addresses: Addresses
    log: logging.Logger
    metadata: MetadataCache
    tree: Tree

    @property
    def config(self) -> BrokerConfig:
        """The settings that hold now."""


async def say_so(broker: Waiting) -> None:
    """One line, if the controller does not speak to this broker, which is registered."""
    metadata = broker.metadata
    with trio.move_on_after(UNTOLD_SECONDS):
        await metadata.wait_until(lambda: broker.id in metadata.brokers)
    if broker.id in metadata.brokers:
        return
    who = await _controller(broker)
    listener = broker.config.inter_broker_listener
    here = [str(endpoint) for endpoint in broker.addresses.registered() if endpoint.name == listener]
    if broker.id not in metadata.brokers:
        broker.log.warning(
            "%s has told this broker nothing yet. It connects to %s, which this broker advertises: if this lasts, see "
            "advertised.listeners, and whether a firewall is in between",
            who,
            ", ".join(here),
        )


async def _controller(broker: Waiting) -> str:
    """Which broker it is and where, as far as the tree says so."""
    with suppress(SessionExpired, MalformedNode):
        node = await get_or_none(broker.tree, znodes.CONTROLLER)
        if node is None:
            return "the controller (none is elected now)"
        who = znodes.decode_controller(node.data)
        if who == broker.id:
            return f"controller {who}, in this process,"
        with suppress(MalformedNode):
            path = znodes.broker_path(who)
            if (registered := await get_or_none(broker.tree, path)) is not None:
                endpoints = BrokerRegistration.decode(path, registered.data).endpoints
                listener = broker.config.inter_broker_listener
                there = next((each for each in endpoints if each.listener == listener), None)
                return f"controller {who}" + ("" if there is None else f" at {there}")
        return f"controller {who}"
    return "the controller"
