"""Why a broker ends connections: it may not have what it is asked for.

Brokers ask each other in versions that `inter.broker.protocol.version` fixes, without negotiating. One that does not
have them, being too old or too new, closes the connection and says nothing. So it is asked what it has (ApiVersions)
once that happened, for the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.client.connection import Connection
from ottla.errors import KafkaError, ProtocolError
from ottla.wire.schema import Api

if TYPE_CHECKING:
    from ottla.client.security import Security

Needed = tuple[Api[Any, Any], int]
"""An API, and the version in which it is asked for."""


async def lacking(
    host: str,
    port: int,
    client_id: str,
    needed: Iterable[Needed],
    timeout_ms: float,
    security: Security | None = None,
) -> str | None:
    """Says in words which requests the broker there lacks of those needed; None if it has all, or does not say."""
    try:
        connection = await Connection.connect(host, port, client_id, timeout_ms=timeout_ms, security=security)
    except (OSError, ProtocolError, KafkaError):
        return None
    offered = connection.protocol.versions
    await connection.aclose()
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
