"""`ottla log import`: brings the files of another format into a topic."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from ottla.cli._client import client_options, with_cluster
from ottla.cli._output import counted
from ottla.cli._settings import at_most_one, on_command_line

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.log.format_07 import Damaged, Messages


@click.command("import")
@click.argument("path", metavar="PATH", type=click.Path(exists=True))
@click.option("--format", "format_name", type=click.Choice(["0.7"]), required=True, help="What wrote the files.")
@click.option("--topic", required=True, help="Where the messages go.")
@click.option("--partition", type=click.IntRange(0), help="Default: the number that PATH's folder ends with, else 0.")
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False),
    help="Write into this data directory of a stopped broker, which has the topic, instead of sending to a broker.",
)
@click.option(
    "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none", show_default=True
)
@click.option(
    "--from-offset",
    type=click.IntRange(min=0),
    default=0,
    help="Go on at this byte offset: where an import that met damage says that it stopped.",
)
@client_options
def command(
    path: str,
    format_name: str,
    topic: str,
    partition: int | None,
    data_dir: str | None,
    compression: str,
    from_offset: int,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Read the log files of another format into a topic. PATH is one partition's folder, or one of its files.

    Format 0.7 is what Kafka 0.7 wrote: files named <byte offset>.kafka, whose messages have no key and no timestamp.
    They keep their order and get offsets from the topic's next one on. At damage the import stops, with everything
    before it in the topic, and says how to go on.

    \b
    ottla log import --format 0.7 /var/old-kafka/orders-0 --topic orders
    """
    from ottla.log import format_07

    at_most_one({"--data-dir": data_dir is not None, "--bootstrap": on_command_line("bootstrap")})
    if not (os.path.isfile(path) or os.path.isdir(path)) or not format_07.files(path):
        raise click.ClickException(f"{path}: there is no file named <byte offset>.kafka, as Kafka 0.7 names them")
    target = format_07.partition_of(path) if partition is None else partition
    doing = f"cannot import into {topic!r}"
    if data_dir is not None:
        count, stopped = _into_directory(doing, path, from_offset, data_dir, topic, target, compression)
    else:

        async def work(cluster: Cluster) -> tuple[int, Damaged | None]:
            return await _into_broker(cluster, path, from_offset, topic, target, compression)

        count, stopped = with_cluster(doing, bootstrap, timeout_ms, work)
    done = f"imported {counted(count, 'message')} into {topic}-{target}"
    if stopped is None:
        click.echo(done, err=True)
        return
    on = f"everything before it is in ({done}, up to byte offset {stopped.offset})"
    if stopped.next_offset is not None:
        on += f"; to go on behind the damage, at the next whole message: --from-offset {stopped.next_offset}"
    else:
        on += "; nothing behind it is a whole message"
    raise click.ClickException(f"{stopped}; {on}")


def _read(path: str, from_offset: int, take: Callable[[Messages], None]) -> Damaged | None:
    """Hands all messages to `take`; the damage, if there is some."""
    from ottla.log import format_07

    try:
        for messages in format_07.read(path, from_offset):
            take(messages)
            _tell_torn(messages)
    except format_07.Damaged as damaged:
        return damaged
    return None


def _tell_torn(messages: Messages) -> None:
    if messages.torn_bytes:
        torn = counted(messages.torn_bytes, "byte is", "bytes are")
        what = f"the last {torn} the beginning of a message; Kafka 0.7 would cut them off"
        click.echo(f"{what}, they are left out", err=True)


def _total_bytes(path: str, from_offset: int) -> int:
    from ottla.log import format_07

    ends = [(first, first + os.path.getsize(file)) for first, file in format_07.files(path)]
    return sum(max(0, end - max(first, from_offset)) for first, end in ends)


def _into_directory(
    doing: str, path: str, from_offset: int, data_dir: str, topic: str, partition: int, compression: str
) -> tuple[int, Damaged | None]:
    from ottla.cli._errors import explained
    from ottla.cli._progress import progress
    from ottla.log import Log

    count = 0
    folder = os.path.join(data_dir, f"{topic}-{partition}")
    with (
        explained(doing),
        Log.open(folder, mode="a") as log,
        progress(f"importing into {topic}-{partition}", _total_bytes(path, from_offset), unit="bytes") as advance,
    ):

        def take(messages: Messages) -> None:
            nonlocal count
            log.append_many(messages.payloads, timestamp_ms=-1, compression=compression)
            count += len(messages.payloads)
            advance(messages.size_bytes, len(messages.payloads))

        stopped = _read(path, from_offset, take)
    return count, stopped


async def _into_broker(
    cluster: Cluster, path: str, from_offset: int, topic: str, partition: int, compression: str
) -> tuple[int, Damaged | None]:
    from ottla.cli._progress import progress
    from ottla.client.producer import Producer
    from ottla.log import format_07

    await cluster.topic(topic, create=True)
    existing = await cluster.partitions(topic)
    if partition not in existing:
        raise click.ClickException(
            f"topic {topic!r} has no partition {partition}, its last is {existing[-1]}; --partition names another one"
        )
    stopped: Damaged | None = None
    total = _total_bytes(path, from_offset)
    async with Producer(cluster, compression=compression, delivery_timeout_ms=cluster.timeout_ms) as producer:
        with progress(f"importing into {topic}-{partition}", total, unit="bytes") as advance:
            try:
                for messages in format_07.read(path, from_offset):
                    for payload in messages.payloads:
                        await producer.send(topic, payload, timestamp_ms=-1, partition=partition)
                    advance(messages.size_bytes, len(messages.payloads))
                    _tell_torn(messages)
            except format_07.Damaged as damaged:
                stopped = damaged
            await producer.flush()
    return producer.acknowledged, stopped
