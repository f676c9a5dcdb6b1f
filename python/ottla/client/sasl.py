"""SASL as a conversation of values: requests go out, answers come in, no I/O. Both kinds of connection drive it.

SaslHandshake (version 1) names the mechanism, then SaslAuthenticate carries its messages (KIP-152). PLAIN is RFC 4616.
SCRAM is RFC 5802 with Kafka's deviation: user and password are plain UTF-8 and not prepared with SASLprep, which the
libraries for it do; a password such as "½" would not be the one that Kafka stored.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import random
import re
import secrets
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

from ottla.errors import IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism, error
from ottla.kafka import SCRAM_ITERATIONS_MIN
from ottla.wire.k17_sasl_handshake import SASL_HANDSHAKE, SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.k36_sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.schema import Api

if TYPE_CHECKING:
    from ottla.client.security import Security

NONCE_BYTES = 24
ITERATIONS_MAX = 10_000_000
"""A broker that asks for more wants to keep its clients busy: a million takes a second or less."""

_APART = "\x01"
RENEWAL = 0.85, 0.95
"""After which part of a session to authenticate again, at random in between, as Java's client does."""

Conversation = Generator[tuple[Api[Any, Any], Any], Any, int]


def authentication(security: Security, place: str, token: str = "") -> Conversation:
    """Yields requests, wants their answers sent in, and returns how long the session lasts in ms; 0: for ever.

    place: HOST:PORT, for messages.
    token: Of OAUTHBEARER (`oauth.token`).

    Raises:
        UnsupportedSaslMechanism, SaslAuthenticationFailed, IllegalSaslState: the broker refuses, or is not the one that
        knows the password (SCRAM). The message names place, mechanism and user.
    """
    mechanism = security.mechanism
    assert mechanism is not None
    user = security.username if security.tokens is None else security.tokens.user
    who = f"{place}: {mechanism} as '{user}'"
    chosen: SaslHandshakeResponse = yield SASL_HANDSHAKE, SaslHandshakeRequest(mechanism=mechanism)
    if chosen.error_code == UnsupportedSaslMechanism.code:
        offered = ", ".join(chosen.mechanisms) or "none"
        raise UnsupportedSaslMechanism(
            f"{who}: the broker does not offer this mechanism here (sasl.mechanism): {offered}"
        )
    if chosen.error_code == IllegalSaslState.code:
        raise IllegalSaslState(f"{who}: this port takes no authentication; does security.protocol fit it?")
    if chosen.error_code:
        raise error(chosen.error_code, who)
    if security.tokens is not None:
        steps = _bearer(token, security.tokens.extensions, who)
    else:
        steps = _plain(security) if mechanism == "PLAIN" else _scram(security, who)
    message, lifetime_ms = next(steps), 0
    try:
        while True:
            answer: SaslAuthenticateResponse = yield SASL_AUTHENTICATE, SaslAuthenticateRequest(auth_bytes=message)
            if answer.error_code:
                raise error(answer.error_code, f"{who}: {answer.error_message or 'the broker refuses'}")
            lifetime_ms = answer.session_lifetime_ms
            message = steps.send(answer.auth_bytes)
    except StopIteration:
        return lifetime_ms


def renewal_s(lifetime_ms: int) -> float | None:
    """After how long to authenticate again in a session that lasts so long; None: never."""
    return random.uniform(*RENEWAL) * lifetime_ms / 1000 if lifetime_ms > 0 else None


def _plain(security: Security) -> Generator[bytes, bytes, None]:
    yield f"\0{security.username}\0{security.password}".encode()


def _bearer(token: str, extensions: Iterable[tuple[str, str]], who: str) -> Generator[bytes, bytes, None]:
    """RFC 7628. A broker that does not accept the token says why, and refuses when that was taken note of."""
    pairs = [("auth", f"Bearer {token}"), *extensions]
    told = yield f"n,,\x01{''.join(f'{name}={value}{_APART}' for name, value in pairs)}\x01".encode()
    if told:
        yield _APART.encode()
        raise SaslAuthenticationFailed(f"{who}: the broker does not accept the token: {told.decode(errors='replace')}")


def _scram(security: Security, who: str) -> Generator[bytes, bytes, None]:
    digest = "sha256" if security.mechanism == "SCRAM-SHA-256" else "sha512"
    nonce = secrets.token_urlsafe(NONCE_BYTES)
    name = security.username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    server_first = (yield f"n,,{first}".encode()).decode(errors="replace")
    final, signature = scram_final(digest, security.password.encode(), nonce, first, server_first, who)
    server_final = _attributes((yield final.encode()).decode(errors="replace"))
    if "e" in server_final:
        raise SaslAuthenticationFailed(f"{who}: {server_final['e']}")
    if not hmac.compare_digest(_decoded(server_final.get("v", ""), who), signature):
        raise SaslAuthenticationFailed(f"{who}: the broker does not know the password; is it the right broker?")


def scram_final(digest: str, password: bytes, nonce: str, first: str, server_first: str, who: str) -> tuple[str, bytes]:
    """The client's last message, and the signature that the broker must answer with.

    first: the client's first message without its header. server_first: the broker's answer to it.

    Raises:
        SaslAuthenticationFailed: that answer is none.
    """

    def mac(key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, digest)

    found = _attributes(server_first)
    if "e" in found:
        raise SaslAuthenticationFailed(f"{who}: {found['e']}")
    both, iterations = found.get("r", ""), found.get("i", "")
    if "m" in found or not both.startswith(nonce) or both == nonce:
        raise SaslAuthenticationFailed(f"{who}: the broker's answer is not SCRAM's")
    if not re.fullmatch("[0-9]{1,9}", iterations) or not SCRAM_ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
        raise SaslAuthenticationFailed(
            f"{who}: the broker wants '{iterations[:20]}' iterations; there are {SCRAM_ITERATIONS_MIN} to "
            f"{ITERATIONS_MAX}"
        )
    salted = hashlib.pbkdf2_hmac(digest, password, _decoded(found.get("s", ""), who), int(iterations))
    client_key = mac(salted, b"Client Key")
    without_proof = f"c={base64.b64encode(b'n,,').decode()},r={both}"
    everything = f"{first},{server_first},{without_proof}".encode()
    client_signature = mac(hashlib.new(digest, client_key).digest(), everything)
    proof = bytes(one ^ other for one, other in zip(client_key, client_signature, strict=True))
    return f"{without_proof},p={base64.b64encode(proof).decode()}", mac(mac(salted, b"Server Key"), everything)


def _attributes(message: str) -> dict[str, str]:
    """`r=...,s=...,i=...` by its letters."""
    return {name: value for name, _, value in (part.partition("=") for part in message.split(","))}


def _decoded(text: str, who: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SaslAuthenticationFailed(f"{who}: the broker's answer is not SCRAM's") from None
