"""What commands that talk to a cluster share: the options, the run of trio, and a quick end where nobody listens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli._errors import explained

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

T = TypeVar("T")
_SECURITY = "ottla.security"
"""Where a command's context keeps it."""

Function = TypeVar("Function", bound=Callable[..., Any])


def client_options(function: Function) -> Function:
    """Adds `--bootstrap` (also by the name that Kafka's tools give it), `--timeout-ms` and `--command-config` to a
    command; the command need not know of the last one.
    """
    function = click.option(
        "--command-config",
        type=click.Path(),
        envvar="OTTLA_COMMAND_CONFIG",
        metavar="FILE",
        expose_value=False,
        callback=_keep_security,
        help="Properties of Kafka's clients for TLS and SASL (security.protocol, ssl.*, sasl.*); also "
        "$OTTLA_COMMAND_CONFIG.",
    )(function)
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


def _keep_security(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    from ottla.client.security import Security
    from ottla.config import properties
    from ottla.config.values import ConfigError

    try:
        context.meta[_SECURITY] = Security.of({key: value for key, value, _ in properties.read(path)})
    except ConfigError as error:
        raise click.BadParameter(str(error), context, parameter) from None
    except ValueError as error:
        raise click.BadParameter(f"{path}: {error}", context, parameter) from None


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

    security = click.get_current_context().meta.get(_SECURITY)

    async def run() -> T:
        async with Cluster(bootstrap, client_id="ottla-cli", timeout_ms=timeout_ms, security=security) as cluster:
            try:
                # Later calls are repeated until the time is over; where nobody listens at all, that is a long wait
                # for nothing.
                await cluster.any_connection()
            except ValueError as error:  # what --command-config names cannot be read
                raise click.ClickException(f"{doing}: {error}") from None
            except OSError as error:
                raise click.ClickException(
                    f"{doing}: {error}; is a broker running there? (`ottla serve` starts one)"
                ) from None
            return await work(cluster)

    with explained(doing):
        return trio.run(run)
