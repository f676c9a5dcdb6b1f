"""`ottla bench`: load on a cluster, in the manner of Kafka's perf-test tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import click

from ottla.cli._client import client_options, with_cluster
from ottla.cli._completion import topics as complete_topics
from ottla.cli._output import counted
from ottla.cli._settings import INT32_MAX, Finite, at_most_one, on_command_line
from ottla.kafka import ACKS

if TYPE_CHECKING:
    from ottla.bench.payloads import Batches
    from ottla.client.cluster import Cluster

BYTES_MAX = 100 * 1024 * 1024
"""The largest request that brokers take (socket.request.max.bytes) unless told otherwise."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# By the names of Kafka's producer, with its defaults; acks as its tool would be told for speed are up to the user.
PROPERTIES = {
    "acks": "all",
    "batch.size": "16384",
    "compression.type": "none",
    "linger.ms": "5",
    "max.in.flight.requests.per.connection": "5",
    "bootstrap.servers": "",
}


@click.group()
def command() -> None:
    """Measure how fast a cluster takes and gives records."""


@command.command()
@click.option("--topic", required=True, shell_complete=complete_topics, help="Made if it is not there.")
@click.option("--num-records", type=click.IntRange(1), required=True, metavar="N", help="Rounded up to whole batches.")
@click.option("--record-size", type=click.IntRange(0, BYTES_MAX), default=100, show_default=True, metavar="BYTES")
@click.option("--payload-file", type=click.File("rb"), metavar="FILE", help="Its lines are the values, in turns.")
@click.option(
    "--throughput", type=Finite(-1), default=-1, show_default=True, metavar="N", help="Records/s; -1: no limit."
)
@click.option("--producer-props", multiple=True, metavar="NAME=VALUE...", help=f"Of {', '.join(PROPERTIES)}.")
@click.argument("more", nargs=-1, metavar="")
@client_options
def produce(
    topic: str,
    num_records: int,
    record_size: int,
    payload_file: BinaryIO | None,
    throughput: float,
    producer_props: tuple[str, ...],
    more: tuple[str, ...],
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Send records as fast as they are answered, or at a rate.

    \b
    ottla bench produce --topic t --num-records 5000000 --record-size 100 --throughput -1 --producer-props acks=1
    ottla bench produce --topic t --num-records 100000 --throughput 5000 --producer-props acks=all compression.type=lz4

    At a rate, latencies count from the moment at which a request should have been sent. Ctrl-C ends it earlier, and
    what was measured until then is shown.
    """
    from ottla.bench.producing import Produced
    from ottla.bench.producing import produce as run
    from ottla.cli._bench import live, producer_properties, rate_line, show_latencies, shown_at_the_end

    at_most_one({"--record-size": on_command_line("record_size"), "--payload-file": payload_file is not None})
    properties = producer_properties(producer_props + more, PROPERTIES)
    batches = _batches(properties, record_size, payload_file, throughput)
    in_flight = _number(properties, "max.in.flight.requests.per.connection", 1)

    done = Produced()

    async def work(cluster: Cluster) -> None:
        with live(f"producing to {topic}", num_records) as advance:
            await run(
                cluster,
                topic,
                batches,
                done,
                records=num_records,
                records_per_s=throughput if throughput > 0 else None,
                in_flight=in_flight,
                advance=advance,
            )

    at_most_one(
        {"--bootstrap": on_command_line("bootstrap"), "bootstrap.servers": bool(properties["bootstrap.servers"])}
    )
    servers = properties["bootstrap.servers"] or bootstrap

    def show() -> None:
        if done.latencies.count:
            click.echo(rate_line("sent", done.records, done.value_bytes, done.seconds))
            show_latencies(done.latencies, f"latency of a request of {counted(len(batches.values), 'record')}")

    with shown_at_the_end(show):
        with_cluster(f"cannot produce to {topic!r}", servers, timeout_ms, work)


def _batches(properties: dict[str, str], record_size: int, payload_file: BinaryIO | None, throughput: float) -> Batches:
    """The batch to send: as full as batch.size allows; at a rate, what comes within linger.ms."""
    from ottla.bench.payloads import RECORD_OVERHEAD_BYTES, Batches, random_values

    if properties["acks"] not in ACKS:
        raise click.BadParameter(f"acks={properties['acks']}: 0, 1 or all", param_hint="--producer-props")
    codec = properties["compression.type"]
    if codec not in CODECS:
        raise click.BadParameter(f"compression.type={codec}: {', '.join(CODECS)}", param_hint="--producer-props")
    lines = None if payload_file is None else payload_file.read().splitlines()
    if lines == []:
        raise click.BadParameter("it is empty", param_hint="--payload-file")
    size = record_size if lines is None else max(map(len, lines))
    count = max(1, min(BYTES_MAX, _number(properties, "batch.size", 0)) // (size + RECORD_OVERHEAD_BYTES))
    if throughput > 0:
        count = max(1, min(count, int(throughput * _number(properties, "linger.ms", 0) / 1000)))
    values = random_values(size, count) if lines is None else [lines[index % len(lines)] for index in range(count)]
    return Batches(values, ACKS[properties["acks"]], codec)


def _number(properties: dict[str, str], name: str, least: int) -> int:
    try:
        number = int(properties[name])
    except ValueError:
        number = least - 1
    if number < least:
        raise click.BadParameter(f"{name}={properties[name]}: a number from {least} on", param_hint="--producer-props")
    return number


@command.command()
@click.option("--topic", required=True, shell_complete=complete_topics)
@click.option("--messages", type=click.IntRange(1), required=True, metavar="N", help="End after so many records.")
@click.option("--from-latest", is_flag=True, help="Only what comes from now on; default: from the beginning.")
@click.option("--fetch-size", type=click.IntRange(1, INT32_MAX), default=1 << 20, show_default=True, metavar="BYTES")
@click.option(
    "--idle-ms",
    "--timeout",
    "idle_ms",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    metavar="MS",
    help="End when nothing comes for so long (--timeout in Kafka's tool).",
)
@client_options
def consume(
    topic: str, messages: int, from_latest: bool, fetch_size: int, idle_ms: int, bootstrap: str, timeout_ms: int
) -> None:
    """Read records as fast as they come; they are counted, and their checksums compared.

    \b
    ottla bench consume --topic t --messages 5000000
    """
    from ottla.bench.consuming import Consumed, Limits
    from ottla.bench.consuming import consume as run
    from ottla.cli._bench import live, rate_line, show_latencies, shown_at_the_end
    from ottla.cli._names import check_topics

    done = Consumed()

    async def work(cluster: Cluster) -> None:
        await check_topics(cluster, [topic])
        with live(f"consuming {topic}", messages) as advance:
            limits = Limits(partition_bytes=fetch_size)
            options = {"records": messages, "from_latest": from_latest, "timeout_ms": idle_ms}
            await run(cluster, topic, done, limits=limits, advance=advance, **options)  # type: ignore[arg-type]

    def show() -> None:
        if done.latencies.count:
            click.echo(rate_line("received", done.records, done.received_bytes, done.seconds))
            show_latencies(done.latencies, "latency of a Fetch request")

    with shown_at_the_end(show):
        with_cluster(f"cannot consume {topic!r}", bootstrap, timeout_ms, work)
    if done.records < messages:
        raise click.ClickException(
            f"only {done.records:,} of {counted(messages, 'record')} came; none for {idle_ms:,} ms"
        )


@command.command()
@click.option(
    "--topic", required=True, shell_complete=complete_topics, help="Made if it is not there; partition 0 is used."
)
@click.option("--num-records", type=click.IntRange(1), default=10_000, show_default=True, metavar="N")
@click.option("--record-size", type=click.IntRange(16, BYTES_MAX), default=1024, show_default=True, metavar="BYTES")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@client_options
def latency(topic: str, num_records: int, record_size: int, acks: str, bootstrap: str, timeout_ms: int) -> None:
    """From sending a record until it has come back, one record at a time.

    \b
    ottla bench latency --topic t --num-records 10000 --acks 1
    """
    from ottla.bench.end_to_end import measure
    from ottla.bench.latencies import Latencies
    from ottla.cli._bench import live, show_latencies, shown_at_the_end

    found = Latencies()

    async def work(cluster: Cluster) -> None:
        with live(f"records through {topic}", num_records) as advance:
            await measure(
                cluster, topic, found, records=num_records, record_bytes=record_size, acks=ACKS[acks], advance=advance
            )

    def show() -> None:
        show_latencies(found, f"end to end, {counted(found.count, 'record')} of {counted(record_size, 'byte')}")

    with shown_at_the_end(show):
        with_cluster(f"cannot measure {topic!r}", bootstrap, timeout_ms, work)
