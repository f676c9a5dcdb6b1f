"""What can go wrong between a client and a broker, besides what `ottla.errors` has: answers and bytes."""

from __future__ import annotations

import os

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


def place(host: str, port: int) -> str:
    """HOST:PORT as people write it: an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def unreachable(host: str, port: int, problem: OSError) -> OSError:
    """The error of a connection that could not be made, with what its attempts met: trio names only the address, and
    keeps the rest, an error for each address that the name has, in a group. Other errors are given back as they are.
    """
    if not isinstance(problem.__cause__, ExceptionGroup):
        return problem
    met = problem.__cause__.exceptions
    # The text says the address again, as Python writes it.
    reasons = dict.fromkeys(
        os.strerror(each.errno) if isinstance(each, OSError) and each.errno else str(each) for each in met
    )
    kind = type(met[0]) if isinstance(met[0], ConnectionError) else OSError
    return kind(f"{place(host, port)}: {', '.join(reasons)}")


def ended(place: str, *, begins: bool) -> ConnectionLost:
    """The other side closed a connection. `begins`: without a user, and after one question at most: a broker that wants
    one tells its versions to everybody, and nothing else.
    """
    hint = "; does this port want a user (security.protocol, SASL)?" if begins else ""
    return ConnectionLost(f"{place} closed the connection{hint}")
