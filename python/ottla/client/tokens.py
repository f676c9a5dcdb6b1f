"""Where a client has the tokens from with which it comes in by OAUTHBEARER (KIP-255, KIP-768). `oauth` gets them.

| settings                                                                            | the token                    |
|-------------------------------------------------------------------------------------|------------------------------|
| `sasl.oauthbearer.token.endpoint.url=https://...`, and `clientId`, `clientSecret`   | one of an authorization      |
| and, if need be, `scope` in `sasl.jaas.config`                                      | server (RFC 6749, 4.4)       |
| `sasl.oauthbearer.token.endpoint.url=file:///PATH`                                  | what is in the file          |
| `unsecuredLoginStringClaim_sub` and the like in `sasl.jaas.config`                  | one without a signature, for |
|                                                                                     | tests                        |
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

URL: Final = "sasl.oauthbearer.token.endpoint.url"
ENCODE: Final = "sasl.oauthbearer.header.urlencode"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE: Final = "sasl.oauthbearer.scope"
#: That have an effect.
NAMES: Final = (URL, ENCODE, CLIENT_ID, CLIENT_SECRET, SCOPE)
HANDLER: Final = "sasl.login.callback.handler.class"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
#: Kafka's own classes that get tokens: what they do is done here.
HANDLERS: Final = (
    f"{_PACKAGE}.secured.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
)
SCHEMES: Final = ("https", "http", "file")
_EXTENSION_NAME: Final = re.compile("[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
_UNSIGNED: Final = "unsecuredLogin"
_COMPUTED: Final = ("iat", "exp")


@dataclass(frozen=True, slots=True)
class TokenSource:
    """Where tokens come from.

    claims: Of tokens that are made here, in JSON; "" where `url` says where they come from.
    extensions: What the broker is told beside the token (KIP-342).
    tls: How the authorization server is trusted: settings of a client (`ssl.*`); without them as the system trusts.
    encodes: Id and secret are encoded as in a form before they are sent (RFC 6749, 2.3.1).
    """

    url: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    encodes: bool = False
    claims: str = ""
    lifetime_s: float = 3600.0
    extensions: tuple[tuple[str, str], ...] = ()
    tls: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def user(self) -> str:
        """Its name in messages."""
        return self.client_id or self.url or str(json.loads(self.claims).get("sub", ""))


def source(given: Mapping[str, str], options: Mapping[str, str], setting: str) -> TokenSource:
    """From a client's settings and the options of its login module, which stand in `setting`.

    Raises:
        ValueError: it names the setting that is wrong; nothing secret is in the message.
    """
    handler, url = given.get(HANDLER, ""), given.get(URL, "")
    if handler and handler not in HANDLERS:
        raise ValueError(f"{HANDLER} is not supported: it names a Java class; {URL} says where tokens come from")
    extensions = _extensions(options, "extension_" if url else f"{_UNSIGNED}Extension_", setting)
    if not url:
        if not any(name.startswith(_UNSIGNED) for name in options):
            raise ValueError(f"{URL} is missing, which says where tokens come from: https://... or file://...")
        claims, lifetime_s = _claims(options, setting)
        return TokenSource(claims=claims, lifetime_s=lifetime_s, extensions=extensions)
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or (parts.scheme != "file" and not parts.hostname):
        raise ValueError(f"{URL} is '{url}'; it begins with https://, http:// or file://")
    if parts.scheme == "file":
        return TokenSource(url, extensions=extensions)
    client_id = given.get(CLIENT_ID) or options.get("clientId", "")
    secret = given.get(CLIENT_SECRET) or options.get("clientSecret", "")
    for value, option, name in ((client_id, "clientId", CLIENT_ID), (secret, "clientSecret", CLIENT_SECRET)):
        if not value:
            raise ValueError(f"{setting} has no {option}, nor is {name} set: {URL} needs both")
    return TokenSource(
        url,
        client_id,
        secret,
        given.get(SCOPE) or options.get("scope", ""),
        encodes=given.get(ENCODE, "").lower() == "true",
        extensions=extensions,
        tls=tuple((name, value) for name, value in options.items() if name.startswith("ssl.")),
    )


def _extensions(options: Mapping[str, str], prefix: str, setting: str) -> tuple[tuple[str, str], ...]:
    found = [(name.removeprefix(prefix), value) for name, value in options.items() if name.startswith(prefix)]
    for name, value in found:
        if name == "auth" or not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value):
            raise ValueError(f"{setting}: {prefix}{name} is no extension: letters, and a value that can be printed")
    return tuple(found)


def _claims(options: Mapping[str, str], setting: str) -> tuple[str, float]:
    """The claims of a token that is made here, and how many seconds it is good for."""
    claims: dict[str, Any] = {}
    lifetime = options.get(f"{_UNSIGNED}LifetimeSeconds", "3600")
    if not lifetime.isdecimal():
        raise ValueError(f"{setting}: {_UNSIGNED}LifetimeSeconds is no number")
    for option, value in options.items():
        kind, underscore, name = option.removeprefix(_UNSIGNED).partition("Claim_")
        if not option.startswith(_UNSIGNED) or not underscore or name in _COMPUTED:
            continue
        match kind:
            case "String":
                claims[name] = value
            case "List":
                # Its first character is the separator.
                claims[name] = value[1:].split(value[0]) if value else []
            case "Number":
                try:
                    claims[name] = float(value)
                except ValueError:
                    raise ValueError(f"{setting}: {option} is no number") from None
    principal = options.get(f"{_UNSIGNED}PrincipalClaimName", "") or "sub"
    if not claims.get(principal):
        raise ValueError(f"{setting} has no {_UNSIGNED}StringClaim_{principal}, which is the user's name")
    return json.dumps(claims), float(lifetime)
