"""`ottla produce`: lines of files or of stdin become records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ottla.cli._client import client_options, with_cluster
from ottla.cli._completion import topics as complete_topics
from ottla.cli._lines import LINE_BYTES_MAX
from ottla.cli._settings import as_bytes, at_most_one, pairs, unescaped
from ottla.kafka import ACKS

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True), metavar="[FILE]...")
@click.option(
    "-k",
    "--key-separator",
    metavar="TEXT",
    callback=unescaped,
    help="What stands between key and value, \\t for a tab; without it there are no keys.",
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
    "--ignore-partitions", is_flag=True, help="With --json: choose partitions by key, whatever the lines say."
)
@click.option("--ignore-timestamps", is_flag=True, help="With --json: records are of now, whatever the lines say.")
@click.option(
    "-z",
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@click.option(
    "--max-line",
    "line_bytes_max",
    type=click.IntRange(1),
    default=LINE_BYTES_MAX,
    show_default=True,
    metavar="BYTES",
    help="A longer line is an error.",
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
    ignore_partitions: bool,
    ignore_timestamps: bool,
    compression: str,
    line_bytes_max: int,
    acks: str,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Produce the lines of FILEs, or of stdin (also written -), to TOPIC; each line is a record.

    \b
    echo hello | ottla produce greetings
    ottla produce orders orders.csv --key-separator , --compression zstd

    To copy a topic, give the copy as many partitions, and the retention that the records' times need:

    \b
    ottla topic create copy --partitions 3 --set retention.ms=-1
    ottla consume orders --from-beginning --until-end --json | ottla produce copy --json

    Lines of JSON keep their partitions and times. Retention deletes by these times: what is older than the copy's
    retention.ms is deleted soon after it was produced. --ignore-partitions and --ignore-timestamps copy into any topic.
    """
    from ottla.cli._produce import HEADER_OVERHEAD_BYTES, Options, produce
    from ottla.cli._records import json_parser, text_parser

    if key_separator == "":
        raise click.BadParameter("it cannot be empty", param_hint="--key-separator")
    if as_json and (key_separator is not None or null_marker is not None):
        raise click.UsageError(
            "--json lines say themselves what is key and value; leave --key-separator and --null-marker out"
        )
    if (ignore_partitions or ignore_timestamps) and not as_json:
        raise click.UsageError("only lines of JSON say a partition or a time: give --json, or leave --ignore-... out")
    at_most_one({"--partition": partition is not None, "--ignore-partitions": ignore_partitions})
    own = tuple((_header_name(name), as_bytes(value)) for name, value in pairs(headers, "--header"))
    separator, marker = (None if text is None else as_bytes(text) for text in (key_separator, null_marker))
    parse = json_parser(own) if as_json else text_parser(separator, marker, own)
    options = Options(
        partition,
        keeps_partitions=as_json and not ignore_partitions and partition is None,
        keeps_timestamps=not ignore_timestamps,
        compression=compression,
        acks=ACKS[acks],
        line_bytes_max=line_bytes_max,
        header_bytes=sum(len(name.encode()) + len(value) + HEADER_OVERHEAD_BYTES for name, value in own),
    )

    async def work(cluster: Cluster) -> int:
        return await produce(cluster, topic, files, parse, options)

    count = with_cluster(f"cannot produce to {topic!r}", bootstrap, timeout_ms, work)
    from ottla.cli._output import counted

    click.echo(f"produced {counted(count, 'record')} to {topic}", err=True)


def _header_name(name: str) -> str:
    """Raises click.BadParameter for what Kafka's headers cannot be called."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise click.BadParameter(f"the name {name!r} is not UTF-8", param_hint="--header") from None
    return name
