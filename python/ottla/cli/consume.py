"""`ottla consume`: records as lines on stdout, as text or as JSON."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import click

from ottla.cli._client import client_options, security, with_cluster
from ottla.cli._completion import groups as complete_groups
from ottla.cli._completion import topics as complete_topics
from ottla.cli._consume_reader import Reader, Sharing, find_ends, place_of, put
from ottla.cli._output import quoted, while_read
from ottla.cli._settings import as_bytes, at_most_one, not_empty, on_command_line, unescaped
from ottla.cli._times import Time
from ottla.cli._zookeeper import zookeeper_option

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ottla.client.cluster import Cluster
    from ottla.client.consumer import Consumer, Record, Start
    from ottla.kafka import TopicPartition


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@click.option(
    "-p",
    "--partition",
    "numbers",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Of each topic. Default: all.",
)
@click.option("--from-beginning", is_flag=True, help="Begin with the oldest record instead of the next new one.")
@click.option(
    "-o", "--offset", type=int, metavar="N", help="Begin at this offset of each partition; -N is N before its end."
)
@click.option(
    "-t",
    "--timestamp",
    "timestamp_ms",
    type=Time(),
    metavar="TIME",
    help="Begin with records of this time: ISO 8601, or milliseconds since 1970.",
)
@click.option(
    "-g",
    "--group",
    shell_complete=complete_groups,
    metavar="GROUP",
    callback=not_empty,
    help="Read as a member of this group: go on where it was, share the partitions with its other members, and commit "
    "what was printed. --from-beginning is for partitions of which it has no offset.",
)
@click.option(
    "--classic",
    is_flag=True,
    help="Be a member as the consumers before Kafka 0.9 are: with --group and --zookeeper, in which owners and offsets "
    "are kept.",
)
@zookeeper_option("The ZooKeeper of the brokers; for --classic.")
@click.option("-n", "--max-messages", type=click.IntRange(1), metavar="N", help="End after so many records.")
@click.option("-e", "--until-end", is_flag=True, help="End where the partitions end now, instead of waiting for more.")
@click.option(
    "-f",
    "--format",
    "form",
    metavar="FORMAT",
    callback=unescaped,
    help="What is printed of each record, in kcat's letters: %s is the value, %k the key, %t the topic, %p the "
    "partition, %o the offset, %T the time in milliseconds, %h the headers, %S and %K the lengths of value and key; "
    "\\n ends a line.",
)
@click.option("-K", "--keys", is_flag=True, help="Print the key before the value.")
@click.option("-H", "--headers", is_flag=True, help="Print the headers before key and value, as NAME=VALUE,NAME=VALUE.")
@click.option(
    "-k",
    "--key-separator",
    default="\\t",
    show_default=True,
    metavar="TEXT",
    callback=unescaped,
    help="What stands between them; \\t is a tab.",
)
@click.option("--null-marker", default="", metavar="TEXT", help="What stands for no key or no value. Default: nothing.")
@click.option("--json", "as_json", is_flag=True, help="Each record as JSON with everything it has, one a line.")
@click.option("--read-committed", is_flag=True, help="Leave out records of transactions that are open or were aborted.")
@client_options
def command(
    topics: tuple[str, ...],
    numbers: tuple[int, ...],
    from_beginning: bool,
    offset: int | None,
    timestamp_ms: int | None,
    group: str | None,
    classic: bool,
    zookeeper: str | None,
    max_messages: int | None,
    until_end: bool,
    form: str | None,
    keys: bool,
    headers: bool,
    key_separator: str,
    null_marker: str,
    as_json: bool,
    read_committed: bool,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Print the records of each TOPIC, each on a line, until Ctrl-C, or until brokers are gone for --timeout-ms.

    \b
    ottla consume orders --from-beginning --until-end --keys
    ottla consume orders --timestamp 2026-03-01T12:00 --json
    ottla consume orders --offset -10 --until-end
    ottla consume orders payments --format '%t %p %o %k %s\\n'
    ottla consume orders --group billing --from-beginning
    ottla consume orders --group billing --classic --zookeeper 127.0.0.1:2181
    """
    at_most_one(
        {"--from-beginning": from_beginning, "--offset": offset is not None, "--timestamp": timestamp_ms is not None}
    )
    if group is not None:
        _check_group_options(
            {"--partition": bool(numbers), "--offset": offset is not None, "--timestamp": timestamp_ms is not None}
        )
    if classic or zookeeper is not None:
        _check_classic_options(
            {"--classic": classic, "--group": group is not None, "--zookeeper": zookeeper is not None},
            {"--read-committed": read_committed, "--bootstrap": on_command_line("bootstrap")},
        )
    write = _writer(
        form, keys=keys, headers=headers, key_separator=key_separator, null_marker=null_marker, as_json=as_json
    )
    if group is not None:
        topics = tuple(dict.fromkeys(topics))
        sharing = Sharing(group, topics, from_beginning, max_messages, until_end, read_committed)
        _consume_shared(sharing, write, zookeeper, bootstrap, timeout_ms)
        return
    begins_at_end = not from_beginning and offset is None and timestamp_ms is None

    async def work(cluster: Cluster) -> None:
        from ottla.client.consumer import Consumer

        # What the client would log the reader says.
        logging.getLogger("ottla.client").setLevel(logging.ERROR)
        consumer = Consumer(cluster, read_committed=read_committed)
        partitions = await _partitions(cluster, topics, numbers)
        await _begin(consumer, partitions, from_beginning=from_beginning, offset=offset, timestamp_ms=timestamp_ms)
        if begins_at_end and not until_end and sys.stdout.isatty():
            click.echo("waiting for new records; --from-beginning reads what is there too", err=True)
        reader = Reader(consumer, topics, timeout_ms)
        await while_read(lambda: _print(reader, write, max_messages, until_end))
        if not reader.printed:
            hint = "; --from-beginning reads what is there" if begins_at_end else ""
            click.echo(f"nothing {'after the end' if begins_at_end else 'to be read there'}{hint}", err=True)

    with_cluster(f"cannot consume {quoted(topics)}", bootstrap, timeout_ms, work)


def _consume_shared(
    sharing: Sharing, write: Callable[[Record], bytes], zookeeper: str | None, bootstrap: str, timeout_ms: int
) -> None:
    """Reads as a member of a group, of one in ZooKeeper if that is named."""
    if zookeeper is not None:
        from ottla.cli._consume_classic import consume_as_classic

        consume_as_classic(sharing, write, zookeeper, timeout_ms)
    else:
        from ottla.cli._consume_group import consume_as_member

        consume_as_member(sharing, write, bootstrap, timeout_ms)


def _check_group_options(given: Mapping[str, bool]) -> None:
    """Raises click.UsageError for options that say where to read, which is the group's to decide."""
    for name in (name for name, was_given in given.items() if was_given):
        if name == "--partition":
            raise click.UsageError("--partition does not go with --group: its members share all partitions")
        raise click.UsageError(
            f"{name} does not go with --group: a group goes on where it was, and `ottla group reset` sets where that is"
        )


def _check_classic_options(needed: Mapping[str, bool], others: Mapping[str, bool]) -> None:
    """Raises click.UsageError unless all are given that a classic consumer needs, and none that it does not have."""
    if missing := [name for name, was_given in needed.items() if not was_given]:
        given = " and ".join(name for name, was_given in needed.items() if was_given)
        raise click.UsageError(f"{given} {'needs' if len(missing) == 2 else 'need'} {' and '.join(missing)} as well")
    if others["--read-committed"]:
        raise click.UsageError("--read-committed does not go with --classic: those consumers know no transactions")
    if others["--bootstrap"]:
        raise click.UsageError("--bootstrap does not go with --classic: brokers are found in ZooKeeper")
    if security() is not None:
        raise click.UsageError("--classic reads over connections without encryption: --command-config cannot secure it")


def _writer(
    form: str | None, *, keys: bool, headers: bool, key_separator: str, null_marker: str, as_json: bool
) -> Callable[[Record], bytes]:
    """What is printed of a record, as the options say. Raises click.UsageError where they contradict each other."""
    from ottla.cli._formats import formatted, json_line, text_line

    for name, given in (
        ("--keys", keys),
        ("--headers", headers),
        ("--key-separator", on_command_line("key_separator")),
        ("--null-marker", on_command_line("null_marker")),
    ):
        at_most_one({"--json": as_json, name: given})
        if name != "--null-marker":
            at_most_one({"--format": form is not None, name: given})
    at_most_one({"--json": as_json, "--format": form is not None})
    if on_command_line("key_separator") and not keys and not headers:
        raise click.UsageError("--key-separator needs --keys or --headers: a value alone has nothing to separate")
    null = as_bytes(null_marker)
    if as_json:
        return json_line
    if form is None:
        return text_line(keys=keys, headers=headers, separator=as_bytes(key_separator), null=null)
    try:
        return formatted(form, null=null)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None


async def _partitions(cluster: Cluster, topics: Sequence[str], numbers: Collection[int]) -> list[TopicPartition]:
    """The partitions that are asked for, all if none are named. Raises UnknownTopicOrPartition."""
    from ottla.cli._names import check_topics
    from ottla.errors import UnknownTopicOrPartition
    from ottla.kafka import TopicPartition

    await check_topics(cluster, topics)
    found = []
    for topic in dict.fromkeys(topics):
        existing = await cluster.partitions(topic)
        for number in numbers:
            if number not in existing:
                raise UnknownTopicOrPartition(f"topic '{topic}' has no partition {number}; its last is {existing[-1]}")
        found += [TopicPartition(topic, number) for number in sorted(set(numbers)) or existing]
    return found


async def _begin(
    consumer: Consumer,
    partitions: list[TopicPartition],
    *,
    from_beginning: bool,
    offset: int | None,
    timestamp_ms: int | None,
) -> None:
    """Puts the consumer where it is to begin. An offset that is not there is an error that says which are."""
    from ottla.client.consumer import EARLIEST, LATEST, At

    start: Start = LATEST
    if from_beginning:
        start = EARLIEST
    elif timestamp_ms is not None:
        start = At(timestamp_ms)
    await consumer.assign(dict.fromkeys(partitions, start))
    if offset is None:
        return
    firsts = await consumer.beginning_offsets(consumer.positions)
    if unknown := sorted(consumer.assignment() - consumer.positions.keys()):
        raise click.ClickException(
            f"where {unknown[0]} begins and ends cannot be asked now; --partition chooses others, --from-beginning "
            "waits for it"
        )
    for partition, end in consumer.positions.copy().items():
        first = firsts[partition]
        wanted = max(first, end + offset) if offset < 0 else offset
        if not first <= wanted <= end:
            raise click.ClickException(
                f"{partition} has no offset {offset}: it begins at {first} and ends before {end}; "
                "--partition chooses others, --from-beginning begins where each begins"
            )
        consumer.positions[partition] = wanted


async def _print(reader: Reader, write: Callable[[Record], bytes], max_messages: int | None, until_end: bool) -> None:
    """Prints records until there were enough, or the end that was is reached, or for ever."""
    from ottla.cli._progress import progress

    consumer = reader.consumer
    ends: dict[TopicPartition, int] = {}
    if until_end:
        await find_ends(consumer, ends)
    left = max_messages
    total = sum(end - consumer.positions[partition] for partition, end in ends.items()) if until_end else None
    # Where the records themselves are seen, nothing else moves on the screen.
    with progress(
        f"consuming {', '.join(reader.topics)}", total, unit="records", is_shown=not sys.stdout.isatty()
    ) as advance:
        while left != 0 and consumer.assignment() - consumer.paused():
            records = await reader.poll()
            if until_end:
                await find_ends(consumer, ends)
                records = [record for record in records if record.offset < ends[place_of(record)]]
            if left is not None:
                records = records[:left]
                left -= len(records)
            put(records, write, advance)
            reader.printed += len(records)
