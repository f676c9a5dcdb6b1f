"""The rules of a listener for tokens of OAUTHBEARER, from its settings.

Tokens that are signed are taken by the settings of Kafka 3.1 (KIP-768), `sasl.oauthbearer.*`, with the prefixes
`listener.name.LISTENER.oauthbearer.` and `listener.name.LISTENER.` or none. Those without a signature, which Kafka 2.7
takes unless it is told otherwise, are taken only where `sasl.server.callback.handler.class` names Kafka's class for
them; their rules are options in the listener's sasl.jaas.config.
"""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Final

from ottla.broker.authentication import keys, oauthbearer
from ottla.broker.authentication.logins import login, name_of, setting_of
from ottla.broker.authentication.tokens import Rules
from ottla.client import jaas
from ottla.config import ConfigError

if TYPE_CHECKING:
    from ottla.config import BrokerConfig, Endpoint

HANDLER: Final = "sasl.server.callback.handler.class"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
UNSIGNED: Final = f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
#: Kafka 3.1 to 3.3 has the first, later ones the second.
SIGNED: Final = (
    f"{_PACKAGE}.secured.OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
)
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_OPTION: Final = "unsecuredValidator"


def of_tokens(config: BrokerConfig, endpoint: Endpoint) -> Rules:
    """Raises ConfigError, also if the keys are in a file that has none."""
    handler_setting = f"listener.name.{endpoint.name.lower()}.oauthbearer.{HANDLER}"
    handler = config.get_str(handler_setting) or ""
    if handler == UNSIGNED:
        return _unsigned(config, endpoint)
    if handler and handler not in SIGNED:
        raise ConfigError(
            handler_setting,
            f"listener {endpoint}: {handler_setting}={handler}: Ottla runs no Java class that decides who comes in; "
            f"possible are {SIGNED[1]} for tokens that are signed, and {UNSIGNED} for others",
        )

    def name(base: str) -> str:
        return name_of(config, endpoint, oauthbearer.NAME, base)

    url = config.get_str(name(_URL))
    if not url:
        raise ConfigError(
            name(_URL),
            f"listener {endpoint}: {name(_URL)} is not set: it says where the keys are that sign tokens. To take "
            f"tokens that are not signed, which anybody can write, set {handler_setting}={UNSIGNED}",
        )
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme not in keys.SCHEMES:
        raise ConfigError(
            name(_URL), f"listener {endpoint}: {name(_URL)}={url}: it begins with https://, http:// or file://"
        )
    _check_library(endpoint, name(_URL))
    if scheme == "file":
        try:
            keys.read(url)
        except (OSError, ValueError) as error:
            raise ConfigError(name(_URL), f"listener {endpoint}: {name(_URL)}={url}: {error}") from None
    return Rules(
        url,
        config.get_int(name("sasl.oauthbearer.jwks.endpoint.refresh.ms")),
        config.get_str(name("sasl.oauthbearer.expected.issuer")) or None,
        tuple(config.get_list(name("sasl.oauthbearer.expected.audience"))),
        config.get_int(name("sasl.oauthbearer.clock.skew.seconds")),
        config.get_str(name("sasl.oauthbearer.sub.claim.name")) or "sub",
        config.get_str(name("sasl.oauthbearer.scope.claim.name")) or "scope",
    )


def _check_library(endpoint: Endpoint, setting: str) -> None:
    try:
        import cryptography
        import jwt  # noqa: F401
    except ImportError:
        raise ConfigError(
            setting,
            f"listener {endpoint}: tokens that are signed need the packages PyJWT and cryptography: "
            "pip install 'ottla[security]'",
        ) from None
    del cryptography


def _unsigned(config: BrokerConfig, endpoint: Endpoint) -> Rules:
    example = f"{jaas.MODULES[oauthbearer.NAME]} required;"
    found = login(config, endpoint, oauthbearer.NAME, example)
    options = {} if found is None else found.options

    def option(name: str) -> str:
        return options.get(_OPTION + name, "").strip()

    skew = option("AllowableClockSkewMs") or "0"
    if not skew.isdecimal():
        setting = setting_of(endpoint, oauthbearer.NAME)
        place = setting if found is None else found.place
        raise ConfigError(setting, f"listener {endpoint}: {place}: {_OPTION}AllowableClockSkewMs={skew} is no number")
    return Rules(
        None,
        skew_s=int(skew) / 1000,
        user_claim=option("PrincipalClaimName") or "sub",
        scope_claim=option("ScopeClaimName") or "scope",
        scopes=tuple(option("RequiredScope").split()),
    )
