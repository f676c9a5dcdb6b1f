"""Who a broker is to the others, and how it connects to them: as the settings of its own listener for brokers say.

The settings are Kafka's: `sasl.mechanism.inter.broker.protocol`, with user and password in the sasl.jaas.config of that
mechanism on the listener between brokers, or for OAUTHBEARER with what `ottla.client.tokens` needs; and the listener's
settings of TLS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.broker import tls
from ottla.broker.authentication import oauthbearer, plain
from ottla.broker.authentication.listeners import of_listener
from ottla.broker.authentication.logins import login, name_of, setting_of
from ottla.client import jaas, oauth, tokens
from ottla.client.security import PLAINTEXT, Security, check_tokens
from ottla.client.tokens import TokenSource
from ottla.config import ConfigError
from ottla.errors import SaslAuthenticationFailed

if TYPE_CHECKING:
    from typing import TypedDict

    from ottla.config import BrokerConfig, Endpoint

    class _Login(TypedDict, total=False):
        """The fields of `Security` that are of SASL."""

        mechanism: str
        username: str
        password: str
        tokens: TokenSource


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
    if mechanism not in sasl.mechanisms:
        raise ConfigError(
            setting,
            f"{setting}={mechanism}: brokers talk to each other through the listener {endpoint}, whose mechanisms are "
            f"{', '.join(sasl.mechanisms)}; it must be one of them",
        )
    if mechanism == oauthbearer.NAME:
        return {"mechanism": mechanism, "tokens": _tokens(config, endpoint)}
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
    if mechanism == plain.NAME and sasl.passwords.get(username) != password:
        raise ConfigError(
            setting,
            f"listener {endpoint}: {found.place}: this broker could not connect to itself: its username is "
            f"{username!r}, and user_{username} is {'another password' if username in sasl.passwords else 'missing'}",
        )
    return {"mechanism": mechanism, "username": username, "password": password}


def _tokens(config: BrokerConfig, endpoint: Endpoint) -> TokenSource:
    """Raises ConfigError, also if the token is to be in a file and is not there. An authorization server is asked when
    a token is needed: it may be away while the broker starts.
    """
    setting = setting_of(endpoint, oauthbearer.NAME)
    found = login(config, endpoint, oauthbearer.NAME, f'{jaas.MODULES[oauthbearer.NAME]} required clientId="...";')
    place, options = (setting, {}) if found is None else found
    given = {
        base: config.text(name_of(config, endpoint, oauthbearer.NAME, base)) or ""
        for base in (tokens.HANDLER, *tokens.NAMES)
    }
    try:
        source = tokens.source(given, options, place)
        check_tokens(source)
        if source.url.startswith("file:"):
            oauth.token(source, f"listener {endpoint}")
    except (ValueError, SaslAuthenticationFailed) as error:
        raise ConfigError(
            setting, f"brokers talk to each other through the listener {endpoint}, by {oauthbearer.NAME}: {error}"
        ) from None
    return source
