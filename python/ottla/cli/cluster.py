"""`ottla cluster`: several brokers on this machine, and what any cluster does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli._client import client_options, with_cluster
from ottla.cli._output import counted, print_json, while_read
from ottla.cli._settings import Finite, assignments, at_most_one, not_empty, on_command_line, zookeeper_servers

if TYPE_CHECKING:
    from ottla.cli._status import Status
    from ottla.client.cluster import Cluster
    from ottla.local_cluster.state import LocalCluster

DIRECTORY = "cluster"
#: More are no cluster to try things out on one machine with.
BROKERS_MAX = 30


@click.group()
def command() -> None:
    """Start and stop a cluster on this machine, and see what any cluster does."""


directory_option = click.option(
    "--dir",
    "directory",
    default=DIRECTORY,
    show_default=True,
    metavar="D",
    callback=not_empty,
    help="Directory of the cluster: its data, logs, and which processes are its.",
)


@command.command()
@click.argument("count", type=click.IntRange(1, BROKERS_MAX), metavar="[N]", required=False)
@directory_option
@click.option(
    "--zookeeper",
    metavar="HOST:PORT/chroot",
    callback=zookeeper_servers,
    help="The cluster is in this ZooKeeper. Default: a coordination tree is started, which is for laptops and tests.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Where broker 1 listens, on this machine only; others listen at the ports after it. Default: 9092",
)
@click.option(
    "-s", "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of all brokers; may be repeated."
)
def start(
    count: int | None, directory: str, zookeeper: str | None, port: int | None, settings: tuple[str, ...]
) -> None:
    """Start N brokers on this machine (3 unless given), and return when they are a cluster.

    In a directory where there is a cluster already, what does not run of it is started, with its data; with a higher N
    brokers join it. New topics get three replicas, of which one may be missing, as far as there are brokers for that.
    """
    from ottla.cli._errors import explained
    from ottla.local_cluster import LocalClusterError, running

    own = assignments(settings)
    with explained("cannot start the cluster", LocalClusterError):
        _check_settings(own)
        cluster = running.start(
            Path(directory), count=count, given_zookeeper=zookeeper, port=port, settings=own, say=click.echo
        )
    where = _option(directory)
    click.echo(
        f"{counted(len(cluster.brokers), 'broker')} at {cluster.bootstrap}, with data and logs in {directory}\n"
        f"`ottla cluster status{where}` shows them, `ottla cluster stop{where}` ends them"
    )


def _check_settings(settings: dict[str, str]) -> None:
    """Says what is wrong with them before anything is started. Raises ConfigError, click.BadParameter."""
    from ottla.config.broker import BrokerConfig

    ours = {
        "broker.id": "brokers count from 1",
        "listeners": "--port says where",
        "log.dirs": "--dir says where",
        "log.dir": "--dir says where",
        "zookeeper.connect": "--zookeeper says where",
    }
    for name in settings:
        if name in ours:
            raise click.BadParameter(f"{name} differs from broker to broker: {ours[name]}", param_hint="--set")
    BrokerConfig.load(None, {"zookeeper.connect": "127.0.0.1:2181", "broker.id": "1", **settings})


@command.command()
@click.argument("brokers", type=click.IntRange(1), nargs=-1, metavar="[ID]...")
@directory_option
@click.option("--kill", is_flag=True, help="Kill them (SIGKILL), to see what a cluster does then.")
def stop(brokers: tuple[int, ...], directory: str, kill: bool) -> None:
    """Stop brokers that `ottla cluster start` has started: those with an ID, or all and their tree.

    Others lead before a broker ends. Data are kept: `ottla cluster start` goes on with them.
    """
    from ottla.cli._errors import explained
    from ottla.local_cluster import LocalClusterError, running

    with explained("cannot stop the cluster", LocalClusterError):
        running.stop(Path(directory), brokers, kill=kill, say=click.echo)


@command.command()
@click.option(
    "--dir",
    "directory",
    metavar="D",
    callback=not_empty,
    help=f"The cluster that was started there. Default: the one in ./{DIRECTORY}, if --bootstrap is not given.",
)
@click.option("-w", "--watch", is_flag=True, help="Show it again and again, with its age, until Ctrl-C.")
@click.option(
    "--interval",
    type=Finite(0.1),
    default=2.0,
    show_default=True,
    metavar="S",
    help="Seconds between two looks of --watch.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object; with --watch one a line.")
@client_options
def status(directory: str | None, watch: bool, interval: float, as_json: bool, bootstrap: str, timeout_ms: int) -> None:
    """Show the brokers of a cluster, what is not in sync, and what moves. Apache Kafka's are shown too.

    `preferred` are the partitions that a broker leads if all is well, `not in sync` its replicas that are not, `lag`
    the records that the partitions' leaders have and it has not. While records come, a lag of a few is one of looking:
    not all brokers are asked in the same moment.
    """
    at_most_one({"--dir": directory is not None, "--bootstrap": on_command_line("bootstrap")})
    local = _local(directory)
    start_again = f"`ottla cluster start{_option(local.directory)}` starts what does not run of it" if local else None

    async def work(cluster: Cluster) -> None:
        from ottla.cli._status import gather

        if not watch:
            _show(await gather(cluster), as_json=as_json)
            return
        from ottla.cli._watch import watch as look_again

        await while_read(lambda: look_again(lambda: gather(cluster), interval, as_json=as_json))

    where = local.bootstrap if local else bootstrap
    with_cluster("cannot see the cluster", where, timeout_ms, work, if_absent=start_again)


def _option(directory: Path | str) -> str:
    """The option of a command line that names this directory; none for the usual one."""
    return "" if str(directory) == DIRECTORY else f" --dir {directory}"


def _local(directory: str | None) -> LocalCluster | None:
    """The cluster of a directory; None if none was named and there is none in the usual one, or the user has
    said where to ask.
    """
    from ottla.cli._errors import explained
    from ottla.local_cluster import LocalClusterError, state

    with explained("cannot see the cluster", LocalClusterError):
        if directory is not None:
            return state.existing(Path(directory))
        source = click.get_current_context().get_parameter_source("bootstrap")
        return state.load(Path(DIRECTORY)) if source is click.core.ParameterSource.DEFAULT else None


def _show(found: Status, *, as_json: bool) -> None:
    from ottla.cli import _status

    if as_json:
        print_json(_status.as_json(found))
    else:
        click.echo(_status.as_text(found))
