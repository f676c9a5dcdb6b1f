"""Names of topics and groups for shells that complete a command line: the cluster is asked that the line names, by
--bootstrap, --command-config or their variables.

A shell waits for the answer and shows what is written to stderr in the middle of the line. So a cluster has little time
to answer, and one that does not answer has no names.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

#: For the connection, the answer, and a handshake of TLS or SASL.
_PATIENCE_S: Final = 2.0
#: No one reads more names; a shell asks before it shows a hundred.
_NAMES_MAX: Final = 1_000


def topics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The topics whose names begin so; internal ones only where an underline was typed."""

    async def ask(cluster: Cluster) -> Iterable[str]:
        from ottla.client.admin import Admin
        from ottla.kafka import INTERNAL_TOPICS

        hidden = INTERNAL_TOPICS if not incomplete else ()
        return [name for name in await Admin(cluster).list_topics() if name not in hidden]

    return _asked(context, incomplete, ask)


def groups(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The groups whose names begin so."""

    async def ask(cluster: Cluster) -> Iterable[str]:
        from ottla.client.groups import Groups

        return [row.group for row in await Groups(cluster).listed()]

    return _asked(context, incomplete, ask)


def _asked(context: click.Context, incomplete: str, ask: Callable[[Cluster], Awaitable[Iterable[str]]]) -> list[str]:
    import logging

    import trio

    from ottla.cli._client import SECURITY
    from ottla.client.cluster import Cluster

    found: list[str] = []

    async def names() -> None:
        with trio.move_on_after(_PATIENCE_S):
            servers, security = context.params["bootstrap"], context.meta.get(SECURITY)
            timeout_ms = int(1000 * _PATIENCE_S)
            async with Cluster(servers, client_id="ottla-cli", timeout_ms=timeout_ms, security=security) as cluster:
                found.extend(await ask(cluster))

    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        trio.run(names)
    except Exception:
        # Whatever is wrong, the command itself says it.
        return []
    finally:
        logging.disable(before)
    given = {each for value in context.params.values() if isinstance(value, tuple) for each in value}
    return sorted(name for name in found if name.startswith(incomplete) and name not in given)[:_NAMES_MAX]
