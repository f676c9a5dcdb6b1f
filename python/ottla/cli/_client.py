"""What commands that talk to a cluster share: the options, the run of trio, and a quick end where nobody listens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli._errors import explained

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])


def client_options(function: Function) -> Function:
    """Adds `--bootstrap` (also by the name that Kafka's tools give it) and `--timeout-ms` to a command."""
    function = click.option(
        "--timeout-ms",
        type=click.IntRange(1),
        default=30_000,
        show_default=True,
        metavar="MS",
        help="How long an answer may take.",
    )(function)
    return click.option(
        "-b",
        "--bootstrap",
        "--bootstrap-server",
        "bootstrap",
        envvar="OTTLA_BOOTSTRAP",
        default="127.0.0.1:9092",
        show_default=True,
        metavar="HOST:PORT,...",
        help="Brokers to ask first; also $OTTLA_BOOTSTRAP.",
    )(function)


def with_cluster(doing: str, bootstrap: str, timeout_ms: int, work: Callable[[Cluster], Awaitable[T]]) -> T:
    """Runs `work` with a connection to the cluster. What goes wrong becomes one line: `doing: why`.

    doing: e.g. "cannot create topic 'a'".
    """
    import trio

    from ottla.client.cluster import Cluster, parse_bootstrap

    try:
        parse_bootstrap(bootstrap)
    except ValueError as error:
        raise click.BadParameter(f"{bootstrap!r}: {error}, such as 127.0.0.1:9092", param_hint="--bootstrap") from None

    async def run() -> T:
        async with Cluster(bootstrap, client_id="ottla-cli", timeout_ms=timeout_ms) as cluster:
            try:
                # Later calls are repeated until the time is over; where nobody listens at all, that is a long wait
                # for nothing.
                await cluster.any_connection()
            except OSError as error:
                raise click.ClickException(
                    f"{doing}: {error}; is a broker running there? (`ottla serve` starts one)"
                ) from None
            return await work(cluster)

    with explained(doing):
        return trio.run(run)
