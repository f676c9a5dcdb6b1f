"""`ottla produce`: lines of files or of stdin become records."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, aclosing
from typing import TYPE_CHECKING, BinaryIO

import click

from ottla.cli._client import client_options, with_cluster
from ottla.cli._settings import assignments

if TYPE_CHECKING:
    from ottla.cli._progress import Advance
    from ottla.cli._records import Parser
    from ottla.client.cluster import Cluster
    from ottla.client.producer import Producer


@click.command()
@click.argument("topic")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False), metavar="[FILE]...")
@click.option(
    "-k", "--key-separator", metavar="TEXT", help="What stands between key and value; without it there are no keys."
)
@click.option("--null-marker", metavar="TEXT", help="A key or value that is exactly this is none at all (a tombstone).")
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header for each record; may be repeated."
)
@click.option("--json", "as_json", is_flag=True, help="Each line is JSON, as `ottla consume --json` prints it.")
@click.option(
    "-p", "--partition", type=click.IntRange(0), metavar="N", help="Default: chosen by key, as Kafka's clients do."
)
@click.option(
    "-z",
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@click.option("-a", "--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@client_options
def command(
    topic: str,
    files: tuple[str, ...],
    key_separator: str | None,
    null_marker: str | None,
    headers: tuple[str, ...],
    as_json: bool,
    partition: int | None,
    compression: str,
    acks: str,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Produce the lines of FILEs, or of stdin, to TOPIC; each line is a record.

    \b
    echo hello | ottla produce greetings
    ottla produce orders orders.csv --key-separator , --compression zstd
    ottla consume orders --from-beginning --until-end --json | ottla produce copy --json
    """
    from ottla.cli._records import json_parser, text_parser

    if key_separator == "":
        raise click.BadParameter("it cannot be empty", param_hint="--key-separator")
    if as_json and (key_separator is not None or null_marker is not None):
        raise click.UsageError(
            "--json lines say themselves what is key and value; leave --key-separator and --null-marker out"
        )
    own = tuple((name, value.encode()) for name, value in assignments(headers, "--header").items())
    separator, marker = (None if text is None else text.encode() for text in (key_separator, null_marker))
    parse = json_parser(own) if as_json else text_parser(separator, marker, own)

    async def work(cluster: Cluster) -> int:
        return await _produce(cluster, topic, files, parse, partition, compression, -1 if acks == "all" else int(acks))

    count = with_cluster(f"cannot produce to {topic!r}", bootstrap, timeout_ms, work)
    click.echo(f"produced {count} record{'' if count == 1 else 's'} to {topic}", err=True)


async def _produce(
    cluster: Cluster,
    topic: str,
    files: tuple[str, ...],
    parse: Parser,
    partition: int | None,
    compression: str,
    acks: int,
) -> int:
    """Sends everything and returns how many records were acknowledged."""
    from ottla.cli._progress import progress
    from ottla.client.producer import Producer

    await cluster.topic(topic, create=True)
    total_bytes = sum(os.path.getsize(file) for file in files) if files else None
    async with Producer(
        cluster, acks=acks, compression=compression, delivery_timeout_ms=cluster.timeout_ms
    ) as producer:
        with progress(f"producing to {topic}", total_bytes, unit="bytes") as advance:
            for file in files or (None,):
                with ExitStack() as stack:
                    source = sys.stdin.buffer if file is None else stack.enter_context(open(file, "rb"))
                    await _send_lines(producer, topic, file or "stdin", source, parse, partition, advance)
            await producer.flush()
    return producer.acknowledged


async def _send_lines(
    producer: Producer,
    topic: str,
    name: str,
    source: BinaryIO,
    parse: Parser,
    partition: int | None,
    advance: Advance,
) -> None:
    """Sends the lines of one file."""
    from ottla.cli._lines import lines
    from ottla.cli._records import BadLine

    existing = await producer.cluster.partitions(topic)

    async def send(line: bytes) -> None:
        record = parse(line)
        to = record.partition if partition is None else partition
        if to is not None and to not in existing:
            raise BadLine(f"topic '{topic}' has no partition {to}; its last is {existing[-1]}")
        await producer.send(
            topic, record.value, key=record.key, headers=record.headers, timestamp_ms=record.timestamp_ms, partition=to
        )

    before = 0
    async with aclosing(lines(source, lambda size: advance(size, 0))) as parts:
        async for part in parts:
            for number, line in enumerate(part, start=before + 1):
                try:
                    await send(line)
                except BadLine as error:
                    await producer.flush()
                    sent = f"the {producer.acknowledged} records before it were produced"
                    raise click.ClickException(f"{name}, line {number}: {error} ({sent})") from None
            before += len(part)
            advance(0, len(part))
