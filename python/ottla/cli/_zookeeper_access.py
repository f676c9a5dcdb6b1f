"""Who a command is to ZooKeeper: by the JAAS file that `KAFKA_OPTS` names, or by `--zookeeper-config`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ottla.broker.zookeeper_access import Access
    from ottla.coordination.zookeeper import ZooKeeperTree

Function = TypeVar("Function", bound=Callable[..., Any])
_ACCESS = "ottla.zookeeper-access"
"""Where a command's context keeps it."""


def access_option(function: Function) -> Function:
    """Adds `--zookeeper-config` to a command (also by the name that Kafka's tools give it), which need not know of it.
    The command opens the tree by `open_tree`.
    """
    return click.option(
        "--zookeeper-config",
        "--zk-tls-config-file",
        type=click.Path(),
        envvar="OTTLA_ZOOKEEPER_CONFIG",
        metavar="FILE",
        expose_value=False,
        callback=_keep,
        help="A file with zookeeper.ssl.* and zookeeper.sasl.jaas.config, such as a broker's server.properties; also "
        "$OTTLA_ZOOKEEPER_CONFIG. Other settings in it are not looked at.",
    )(function)


def access() -> Access:
    """How the running command opens a tree in ZooKeeper. Raises ConfigError."""
    from ottla.broker.zookeeper_access import of_command
    from ottla.config import BrokerConfig

    settings: dict[str, str] = click.get_current_context().meta.get(_ACCESS, {})
    return of_command(BrokerConfig(settings))


async def open_tree(servers: str, **options: Any) -> ZooKeeperTree:
    """A session of the running command, as `ZooKeeperTree.connect`. Raises ConfigError, too, if the settings that say
    who to be cannot be followed.
    """
    from ottla.coordination.zookeeper import ZooKeeperTree

    return await ZooKeeperTree.connect(servers, **options, **access()._asdict())


def _keep(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    from ottla.config import properties
    from ottla.config.values import ConfigError

    try:
        settings = {key: value for key, value, _ in properties.read(path)}
    except ConfigError as error:
        raise click.BadParameter(str(error), context, parameter) from None
    context.meta[_ACCESS] = {
        name: value for name, value in settings.items() if name.startswith(("zookeeper.ssl.", "zookeeper.sasl."))
    }
