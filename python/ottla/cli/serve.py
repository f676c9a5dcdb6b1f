"""`ottla serve`: one broker in this process."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli._settings import assignments, not_empty, zookeeper_servers

if TYPE_CHECKING:
    from ottla.broker import Started
    from ottla.cli._dev_security import DevSecurity
    from ottla.config.broker import BrokerConfig


@click.command()
@click.option("--data-dir", metavar="D", callback=not_empty, help="Directory for the logs (log.dirs). Default: ./data")
@click.option(
    "--listen", metavar="HOST:PORT", help="Address to listen on; port 0 picks a free one. Default: 127.0.0.1:9092"
)
@click.option("--id", "broker_id", type=click.IntRange(0), metavar="N", help="Id of this broker (broker.id).")
@click.option(
    "--zookeeper",
    metavar="HOST:PORT/chroot",
    callback=zookeeper_servers,
    help="Join the cluster in this ZooKeeper. Default: be one alone.",
)
@click.option("--config", "file", type=click.Path(), metavar="FILE", help="A server.properties file, as for Kafka.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Any setting by Kafka's name; may be repeated."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What is logged to stderr; debug adds each request, but for plain Produces and Fetches that a lease covers.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), help="The form of log lines (logging.format). Default: text"
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve /metrics, /healthz and /readyz at this port, on the host of the first listener (metrics.listener).",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Make topics from the folders of a data directory whose coordination tree is lost; once.",
)
@click.option(
    "--dev-security",
    is_flag=True,
    help="For trying: TLS, a user and files for clients, made beside the data directory. Needs the extra `security`.",
)
@click.option("--hints", is_flag=True, help="When it serves, say on stderr how to produce and consume.")
def command(
    data_dir: str | None,
    listen: str | None,
    broker_id: int | None,
    zookeeper: str | None,
    file: str | None,
    settings: tuple[str, ...],
    log_level: str,
    log_format: str | None,
    metrics_port: int | None,
    dev_security: bool,
    hints: bool,
    adopt: bool,
) -> None:
    """Run one broker until SIGTERM or SIGINT.

    Prints one line on stdout when it serves: `ottla ready: broker N at HOST:PORT`. Options win over --set, --set over
    the file. Settings are listed in docs/settings.md.
    """
    # What is made during the start stays: looking for garbage in it costs a tenth of the start, and later moments in
    # which nobody is answered.
    gc.disable()
    click.get_current_context().call_on_close(gc.enable)
    from ottla.cli._errors import explained

    with explained("cannot start the broker"):
        overrides = assignments(settings)
        options = {
            "log.dirs": data_dir,
            "broker.id": None if broker_id is None else str(broker_id),
            "zookeeper.connect": zookeeper,
            "listeners": None if listen is None else _listener(listen),
            "logging.format": log_format,
        }
        overrides |= {name: value for name, value in options.items() if value is not None}
        config, security = _secured(file, overrides, metrics_port, dev_security=dev_security)
    if adopt and config.zookeeper:
        raise click.UsageError("--adopt makes the tree of a broker without ZooKeeper; zookeeper.connect is set")
    _log_to_stderr(log_level, config)

    _import_msgspec_quickly()
    from ottla._core import raise_descriptor_limit
    from ottla.broker import serve
    from ottla.coordination.tree import TreeError
    from ottla.garbage import Freezer

    raise_descriptor_limit()

    _check_directories(config.data_directories)
    is_serving = False

    def ready(broker: Started) -> None:
        nonlocal is_serving
        is_serving = True
        Freezer().start()
        gc.enable()
        address = f"0.0.0.0{broker.address}" if broker.address.startswith(":") else broker.address
        if security is not None:
            security.tell(address)
        _say_ready(broker.id, address)
        if hints:
            _hint(address, config)

    try:
        with explained(lambda: "the broker stopped" if is_serving else "cannot start the broker", TreeError):
            serve(config, ready, adopt=adopt, stopping=_say_stopping)
    except click.ClickException as problem:
        if not problem.message.endswith("does a broker run on it?"):
            raise
        raise click.ClickException(f"{problem.message} --data-dir names another directory") from None


def _secured(
    file: str | None, overrides: dict[str, str], metrics_port: int | None, *, dev_security: bool
) -> tuple[BrokerConfig, DevSecurity | None]:
    """The settings of the broker, with those of --dev-security if that is wanted."""
    config = _config(file, overrides, metrics_port)
    if not dev_security:
        return config, None
    from ottla.cli._dev_security import DevSecurity

    security = DevSecurity(config)
    return _config(file, overrides | security.prepare(), metrics_port), security


def _say_ready(broker_id: int, address: str) -> None:
    from ottla.cli._systemd import tell

    click.echo(f"ottla ready: broker {broker_id} at {address}")
    tell("READY=1", f"STATUS=broker {broker_id} serves at {address}")


def _say_stopping() -> None:
    from ottla.cli._systemd import tell

    tell("STOPPING=1", "STATUS=stops")


def _hint(address: str, config: BrokerConfig) -> None:
    from ottla.cli._hints import called, hints

    click.echo("\n" + hints(address, config.data_directories[0], called()), err=True)


def _config(file: str | None, overrides: dict[str, str], metrics_port: int | None) -> BrokerConfig:
    """The settings of the broker. Raises click.ClickException: ZooKeeper's addresses are none."""
    from ottla.config.broker import BrokerConfig
    from ottla.config.zookeeper import ZooKeeperServers

    config = BrokerConfig.load(file, overrides)
    if metrics_port is not None:
        host = config.listeners[0].host or "0.0.0.0"
        overrides["metrics.listener"] = f"[{host}]:{metrics_port}" if ":" in host else f"{host}:{metrics_port}"
        config = BrokerConfig.load(file, overrides)
    if servers := config.get_str("zookeeper.connect"):
        try:
            ZooKeeperServers.parse(servers)
        except ValueError as error:
            raise click.ClickException(f"cannot start the broker: zookeeper.connect: {error}") from None
    return config


def _check_directories(directories: list[str]) -> None:
    """Raises click.ClickException if each of them is a file, or lies in one."""
    blocks = [next((path for path in (Path(each), *Path(each).parents) if path.exists()), None) for each in directories]
    if all(path is not None and not path.is_dir() for path in blocks):
        raise click.ClickException(
            f"cannot start the broker: {blocks[0]} is a file, and data directories (--data-dir, log.dirs) are folders"
        )


def _import_msgspec_quickly() -> None:
    """msgspec looks for typing_extensions first: a tenth of our start, for what typing itself has since Python 3.11."""
    if "typing_extensions" not in sys.modules:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]
        try:
            import msgspec  # noqa: F401
        finally:
            del sys.modules["typing_extensions"]


def _listener(listen: str) -> str:
    """The `listeners` setting for HOST:PORT."""
    from ottla.config.listeners import Endpoint, parse_address

    try:
        host, port = parse_address(listen)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--listen") from None
    return str(Endpoint("PLAINTEXT", host, port, "PLAINTEXT"))


def _log_to_stderr(level: str, config: BrokerConfig) -> None:
    import logging

    from ottla import logging_setup

    logging_setup.to_stderr(level.upper(), config.get_str("logging.format") or "text", config.secrets)
    for warning in config.warnings:
        logging.getLogger("ottla.config").warning(warning)
