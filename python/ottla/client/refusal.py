"""What it may mean that a broker ends a connection before it could be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.errors import ConnectionLost, TlsFailed

if TYPE_CHECKING:
    from ottla.client.security import Security


def refused(problem: ConnectionLost, security: Security | None, place: str) -> ConnectionLost | TlsFailed:
    """What it may mean that a connection ended before it could be used, TLS being done: the broker does not say."""
    if security is None or not security.tls:
        return ConnectionLost(f"{problem}; does this port want TLS or SASL (security.protocol), or is it ZooKeeper's?")
    from ottla.client.tls import failure

    # With TLS 1.3 a broker looks at our certificate after the handshake. Java's alert then is one that only Java reads.
    wants = (
        ""
        if security.keystore_location or security.keystore_key
        else "; does it want a certificate of ours (ssl.keystore.location)?"
    )
    found = failure(problem, place)
    return ConnectionLost(f"{problem}{wants}") if found is None else TlsFailed(f"{found}{wants}")
