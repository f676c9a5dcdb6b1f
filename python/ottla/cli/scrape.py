"""`ottla scrape`: what brokers say of themselves becomes records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from ottla.cli._client import client_options, with_cluster
from ottla.cli._completion import topics as complete_topics
from ottla.cli._interrupts import end_interrupted, until_interrupted
from ottla.cli._output import counted
from ottla.cli._settings import INT32_MAX, Finite

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("-e", "--every", type=Finite(0.1), default=10.0, show_default=True, metavar="SECONDS", help="How often.")
@click.option("-n", "--times", type=click.IntRange(1), metavar="N", help="End after so many times; never unless given.")
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1, INT32_MAX),
    default=1,
    show_default=True,
    help="Of a topic that is new.",
)
@client_options
def command(
    topic: str, urls: tuple[str, ...], every: float, times: int | None, partitions: int, bootstrap: str, timeout_ms: int
) -> None:
    """Produce what the metrics of brokers at URLs say to TOPIC: a record for each answer, its address as the key.

    \b
    ottla scrape server-metrics http://127.0.0.1:9404/metrics --every 10
    """

    for url in urls:
        if not _is_address(url):
            raise click.BadParameter(f"{url!r} is no address of http:// or https://", param_hint="URL")
    count = 0

    def produced(records: int) -> None:
        nonlocal count
        count = records

    async def work(cluster: Cluster) -> bool:
        from contextlib import suppress

        from ottla.client import Admin
        from ottla.client.scraping import feed
        from ottla.errors import TopicAlreadyExists

        with suppress(TopicAlreadyExists):
            await Admin(cluster).create_topic(topic, partitions)
        scraped = partial(feed, cluster, topic, urls, every_s=every, times=times, failed=_say, produced=produced)
        return await until_interrupted(scraped)

    interrupted = with_cluster(f"cannot produce to {topic!r}", bootstrap, timeout_ms, work)
    done = f"produced {counted(count, 'record')} to {topic}"
    if interrupted:
        raise end_interrupted(done)
    if not count:
        raise click.ClickException(f"{done}: no address gave metrics")
    click.echo(done, err=True)


def _is_address(url: str) -> bool:
    from urllib.parse import urlsplit

    try:
        found = urlsplit(url)
        _ = found.port
    except ValueError:
        return False
    return (
        found.scheme in ("http", "https")
        and bool(found.hostname)
        and url.isascii()
        and url.isprintable()
        and " " not in url
    )


def _say(url: str, problem: OSError) -> None:
    from urllib.error import HTTPError

    if isinstance(problem, HTTPError):
        click.echo(f"{url} has no metrics: it answers {problem.code} {problem.reason}", err=True)
    else:
        click.echo(f"{url} does not answer: {getattr(problem, 'reason', problem)}", err=True)
