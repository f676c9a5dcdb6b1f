"""`ottla topic`: create, list, describe, alter, move and delete topics, of this broker or any other of Kafka's kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

from ottla.cli._ask import agreed, plan_options
from ottla.cli._client import client_options, with_cluster
from ottla.cli._completion import topics as complete_topics
from ottla.cli._errors import each_of
from ottla.cli._output import columns, counted, print_json, print_names, quoted
from ottla.cli._settings import INT16_MAX, INT32_MAX, assignments
from ottla.cli._topic_moves import elect, reassign
from ottla.kafka import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from ottla.cli._offsets import Bounds
    from ottla.client.admin import Setting, Topic
    from ottla.client.cluster import Cluster

SET_IN_TOPIC = 1  # DescribeConfigs' number for a value of the topic's own


@click.group()
def command() -> None:
    """Create, list, describe, alter and delete topics, and move their replicas."""


command.add_command(reassign)
command.add_command(elect)


@command.command()
@click.argument("name")
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1, INT32_MAX),
    metavar="N",
    help="Default: num.partitions of the broker.",
)
@click.option(
    "-r", "--replicas", type=click.IntRange(1, INT16_MAX), metavar="N", help="Default: default.replication.factor."
)
@click.option(
    "-s", "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the topic; may be repeated."
)
@click.option("--if-not-exists", is_flag=True, help="No error if there is one already.")
@client_options
def create(
    name: str,
    partitions: int | None,
    replicas: int | None,
    settings: tuple[str, ...],
    if_not_exists: bool,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Create topic NAME. Returns when each of its partitions has a leader."""
    own = assignments(settings)

    async def work(cluster: Cluster) -> bool:
        from ottla.client.admin import Admin
        from ottla.errors import TopicAlreadyExists

        try:
            await Admin(cluster).create_topic(name, partitions or -1, replicas or -1, own)
        except TopicAlreadyExists:
            if not if_not_exists:
                raise
            return False
        return True

    if with_cluster(f"cannot create topic {name!r}", bootstrap, timeout_ms, work):
        click.echo(f"created topic {name}")
    else:
        click.echo(f"topic {name} exists already")


@command.command(name="list")
@click.option("--internal", is_flag=True, help="Also topics that brokers and Ottla's tools keep for themselves.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
@client_options
def list_(internal: bool, as_json: bool, bootstrap: str, timeout_ms: int) -> None:
    """List the names of all topics."""

    async def work(cluster: Cluster) -> list[Topic]:
        from ottla.client.admin import Admin

        return await Admin(cluster).describe_topics()

    topics = with_cluster("cannot list topics", bootstrap, timeout_ms, work)
    names = [topic.name for topic in topics if internal or not _is_internal(topic)]
    print_names(names, as_json=as_json)


@command.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_topics)
@click.option("--all-settings", is_flag=True, help="Also settings that the topic does not have itself.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each topic, one a line.")
@client_options
def describe(names: tuple[str, ...], all_settings: bool, as_json: bool, bootstrap: str, timeout_ms: int) -> None:
    """Show partitions, leaders, replicas, offsets and settings of topics; without a NAME, of all.

    `start` is the first offset that is there, `end` the one after the last that can be read.

    The leaders are asked, too: a partition whose leader does not say that it leads it is served by nobody.
    """

    async def work(cluster: Cluster) -> tuple[list[tuple[Topic, list[Setting]]], _Known]:
        from ottla.cli._names import check_topics
        from ottla.cli._offsets import bounds_of
        from ottla.client.admin import Admin
        from ottla.client.leading import not_led_of

        admin = Admin(cluster)
        if names:
            await check_topics(cluster, names)
        topics = await admin.describe_topics(names or None)
        # Before there are connections to brokers that may stand still.
        described = [(topic, await admin.describe_settings(topic.name)) for topic in topics]
        wrong = await not_led_of(cluster, topics)
        return described, _Known(wrong, await bounds_of(cluster, topics, without=wrong))

    doing = f"cannot describe topic {quoted(names)}" if names else "cannot describe topics"
    topics, known = with_cluster(doing, bootstrap, timeout_ms, work)
    for topic, settings in topics:
        shown = {s.name: s.value for s in settings if all_settings or s.source == SET_IN_TOPIC}
        if as_json:
            print_json(_as_json(topic, shown, known))
        else:
            click.echo(_as_text(topic, shown, known))


def _is_internal(topic: Topic) -> bool:
    """Whether users have no business with a topic: brokers say so of theirs, and the sink of Spark keeps one."""
    return topic.internal or _is_internal_name(topic.name)


def _is_internal_name(name: str) -> bool:
    return name in INTERNAL_TOPICS or name.startswith("__ottla_")


class _Known(NamedTuple):
    """What the leaders of partitions said: why nobody serves one, and where it begins and ends."""

    wrong: Mapping[TopicPartition, str]
    bounds: Mapping[TopicPartition, Bounds]


def _as_json(topic: Topic, settings: dict[str, str | None], known: _Known) -> dict[str, object]:
    bounds = [known.bounds.get(TopicPartition(topic.name, each.number)) for each in topic.partitions]
    return {
        "name": topic.name,
        "internal": topic.internal,
        "settings": settings,
        "partitions": [
            {
                "partition": partition.number,
                "leader": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replicas": partition.replicas,
                "in_sync": partition.in_sync,
                # Why nobody serves it, though it has a leader.
                "not_served": known.wrong.get(TopicPartition(topic.name, partition.number)),
                "start_offset": found.start if found else None,
                "end_offset": found.end if found else None,
            }
            for partition, found in zip(topic.partitions, bounds, strict=True)
        ],
    }


def _as_text(topic: Topic, settings: dict[str, str | None], known: _Known) -> str:
    bounds = [known.bounds.get(TopicPartition(topic.name, each.number)) for each in topic.partitions]
    rows = [
        (
            partition.number,
            "none" if partition.leader < 0 else partition.leader,
            ",".join(map(str, partition.replicas)),
            ",".join(map(str, partition.in_sync)),
            *(found or ("?", "?")),
        )
        for partition, found in zip(topic.partitions, bounds, strict=True)
    ]
    own = "".join(f"\n  {name}={value}" for name, value in sorted(settings.items()))
    table = columns(rows, ("partition", "leader", "replicas", "in sync", "start", "end"))
    troubles = [
        f"partition {partition.number} is not served: {words}"
        for partition in topic.partitions
        if (words := known.wrong.get(TopicPartition(topic.name, partition.number))) is not None
    ]
    return f"{topic.name}{own}\n" + "\n".join(f"  {line}" for line in [*table.splitlines(), *troubles])


@command.command()
@click.argument("name", shell_complete=complete_topics)
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1, INT32_MAX),
    metavar="N",
    help="Raise the number of partitions to N.",
)
@click.option(
    "-s", "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Give it a setting; may be repeated."
)
@click.option(
    "-u", "--unset", multiple=True, metavar="NAME", help="Take its own value of a setting away; may be repeated."
)
@client_options
def alter(
    name: str,
    partitions: int | None,
    settings: tuple[str, ...],
    unset: tuple[str, ...],
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Change settings of topic NAME, or add partitions to it."""
    changes = _changes(assignments(settings), unset)
    if not changes and partitions is None:
        raise click.UsageError("nothing to change: give --set, --unset or --partitions")

    async def work(cluster: Cluster) -> None:
        from ottla.cli._names import check_names, check_topics
        from ottla.client.admin import Admin
        from ottla.errors import InvalidConfig, KafkaError

        admin = Admin(cluster)
        await check_topics(cluster, [name])
        if changes:
            known = [setting.name for setting in await admin.describe_settings(name)]
            check_names("topic setting", list(changes), known, InvalidConfig)
            await admin.alter_settings(name, changes, validate_only=True)
        if partitions is None:
            await admin.alter_settings(name, changes)
            return
        await admin.create_partitions(name, partitions, validate_only=True)
        # Settings come last: what they delete does not come back, while partitions may be added again.
        await admin.create_partitions(name, partitions)
        if changes:
            try:
                await admin.alter_settings(name, changes)
            except (KafkaError, OSError) as error:
                now = f"topic {name!r} has {counted(partitions, 'partition')} now"
                raise click.ClickException(f"{now}, but its settings could not be changed: {error}") from None

    with_cluster(f"cannot alter topic {name!r}", bootstrap, timeout_ms, work)
    click.echo(f"altered topic {name}")


def _changes(settings: dict[str, str], unset: tuple[str, ...]) -> dict[str, str | None]:
    """What is to be changed, None for what is taken away. Raises click.UsageError for a name that is in both."""
    if both := sorted(settings.keys() & set(unset)):
        raise click.UsageError(f"--set and --unset of {', '.join(both)} contradict each other: leave one out")
    return {**settings, **dict.fromkeys(unset)}


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_topics)
@click.option("--internal", is_flag=True, help="Also topics that brokers and Ottla's tools keep for themselves.")
@plan_options
@client_options
def delete(names: tuple[str, ...], internal: bool, dry_run: bool, yes: bool, bootstrap: str, timeout_ms: int) -> None:
    """Delete topics and all their records. What would be deleted is shown first."""
    if kept := [name for name in names if _is_internal_name(name) and not internal]:
        raise click.UsageError(
            f"{', '.join(kept)}: brokers and Ottla's tools keep what they must not lose there, such as the offsets of "
            "all groups; --internal deletes it all the same"
        )
    listed = ", ".join(names)

    async def look(cluster: Cluster) -> list[tuple[object, ...]]:
        from ottla.cli._names import check_topics
        from ottla.cli._offsets import bounds_of
        from ottla.client.admin import Admin

        await check_topics(cluster, names)
        topics = await Admin(cluster).describe_topics(names)
        bounds = await bounds_of(cluster, topics)
        rows: list[tuple[object, ...]] = []
        for topic in topics:
            found = [bounds.get(TopicPartition(topic.name, each.number)) for each in topic.partitions]
            known = [each.end - each.start for each in found if each is not None]
            rows.append((topic.name, len(found), f"{sum(known):,}" if len(known) == len(found) else "?"))
        return rows

    if dry_run or not yes:
        rows = with_cluster("cannot delete topics", bootstrap, timeout_ms, look)
        click.echo(columns(rows, ("topic", "partitions", "records")))
    question = f"Delete {listed} and all records in {'it' if len(names) == 1 else 'them'}?"
    would, otherwise = f"{listed} would be deleted", "nothing was deleted"
    if not agreed(question, would, yes=yes, dry_run=dry_run, otherwise=otherwise):
        return

    async def work(cluster: Cluster) -> None:
        from ottla.cli._names import check_topics
        from ottla.client.admin import Admin

        admin = Admin(cluster)

        async def delete_one(name: str) -> None:
            await check_topics(cluster, [name])
            await admin.delete_topic(name)
            click.echo(f"deleted topic {name}")

        await each_of(names, "cannot delete topic", delete_one)

    with_cluster("cannot delete topics", bootstrap, timeout_ms, work)
