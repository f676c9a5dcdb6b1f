"""`ottla test-broker`: a broker or a cluster for the tests of a program in any language."""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import TYPE_CHECKING

import click

from ottla.cli._settings import assignments

if TYPE_CHECKING:
    from ottla.embedded import Broker, Cluster

#: How often the process looks whether its parent is there.
LOOK_S = 0.5


@click.command()
@click.option("--brokers", type=click.IntRange(1), default=1, show_default=True, help="How many, in one cluster.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Any setting by Kafka's name; may be repeated."
)
@click.option("--data-dir", metavar="D", help="Where the data are. Default: a temporary directory, removed in the end.")
@click.option(
    "--faults-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Take faults by HTTP on this port of 127.0.0.1, and pause, kill and move; 0 is a free one.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="What is logged to stderr.",
)
def command(
    brokers: int, settings: tuple[str, ...], data_dir: str | None, faults_port: int | None, log_level: str
) -> None:
    """Run a broker for the tests of another program, until that ends.

    Prints one line of JSON when it serves, with bootstrap_servers, data_dir, and the id, host and port of each broker;
    with --faults-port also faults, the address to POST faults to, and http, where brokers are paused, killed and
    moved, too (docs/python.md). Ports are free ones. Ends with SIGTERM, SIGINT, or when the process that started it is
    gone.
    """
    parent = os.getppid()
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.set())
    from ottla import logging_setup
    from ottla.cli._errors import explained
    from ottla.embedded import Broker, BrokerFailed, Cluster

    given = assignments(settings)
    logging_setup.to_stderr(log_level.upper(), "text", ())
    with explained("cannot start", BrokerFailed, ValueError):
        made: Broker | Cluster = (
            Broker(given, data_dir=data_dir) if brokers == 1 else Cluster(brokers, given, data_dir=data_dir)
        )
        made.start()
    try:
        described = _described(made)
        if faults_port is not None:
            from ottla.embedded.over_http import BrokersOverHttp

            cluster = made if isinstance(made, Cluster) else None
            with explained(f"cannot listen on port {faults_port} for faults"):
                served = BrokersOverHttp(_members(made), faults_port, cluster=cluster)
            described["http"] = f"http://127.0.0.1:{served.port}"
            described["faults"] = f"{described['http']}/faults"
        click.echo(json.dumps(described))
        while not end.wait(LOOK_S) and os.getppid() == parent:
            pass
    finally:
        made.close()


def _members(made: Broker | Cluster) -> dict[int, Broker]:
    from ottla.embedded import Broker

    return {1: made} if isinstance(made, Broker) else {number: made[number] for number in range(1, len(made) + 1)}


def _described(made: Broker | Cluster) -> dict[str, object]:
    return {
        "bootstrap_servers": made.bootstrap_servers,
        "data_dir": str(made.data_dir),
        "brokers": [{"id": number, "host": each.host, "port": each.port} for number, each in _members(made).items()],
    }
