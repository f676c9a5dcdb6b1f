"""What can go wrong between a client and a broker, besides what `ottla.errors` has: answers and bytes."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from ottla.errors import RemoteProtocolError, SaslAuthenticationFailed


class ConnectionLost(ConnectionError):
    """The connection ended before the answer came. Whether the request was carried out is unknown."""


class UnknownHost(ConnectionLost):
    """No name in the bootstrap list is known to the resolver. Trying again does not help, as in Java's client."""

    retriable = False


class NotABroker(ConnectionLost, RemoteProtocolError):
    """Something else answers there: a web server, a port with TLS, a controller of KRaft. The text says what came, from
    which address, and what to do. It does not become a broker by waiting.
    """

    retriable = False


class TlsFailed(SaslAuthenticationFailed, name="SSL_AUTHENTICATION_FAILED"):
    """The TLS handshake failed. No broker answers that, but to callers it is the same as its brother: trying again
    does not help.
    """


def place(host: str, port: int) -> str:
    """HOST:PORT as people write it: an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class BadAddress(socket.gaierror):
    """The resolver does not know a name, or cannot be asked. The text has the address and no number."""

    def __str__(self) -> str:
        return str(self.strerror)


def check_address(host: str, port: int) -> None:
    """Returns True if anybody can listen there. The resolver takes any number for a port, and means another one by it.

    Raises:
        BadAddress: no.
    """
    why = None
    if not host:
        why = "no host is named"
    elif not 0 < port < 65536:
        why = "no port has this number"
    else:
        try:
            host.encode("idna")
        except UnicodeError:
            why = "no host can have this name"
    if why is not None:
        raise BadAddress(socket.EAI_NONAME, f"{place(host, port)}: {why}")


def unreachable(host: str, port: int, problem: OSError) -> OSError:
    """The error of a connection that could not be made, with the address, and with what its attempts met: trio names
    only the address, and keeps the rest, an error for each address that the name has, in a group.
    """
    where = place(host, port)
    if isinstance(problem, socket.gaierror):
        return BadAddress(problem.errno, f"{where}: {(problem.strerror or '').removeprefix(f'{where}: ')}")
    if not isinstance(problem.__cause__, ExceptionGroup):
        return type(problem)(f"{where}: {os.strerror(problem.errno)}") if problem.errno else problem
    met = problem.__cause__.exceptions
    # The text says the address again, as Python writes it.
    reasons = dict.fromkeys(
        os.strerror(each.errno) if isinstance(each, OSError) and each.errno else str(each) for each in met
    )
    kind = type(met[0]) if isinstance(met[0], ConnectionError) else OSError
    return kind(f"{where}: {', '.join(reasons)}")


def broke(place: str, problem: BaseException) -> ConnectionLost:
    """A connection broke, by what the system says of it, perhaps as the cause of another error."""
    cause = problem.__cause__ or problem
    reason = os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno else str(cause)
    return ConnectionLost(f"{place}: {reason}")


def ended(place: str, *, begins: bool, is_amid: bool) -> ConnectionLost:
    """The other side closed a connection. `begins`: without a user, and after one question at most: a broker that wants
    one tells its versions to everybody, and nothing else. `is_amid`: a part of an answer had come.
    """
    if is_amid:
        return ConnectionLost(f"{place} closed the connection in the middle of an answer")
    hint = "; does this port want a user (security.protocol, SASL)?" if begins else ""
    return ConnectionLost(f"{place} closed the connection{hint}")


def named_by_brokers(problem: BadAddress | NotABroker) -> BadAddress | NotABroker:
    """The error of an address that is not of the bootstrap list: whoever reads it has never written it."""
    hint = "; brokers name this address to clients (advertised.listeners)"
    if isinstance(problem, BadAddress):
        return BadAddress(problem.errno, f"{problem.strerror}{hint}")
    return NotABroker(f"{problem}{hint}")


def reasons(problems: Mapping[str, Exception]) -> str:
    """Returns the reason of each HOST:PORT; once, and without the address, where that is everywhere the same."""
    texts = {address: getattr(each, "strerror", None) or str(each) for address, each in problems.items()}
    short = {text.removeprefix(f"{address}: ") for address, text in texts.items()}
    if len(short) == 1:
        return short.pop()
    return "; ".join(text if text.startswith(address) else f"{address}: {text}" for address, text in texts.items())
