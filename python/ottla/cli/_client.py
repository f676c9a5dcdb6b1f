"""What commands that talk to a cluster share: the options, the run of trio, and a quick end where nobody listens."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli._errors import explained
from ottla.cli._settings import INT32_MAX

if TYPE_CHECKING:
    from ottla.client.cluster import Address, Cluster
    from ottla.client.security import Security

T = TypeVar("T")
SECURITY = "ottla.security"
"""Where a command's context keeps it."""
BOOTSTRAP = "bootstrap.servers"

Function = TypeVar("Function", bound=Callable[..., Any])


def client_options(function: Function) -> Function:
    """Adds `--bootstrap` (also by the name that Kafka's tools give it), `--timeout-ms` and `--command-config` to a
    command; the command need not know of the last one.
    """
    return client_options_with(function, timeout_ms=30_000)


def client_options_with(function: Function, *, timeout_ms: int) -> Function:
    """The same with another default of `--timeout-ms`."""
    function = click.option(
        "--command-config",
        type=click.Path(),
        envvar="OTTLA_COMMAND_CONFIG",
        metavar="FILE",
        expose_value=False,
        is_eager=True,  # --bootstrap's default comes from it
        callback=_keep_config,
        help="Properties of Kafka's clients for TLS and SASL (security.protocol, ssl.*, sasl.*), and "
        "bootstrap.servers; also $OTTLA_COMMAND_CONFIG.",
    )(function)
    function = click.option(
        "--timeout-ms",
        type=click.IntRange(1, INT32_MAX),
        default=timeout_ms,
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
        help="Brokers to ask first; also $OTTLA_BOOTSTRAP, or bootstrap.servers of --command-config.",
    )(function)


def _keep_config(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    from ottla.client.security import NEAR, Security
    from ottla.config import properties
    from ottla.config.nearest import is_near
    from ottla.config.values import ConfigError

    try:
        settings = {key: value for key, value, _ in properties.read(path)}
        for name in settings:
            # Another cluster would be asked than the one that is meant.
            if name != BOOTSTRAP and is_near(name, BOOTSTRAP, NEAR):
                raise ValueError(f"unknown setting '{name}'; did you mean '{BOOTSTRAP}'?")
        context.meta[SECURITY] = Security.of(settings)
    except ConfigError as error:
        raise click.BadParameter(str(error), context, parameter) from None
    except ValueError as error:
        raise click.BadParameter(f"{path}: {error}", context, parameter) from None
    if servers := settings.get(BOOTSTRAP, "").strip():
        context.default_map = {**(context.default_map or {}), "bootstrap": servers}


def security() -> Security | None:
    """How the running command's connections are secured, by --command-config."""
    found: Security | None = click.get_current_context().meta.get(SECURITY)
    return found


def parsed_bootstrap(text: str, option: str) -> list[Address]:
    """The addresses of HOST:PORT,... as `option` has them. Raises click.BadParameter."""
    from ottla.client.cluster import parse_bootstrap

    if web := re.search(r"\bhttps?://", text, re.IGNORECASE):  # of a page; other schemes are those of listeners
        raise click.BadParameter(f"{text!r} is not HOST:PORT: leave {web[0]} out", param_hint=option)
    try:
        addresses = parse_bootstrap(text)
        for address in addresses:
            address.host.encode("idna")  # else the look-up would fail, with an error of its own
        return addresses
    except UnicodeError:
        raise click.BadParameter(f"{text!r} has a name that no host can have", param_hint=option) from None
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}, such as 127.0.0.1:9092", param_hint=option) from None


def with_cluster(
    doing: str,
    bootstrap: str,
    timeout_ms: int,
    work: Callable[[Cluster], Awaitable[T]],
    *,
    if_absent: str | None = None,
) -> T:
    """Runs `work` with a connection to the cluster. What goes wrong becomes one line: `doing: why`.

    doing: e.g. "cannot create topic 'a'".
    if_absent: what to do where no broker answers, if that is known.
    """
    from ottla.cli._interrupts import run as run_quietly
    from ottla.client.cluster import Cluster
    from ottla.client.errors import NotABroker

    parsed_bootstrap(bootstrap, "--bootstrap")
    secured = security()

    async def run() -> T:
        async with Cluster(bootstrap, client_id="ottla-cli", timeout_ms=timeout_ms, security=secured) as cluster:
            try:
                # Later calls are repeated until the time is over; where nobody listens at all, that is a long wait
                # for nothing.
                await cluster.any_connection()
            except ValueError as error:  # what --command-config names cannot be read
                raise click.ClickException(f"{doing}: {error}") from None
            except NotABroker:
                raise
            except OSError as error:
                advice = if_absent or (
                    f"is a broker running there? (`ottla serve` starts one, `ottla doctor {cluster.bootstrap[0]}` "
                    "says what answers)"
                )
                raise click.ClickException(f"{doing}: {error}; {advice}") from None
            return await work(cluster)

    with explained(doing):
        return run_quietly(run)
