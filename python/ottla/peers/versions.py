"""Why a broker ends connections: it may not have what it is asked for.

Brokers ask each other in versions that `inter.broker.protocol.version` fixes, without negotiating. One that does not
have them, being too old or too new, closes the connection and says nothing. So it is asked what it has (ApiVersions)
once that happened, for the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from ottla.errors import KafkaError, ProtocolError
from ottla.wire.schema import Api

Needed = tuple[Api[Any, Any], int]
"""An API, and the version in which it is asked for."""


class Negotiable(Protocol):
    """The part of a connection to a broker that is needed here; `ottla.client.Connection` has it."""

    @property
    def protocol(self) -> Versions: ...

    async def negotiate(self) -> None: ...

    async def aclose(self) -> None: ...


class Versions(Protocol):
    """The versions that a broker has."""

    @property
    def versions(self) -> Mapping[int, tuple[int, int]] | None:
        """The least and the most by the API's key; None: it was not asked yet."""


Open = Callable[[str, int], Awaitable[Negotiable]]
"""Opens a connection to this host and port. Raises OSError."""


async def lacking(host: str, port: int, connect: Open, needed: Iterable[Needed]) -> str | None:
    """Says in words which requests the broker there lacks of those needed; None if it has all, or does not say."""
    try:
        connection = await connect(host, port)
    except (OSError, ProtocolError, KafkaError):
        return None
    try:
        if connection.protocol.versions is None:
            await connection.negotiate()
    except (OSError, ProtocolError, KafkaError):
        return None
    finally:
        await connection.aclose()
    offered = connection.protocol.versions
    assert offered is not None, "a negotiation has come to its end"
    lacks = [text for api, version in needed if (text := _lack(api, version, offered.get(api.key)))]
    if not lacks:
        return None
    return (
        f"{host}:{port} {' and '.join(lacks)}: it is too old or too new for the inter.broker.protocol.version of this "
        "broker"
    )


def _lack(api: Api[Any, Any], version: int, offered: tuple[int, int] | None) -> str:
    if offered is None:
        return f"has no {api.name}"
    least, most = offered
    return "" if least <= version <= most else f"has {api.name} in versions {least} to {most}, and not in {version}"
