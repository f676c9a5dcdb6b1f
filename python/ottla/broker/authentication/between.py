"""Who a broker is to the others: the mechanism and the user that its own settings name.

The settings are Kafka's: `sasl.mechanism.inter.broker.protocol`, and user and password in the sasl.jaas.config of that
mechanism on the listener between brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.authentication.listeners import of_listener
from ottla.broker.authentication.logins import login, setting_of
from ottla.client import jaas
from ottla.client.security import Security
from ottla.config import ConfigError

if TYPE_CHECKING:
    from ottla.config import BrokerConfig


def security(config: BrokerConfig) -> Security | None:
    """Returns how this broker comes in at others; None: they serve everybody. Raises ConfigError."""
    name = config.inter_broker_listener
    endpoint = next((each for each in config.listeners if each.name == name), None)
    sasl = None if endpoint is None else of_listener(config, endpoint)
    if endpoint is None or sasl is None:
        return None
    setting = "sasl.mechanism.inter.broker.protocol"
    mechanism = config.get_str(setting) or ""
    if mechanism not in sasl.mechanisms:
        raise ConfigError(
            setting,
            f"{setting}={mechanism}: brokers talk to each other through the listener {endpoint}, whose mechanisms are "
            f"{', '.join(sasl.mechanisms)}; it must be one of them",
        )
    setting = setting_of(endpoint, mechanism)
    example = f'{jaas.MODULES[mechanism]} required username="..." password="...";'
    found = login(config, endpoint, mechanism, example)
    if found is None:
        raise ConfigError(
            setting,
            f"brokers talk to each other through the listener {endpoint}: {setting} is missing, which says who this "
            f"broker is: {example}",
        )
    for option in ("username", "password"):
        if not found.options.get(option):
            raise ConfigError(
                setting,
                f"brokers talk to each other through the listener {endpoint}: {found.place} has no {option}: {example}",
            )
    username, password = found.options["username"], found.options["password"]
    return Security(endpoint.protocol, mechanism=mechanism, username=username, password=password)
