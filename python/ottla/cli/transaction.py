"""`ottla transaction`: see transactions, and end one that hangs."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ottla.cli._ask import agreed, plan_options
from ottla.cli._client import client_options, with_cluster
from ottla.cli._completion import topics as complete_topics
from ottla.cli._output import columns, print_json, quoted
from ottla.cli._settings import INT16_MAX, INT32_MAX, INT64_MAX, at_most_one
from ottla.kafka import TRANSACTIONS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.transaction_admin import (
        ProducerState,
        TransactionAdmin,
        TransactionDescription,
        TransactionListing,
    )


STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence")


@click.group()
def command() -> None:
    """List, describe and abort transactions."""


@command.command(name="list")
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES),
    multiple=True,
    metavar="STATE",
    help="Only these, such as Ongoing; may be repeated.",
)
@click.option(
    "--producer-id",
    "producer_ids",
    type=click.IntRange(0, INT64_MAX),
    multiple=True,
    metavar="ID",
    help="Only of these producers.",
)
@click.option(
    "--longer-than-ms",
    type=click.IntRange(0, INT64_MAX),
    metavar="MS",
    help="Only those that were begun longer ago than this.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each, one a line.")
@client_options
def list_(
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than_ms: int | None,
    as_json: bool,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """List transactional ids, with their latest transaction's state."""

    async def work(cluster: Cluster) -> list[TransactionListing]:
        from ottla.client.transaction_admin import TransactionAdmin

        return await TransactionAdmin(cluster).list_transactions(
            states=states,
            producer_ids=producer_ids,
            open_longer_than_ms=-1 if longer_than_ms is None else longer_than_ms,
        )

    listed = with_cluster("cannot list transactions", bootstrap, timeout_ms, work)
    if as_json:
        for each in listed:
            print_json(asdict(each))
    elif listed:
        rows = [(each.transactional_id, each.state, each.producer_id, each.coordinator) for each in listed]
        click.echo(columns(rows, ("transactional id", "state", "producer", "coordinator")))


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="ID...")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each, one a line.")
@client_options
def describe(names: tuple[str, ...], as_json: bool, bootstrap: str, timeout_ms: int) -> None:
    """Show transactional ids: state, producer, timeout, and the partitions of the open transaction."""

    async def work(cluster: Cluster) -> list[TransactionDescription]:
        from ottla.client.transaction_admin import TransactionAdmin

        admin = TransactionAdmin(cluster)
        return [await _described(admin, name) for name in names]

    for found in with_cluster(f"cannot describe transactional id {quoted(names)}", bootstrap, timeout_ms, work):
        if as_json:
            print_json(asdict(found) | {"partitions": [list(each) for each in found.partitions]})
        else:
            click.echo(_as_text(found))


async def _described(admin: TransactionAdmin, name: str) -> TransactionDescription:
    """Raises TransactionalIdNotFound, with the nearest id where the brokers can list them (Kafka 3.0)."""
    from ottla.cli._names import is_there, missing
    from ottla.errors import LocalProtocolError, TransactionalIdNotFound

    if not await is_there(admin.cluster, TRANSACTIONS_TOPIC):
        raise TransactionalIdNotFound(missing("transactional id", name, []))
    try:
        return await admin.describe_transaction(name)
    except TransactionalIdNotFound:
        try:
            existing = [each.transactional_id for each in await admin.list_transactions()]
        except LocalProtocolError:
            raise TransactionalIdNotFound(f"there is no transactional id '{name}'") from None
        raise TransactionalIdNotFound(missing("transactional id", name, existing)) from None


def _as_text(found: TransactionDescription) -> str:
    lines = [
        found.transactional_id,
        f"  state        {found.state}",
        f"  coordinator  broker {found.coordinator}",
        f"  producer     {found.producer_id}, epoch {found.producer_epoch}",
        f"  timeout      {found.timeout_ms:,} ms",
    ]
    if found.started_ms is not None:
        lines.append(f"  started      {_moment(found.started_ms)}")
    if found.partitions:
        lines.append(f"  partitions   {', '.join(map(str, found.partitions))}")
    return "\n".join(lines)


@command.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("-p", "--partition", "partitions", type=click.IntRange(0), multiple=True, metavar="N", help="Not all.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each, one a line.")
@client_options
def producers(topic: str, partitions: tuple[int, ...], as_json: bool, bootstrap: str, timeout_ms: int) -> None:
    """Show the producers that TOPIC's partitions remember, and where their open transactions begin."""

    async def work(cluster: Cluster) -> list[ProducerState]:
        from ottla.cli._names import check_topics
        from ottla.client.transaction_admin import TransactionAdmin

        await check_topics(cluster, [topic])
        wanted = partitions or await cluster.partitions(topic)
        return await TransactionAdmin(cluster).describe_producers(TopicPartition(topic, each) for each in wanted)

    _print_producers(with_cluster(f"cannot describe producers of {topic!r}", bootstrap, timeout_ms, work), as_json)


@command.command()
@click.option("-t", "--topic", metavar="NAME", help="Look in this topic only.", shell_complete=complete_topics)
@click.option("-p", "--partition", type=click.IntRange(0), metavar="N", help="And in this partition only.")
@click.option(
    "--max-timeout-ms",
    type=click.IntRange(0),
    default=900_000,
    show_default=True,
    metavar="MS",
    help="The brokers' transaction.max.timeout.ms: what was written to since may be alive.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each, one a line.")
@client_options
def find_hanging(
    topic: str | None, partition: int | None, max_timeout_ms: int, as_json: bool, bootstrap: str, timeout_ms: int
) -> None:
    """Find open transactions that nobody will end: readers of committed records stop before them."""
    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic")

    async def work(cluster: Cluster) -> list[ProducerState]:
        from ottla.cli._names import check_topics
        from ottla.client.transaction_admin import TransactionAdmin

        wanted = None
        if topic is not None:
            await check_topics(cluster, [topic])
            numbers = await cluster.partitions(topic) if partition is None else [partition]
            wanted = [TopicPartition(topic, number) for number in numbers]
        return await TransactionAdmin(cluster).hanging_transactions(wanted, max_timeout_ms=max_timeout_ms)

    _print_producers(with_cluster("cannot find hanging transactions", bootstrap, timeout_ms, work), as_json)


@command.command()
@click.argument("topic", shell_complete=complete_topics)
@click.argument("partition", type=click.IntRange(0))
@click.option("--start-offset", type=click.IntRange(0), metavar="OFFSET", help="Where the transaction begins.")
@click.option(
    "--producer-id", type=click.IntRange(0, INT64_MAX), metavar="ID", help="Its producer, instead of --start-offset."
)
@click.option("--producer-epoch", type=click.IntRange(-1, INT16_MAX), metavar="EPOCH", help="With --producer-id.")
@click.option(
    "--coordinator-epoch", type=click.IntRange(-1, INT32_MAX), metavar="EPOCH", help="With --producer-id. Default: -1"
)
@plan_options
@client_options
def abort(
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    dry_run: bool,
    yes: bool,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Abort a transaction that hangs in PARTITION of TOPIC (see find-hanging).

    One that is alive loses its records there. The producer is shown first.
    """
    if (start_offset is None) == (producer_id is None):
        raise click.UsageError("say which: either --start-offset, or --producer-id with --producer-epoch")
    at_most_one({"--start-offset": start_offset is not None, "--producer-epoch": producer_epoch is not None})
    at_most_one({"--start-offset": start_offset is not None, "--coordinator-epoch": coordinator_epoch is not None})
    if producer_id is not None and producer_epoch is None:
        raise click.UsageError("--producer-id needs --producer-epoch")

    where = TopicPartition(topic, partition)

    async def look(cluster: Cluster) -> list[ProducerState]:
        from ottla.cli._names import check_topics
        from ottla.client.transaction_admin import TransactionAdmin

        await check_topics(cluster, [topic])
        found = [
            each
            for each in await TransactionAdmin(cluster).describe_producers([where])
            if (each.start_offset == start_offset if producer_id is None else each.producer_id == producer_id)
        ]
        if not found and producer_id is None:
            raise click.ClickException(f"no transaction of {where} begins at offset {start_offset}")
        return found

    async def work(cluster: Cluster) -> None:
        from ottla.client.transaction_admin import TransactionAdmin

        await TransactionAdmin(cluster).abort_transaction(where, *marked)

    doing = f"cannot abort the transaction in {where}"
    found = with_cluster(doing, bootstrap, timeout_ms, look)
    if producer_id is None:
        marked = found[0].producer_id, found[0].producer_epoch, found[0].coordinator_epoch
    else:
        assert producer_epoch is not None
        marked = producer_id, producer_epoch, -1 if coordinator_epoch is None else coordinator_epoch
    if dry_run or not yes:
        _print_producers(found, as_json=False)
    what = f"the transaction of producer {marked[0]} in {where}"
    if agreed(f"Abort {what}?", f"{what} would be aborted", yes=yes, dry_run=dry_run):
        with_cluster(doing, bootstrap, timeout_ms, work)
        click.echo(f"aborted in {where}")


def _print_producers(found: list[ProducerState], as_json: bool) -> None:
    if as_json:
        for each in found:
            print_json(asdict(each) | {"partition": list(each.partition)})
        return
    if not found:
        return
    now_ms = time.time_ns() // 1_000_000
    rows = [
        (
            each.partition,
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            _moment(each.last_timestamp_ms),
            "none" if each.start_offset is None else each.start_offset,
            max(0, now_ms - each.last_timestamp_ms) // 60_000,
        )
        for each in found
    ]
    header = ("partition", "producer", "epoch", "coordinator epoch", "last sequence", "last write", "open since")
    click.echo(columns(rows, (*header, "idle min")))


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
