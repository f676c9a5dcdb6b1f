"""Who takes changed settings of the broker while it runs, beside those who read them anew each time (KIP-226)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

import trio

from ottla.broker import connection_limits, identity, network_threads, secured
from ottla.config.table import DYNAMIC_SETTINGS, TOPIC_SETTINGS
from ottla.controller.same_address import Holder, holder
from ottla.coordination.tree import ConnectionLoss, NoNode, SessionExpired
from ottla.replication import cleaner, throttles

if TYPE_CHECKING:
    from ottla.broker.addresses import Addresses
    from ottla.broker.settings import Settings
    from ottla.config import BrokerConfig
    from ottla.controller.controller import Controller
    from ottla.controller.registration import Registration
    from ottla.coordination.tree import Tree
    from ottla.net import Server
    from ottla.replication.cleaner import Cleaner
    from ottla.replication.following import Following
    from ottla.replication.log_manager import LogManager
    from ottla.replication.replicas import Replicas
    from ottla.replication.throttles import Throttles

OF_PARTITIONS: Final = {
    setting.broker_name for setting in TOPIC_SETTINGS.values() if setting.broker_name in DYNAMIC_SETTINGS
} | {"log.flush.on.acks.all"}
"""The settings that hold for partitions: the defaults of topics' settings, and those that no topic has of its own."""
CONNECTIONS: Final = ("max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides")


class Parts(Protocol):
    """The parts of a broker that hear of changed settings."""

    id: int
    log: logging.Logger
    settings: Settings
    server: Server
    logs: LogManager
    replicas: Replicas
    following: Following
    cleaner: Cleaner
    addresses: Addresses
    controller: Controller
    registration: Registration
    throttles: Throttles
    tree: Tree

    @property
    def config(self) -> BrokerConfig:
        """The settings that hold now."""


def subscribe(broker: Parts, nursery: trio.Nursery) -> None:
    """From now on every change reaches those whom it concerns."""

    def partitions() -> None:
        broker.logs.settings_changed()
        broker.replicas.settings_changed()

    def connections() -> None:
        config = broker.config
        broker.server.hub.limit_connections(
            config.get_int("max.connections"),
            config.get_int("max.connections.per.ip"),
            config.connections_per_ip_overrides,
        )

    def limits() -> None:
        connection_limits.apply(broker.config, broker.server.hub)

    def elections() -> None:
        broker.controller.allow_unclean_elections(broker.config.get_bool("unclean.leader.election.enable"))

    def threads() -> None:
        network_threads.serve(broker.server, broker.config)

    async def change_addresses() -> None:
        if (other := await _holder(broker)) is not None:
            # Somebody wrote it past AlterConfigs, or the other has come since.
            broker.log.error("a change of advertised.listeners has no effect, for an address is another's: %s", other)
            return
        broker.addresses.change(broker.config)
        # New listeners have bounds of their own.
        limits()
        broker.settings.subscribe(connection_limits.settings(broker.config), limits)
        broker.settings.subscribe(secured.settings(broker.config), certificates)
        await register_again(broker)

    def addresses() -> None:
        nursery.start_soon(change_addresses)

    def certificates() -> None:
        nursery.start_soon(broker.addresses.secured.load, lambda: broker.config)

    nursery.start_soon(broker.addresses.secured.watch, lambda: broker.config)

    broker.settings.subscribe(OF_PARTITIONS, partitions)
    broker.settings.subscribe(CONNECTIONS, connections)
    broker.settings.subscribe(connection_limits.settings(broker.config), limits)
    broker.settings.subscribe(["unclean.leader.election.enable"], elections)
    broker.settings.subscribe(["listeners", "advertised.listeners"], addresses)
    broker.settings.subscribe(secured.settings(broker.config), certificates)
    broker.settings.subscribe([network_threads.SETTING], threads)
    broker.settings.subscribe(["num.replica.fetchers"], broker.following.fetchers_changed)
    broker.settings.subscribe(throttles.RATES, lambda: broker.throttles.rates_changed(broker.config))
    broker.settings.subscribe(cleaner.SETTINGS, broker.cleaner.settings_changed)


async def register_again(broker: Parts) -> None:
    """Renews this broker's registration, whose contents have changed."""
    while True:
        try:
            return await broker.registration.update()
        except ConnectionLoss:
            await broker.tree.wait_connected()
        except (NoNode, SessionExpired):
            return None  # the next session registers with what holds then


async def _holder(broker: Parts) -> Holder | None:
    """Another broker that has an address which is new in the settings that hold when this returns."""
    while True:
        config = broker.config
        try:
            found = await holder(broker.tree, broker.id, identity.in_tree(broker.addresses.newly(config)))
        except SessionExpired:
            await broker.tree.wait_connected()
            continue
        if broker.config is config:
            return found
