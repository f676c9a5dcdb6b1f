"""What can go wrong between a client and a broker, besides what `ottla.errors` has: answers and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import SaslAuthenticationFailed

if TYPE_CHECKING:
    from ottla.client.security import Security


class ConnectionLost(ConnectionError):
    """The connection ended before the answer came. Whether the request was carried out is unknown."""


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


def refused(problem: ConnectionLost, security: Security | None, place: str) -> ConnectionLost | TlsFailed:
    """What it may mean that a connection ended before it could be used, TLS being done: the broker does not say."""
    if security is None or not security.tls:
        return ConnectionLost(f"{problem}; does this port want TLS or SASL (security.protocol)?")
    from ottla.client.tls import failure

    # With TLS 1.3 a broker looks at our certificate after the handshake. Java's alert then is one that only Java reads.
    wants = "" if security.keystore_location else "; does it want a certificate of ours (ssl.keystore.location)?"
    found = failure(problem, place)
    return ConnectionLost(f"{problem}{wants}") if found is None else TlsFailed(f"{found}{wants}")
