"""What can go wrong between a client and a broker, besides what `ottla.errors` has: answers and bytes."""

from __future__ import annotations

from ottla.errors import SaslAuthenticationFailed


class ConnectionLost(ConnectionError):
    """The connection ended before the answer came. Whether the request was carried out is unknown."""


class UnknownHost(ConnectionLost):
    """No name in the bootstrap list is known to the resolver. Trying again does not help, as in Java's client."""

    retriable = False


class TlsFailed(SaslAuthenticationFailed, name="SSL_AUTHENTICATION_FAILED"):
    """The TLS handshake failed. No broker answers that, but to callers it is the same as its brother: trying again
    does not help.
    """


def ended(place: str, *, begins: bool) -> ConnectionLost:
    """The other side closed a connection. `begins`: without a user, and after one question at most: a broker that wants
    one tells its versions to everybody, and nothing else.
    """
    hint = "; does this port want a user (security.protocol, SASL)?" if begins else ""
    return ConnectionLost(f"{place} closed the connection{hint}")
