"""Who a broker is to the others, and how it connects to them: as the settings of its own listener for brokers say.

The settings are Kafka's: `sasl.mechanism.inter.broker.protocol`, with user and password in the sasl.jaas.config of that
mechanism on the listener between brokers; and the listener's settings of TLS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.broker import tls
from ottla.broker.authentication import oauthbearer
from ottla.broker.authentication.listeners import SERVED, of_listener
from ottla.broker.authentication.logins import login, setting_of
from ottla.client import jaas
from ottla.client.security import PLAINTEXT, Security
from ottla.config import ConfigError

if TYPE_CHECKING:
    from typing import TypedDict

    from ottla.config import BrokerConfig, Endpoint

    class _Login(TypedDict, total=False):
        """The fields of `Security` that are of SASL."""

        mechanism: str
        username: str
        password: str


Found: TypeAlias = "tuple[Security | None, dict[str, tls.Stamp]]"
"""The two parts of `Access`."""


class Access:
    """How this broker comes in at others: what the settings and their files said when they were read last.

    security: Of new connections; None: they are plain text, and nobody wants to know who comes. files: those that were
    read, as they were before.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self.security: Security | None = None
        self.files: dict[str, tls.Stamp] = {}
        self.renew(config)

    def renew(self, config: BrokerConfig) -> None:
        """Reads them again. Raises ConfigError, and nothing has changed."""
        self.take(read(config))

    def take(self, found: Found) -> None:
        """New connections are as `read` has found."""
        self.security, self.files = found

    def __call__(self) -> Security | None:
        return self.security


def check(config: BrokerConfig) -> None:
    """Raises ConfigError if brokers with these settings would not let each other in."""
    read(config)


def read(config: BrokerConfig) -> Found:
    """Reads the settings and their files. Raises ConfigError."""
    name = config.inter_broker_listener
    endpoint = next((each for each in config.listeners if each.name == name), None)
    if endpoint is None or endpoint.protocol == PLAINTEXT:
        return None, {}
    as_user = _login(config, endpoint)
    if not endpoint.protocol.endswith("SSL"):
        return Security(endpoint.protocol, **as_user), {}
    encryption = tls.to_others(config, endpoint)
    return Security(endpoint.protocol, **encryption.fields, **as_user), encryption.files


def _login(config: BrokerConfig, endpoint: Endpoint) -> _Login:
    """The mechanism and the user; nothing if the listener has no SASL. Raises ConfigError."""
    sasl = of_listener(config, endpoint)
    if sasl is None:
        return {}
    setting = "sasl.mechanism.inter.broker.protocol"
    mechanism = config.get_str(setting) or ""
    if mechanism == oauthbearer.NAME:
        others = [each for each in SERVED if each != mechanism]
        raise ConfigError(
            setting,
            f"{setting}={mechanism}: brokers come in at each other by {', '.join(others)}; name one of them, among the "
            "mechanisms of their listener too",
        )
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
    return {"mechanism": mechanism, "username": found.options["username"], "password": found.options["password"]}
