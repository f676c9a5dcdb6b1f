"""Who takes changed settings of the broker while it runs, beside those who read them anew each time (KIP-226)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from ottla.broker import connection_limits
from ottla.config.table import DYNAMIC_SETTINGS, TOPIC_SETTINGS
from ottla.coordination.tree import ConnectionLoss, NoNode, SessionExpired
from ottla.replication import cleaner

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

OF_PARTITIONS: Final = {
    setting.broker_name for setting in TOPIC_SETTINGS.values() if setting.broker_name in DYNAMIC_SETTINGS
} | {"log.flush.on.acks.all"}
"""What holds for partitions: the defaults of topics' settings, and what no topic has of its own."""
CONNECTIONS: Final = ("max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides")


def subscribe(broker: Broker, nursery: trio.Nursery) -> None:
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

    def elections() -> None:
        broker.controller.allow_unclean_elections(broker.config.get_bool("unclean.leader.election.enable"))

    def addresses() -> None:
        broker.addresses.change(broker.config)
        # New listeners have bounds of their own.
        connection_limits.apply(broker)
        broker.settings.subscribe(connection_limits.settings(broker.config), lambda: connection_limits.apply(broker))
        nursery.start_soon(_register_again, broker)

    broker.settings.subscribe(OF_PARTITIONS, partitions)
    broker.settings.subscribe(CONNECTIONS, connections)
    broker.settings.subscribe(connection_limits.settings(broker.config), lambda: connection_limits.apply(broker))
    broker.settings.subscribe(["unclean.leader.election.enable"], elections)
    broker.settings.subscribe(["listeners", "advertised.listeners"], addresses)
    broker.settings.subscribe(cleaner.SETTINGS, broker.cleaner.settings_changed)


async def _register_again(broker: Broker) -> None:
    while True:
        try:
            return await broker.registration.update()
        except ConnectionLoss:
            await broker.tree.wait_connected()
        except (NoNode, SessionExpired):
            return None  # the next session registers with what holds then
