"""The SASL settings of listeners: which mechanisms they have, who may come in by PLAIN, and for how long.

The settings are Kafka's: `listener.name.LISTENER.sasl.enabled.mechanisms`, or `sasl.enabled.mechanisms` for all
listeners; `listener.name.LISTENER.MECHANISM.sasl.jaas.config`, which for PLAIN has an option `user_NAME` with each
user's password; and `connections.max.reauth.ms` with both prefixes, one, or none. Users of SCRAM are in the
coordination tree, those of OAUTHBEARER in tokens (`oauth_settings`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.broker.authentication import oauthbearer, plain
from ottla.broker.authentication.logins import login, setting_of
from ottla.broker.authentication.oauth_settings import HANDLER, of_tokens
from ottla.broker.authentication.tokens import Rules
from ottla.broker.scram import Mechanism
from ottla.client import jaas, tokens
from ottla.config import ConfigError

if TYPE_CHECKING:
    from ottla.config import BrokerConfig, Endpoint

SCRAM: Final = {kind.setting: kind for kind in Mechanism}
SERVED: Final = (plain.NAME, *SCRAM, oauthbearer.NAME)
_KERBEROS: Final = "GSSAPI"
_USER: Final = "user_"
_EXAMPLE: Final = f'{jaas.MODULES[plain.NAME]} required user_alice="..." user_bob="...";'


@dataclass(frozen=True)
class Sasl:
    """The SASL of one listener.

    mechanisms: Their names, in the order of the setting.
    passwords: Of PLAIN, by user.
    session_ms: For how long a client is known that came in by a mechanism; 0: for ever.
    failure_delay_ms: How long a client that is refused waits for its answer.
    tokens: The rules for those of OAUTHBEARER; None: it is not among the mechanisms.
    """

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, str]
    session_ms: Mapping[str, int]
    failure_delay_ms: int
    tokens: Rules | None = None


def check(config: BrokerConfig) -> None:
    """Raises ConfigError for the first listener whose settings cannot be served."""
    for endpoint in config.listeners:
        of_listener(config, endpoint)


def of_listener(config: BrokerConfig, endpoint: Endpoint) -> Sasl | None:
    """The SASL of a listener; None if it has none. Raises ConfigError."""
    if not endpoint.protocol.startswith("SASL"):
        return None
    own = f"listener.name.{endpoint.name.lower()}."
    setting = "sasl.enabled.mechanisms"
    setting = own + setting if config.is_set(own + setting) else setting
    mechanisms = tuple(dict.fromkeys(config.get_list(setting)))
    if not mechanisms:
        raise ConfigError(setting, f"listener {endpoint}: {setting} names no mechanism: nobody could come in")
    for mechanism in mechanisms:
        if mechanism not in SERVED:
            instead = "Ottla has no Kerberos; " if mechanism == _KERBEROS else ""
            raise ConfigError(
                setting,
                f"listener {endpoint}: {setting} names {mechanism}, which Ottla does not serve: {instead}possible are "
                f"{', '.join(SERVED)}",
            )
        _refuse_handlers(config, endpoint, f"{own}{mechanism.lower()}.")
    return Sasl(
        mechanisms,
        _passwords(config, endpoint) if plain.NAME in mechanisms else {},
        {each: _session_ms(config, own, each) for each in mechanisms},
        config.get_int("connection.failed.authentication.delay.ms"),
        of_tokens(config, endpoint) if oauthbearer.NAME in mechanisms else None,
    )


def _passwords(config: BrokerConfig, endpoint: Endpoint) -> dict[str, str]:
    found = login(config, endpoint, plain.NAME, _EXAMPLE)
    setting = setting_of(endpoint, plain.NAME)
    if found is None:
        raise ConfigError(
            setting, f"listener {endpoint}: {setting} is missing, which has the users of PLAIN: {_EXAMPLE}"
        )
    users = {name.removeprefix(_USER): value for name, value in found.options.items() if name.startswith(_USER)}
    users.pop("", None)
    if not users:
        raise ConfigError(setting, f"listener {endpoint}: {found.place} names no user: {_EXAMPLE}")
    return users


def _session_ms(config: BrokerConfig, own: str, mechanism: str) -> int:
    base = "connections.max.reauth.ms"
    for name in (f"{own}{mechanism.lower()}.{base}", own + base):
        if config.is_set(name):
            return max(0, config.get_int(name))
    return max(0, config.get_int(base))


def _refuse_handlers(config: BrokerConfig, endpoint: Endpoint, own: str) -> None:
    """Raises ConfigError if a class of Java is to decide who comes in."""
    is_of_tokens = own.endswith(f".{oauthbearer.NAME.lower()}.")
    for name in (HANDLER, tokens.HANDLER, "sasl.login.class"):
        value = config.get_str(own + name)
        # `of_tokens` looks at the first.
        is_known = is_of_tokens and (name == HANDLER or (name == tokens.HANDLER and value in tokens.HANDLERS))
        if value and not is_known:
            raise ConfigError(
                own + name,
                f"listener {endpoint}: {own}{name}: Ottla runs no Java class that decides who comes in; remove the "
                "setting, and name the users in the listener's sasl.jaas.config (PLAIN) or in the coordination tree "
                "(SCRAM)",
            )
