"""`ottla group`: list, describe, reset, delete and migrate groups, at this broker or any other of Kafka's kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from ottla.cli._ask import agreed, plan_options
from ottla.cli._client import client_options, with_cluster
from ottla.cli._errors import each_of, on_one_line, words
from ottla.cli._output import columns, counted, print_json, print_names, quoted
from ottla.cli._settings import at_most_one
from ottla.cli._times import Time

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.groups import Committed, Group, Groups, ListedGroup
    from ottla.client.offsets import FoundOffset
    from ottla.errors import KafkaError
    from ottla.kafka import TopicPartition


_LISTED = ("group", "state", "protocol type")


@click.group()
def command() -> None:
    """List, describe, reset, delete and migrate consumer groups."""


@command.command(name="list")
@click.option("--names", "only_names", is_flag=True, help="Only the names, one a line.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each group, one a line.")
@client_options
def list_(only_names: bool, as_json: bool, bootstrap: str, timeout_ms: int) -> None:
    """List all groups with their states: Stable, Empty (no member, but offsets), or between two generations.

    Brokers before Kafka 2.6 do not tell the states.
    """
    at_most_one({"--names": only_names, "--json": as_json})

    async def work(cluster: Cluster) -> list[ListedGroup]:
        from ottla.client.groups import Groups

        return await Groups(cluster).listed()

    found = with_cluster("cannot list groups", bootstrap, timeout_ms, work)
    if as_json:
        for row in found:
            print_json({"group": row.group, "state": row.state or None, "protocol_type": row.protocol_type})
    elif only_names:
        print_names([row.group for row in found], as_json=False)
    elif found:
        click.echo(columns([(row.group, row.state or "-", row.protocol_type or "-") for row in found], _LISTED))


@command.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each group, one a line.")
@client_options
def describe(names: tuple[str, ...], as_json: bool, bootstrap: str, timeout_ms: int) -> None:
    """Show members and offsets of groups, with how far they are behind; without a NAME, of all.

    The lag is what is left to read: the end of the partition less the committed offset.
    """

    async def work(cluster: Cluster) -> list[_Described]:
        from ottla.cli._names import check_group
        from ottla.client.groups import Groups

        groups = Groups(cluster)
        for name in names:
            await check_group(groups, name)
        return [await _describe(groups, name) for name in names or [row.group for row in await groups.listed()]]

    doing = f"cannot describe group {quoted(names)}" if names else "cannot describe groups"
    for found in with_cluster(doing, bootstrap, timeout_ms, work):
        if as_json:
            print_json(found.as_json())
        else:
            click.echo(found.as_text())


class _Described:
    def __init__(self, group: Group, committed: dict[TopicPartition, Committed]) -> None:
        from ottla.group.subscription import assigned
        from ottla.kafka import TopicPartition

        self.group = group
        self.committed = committed
        self.ends: dict[TopicPartition, FoundOffset] = {}
        self.problems: dict[TopicPartition, KafkaError] = {}
        """Why the ends of some partitions are not known."""
        self.owners = {
            TopicPartition(*place): member
            for member in group.members
            for place in (assigned(member.assignment) if group.protocol_type == "consumer" else None) or ()
        }

    def _rows(self) -> list[dict[str, object]]:
        rows = []
        for place in sorted({*self.committed, *self.owners}):
            committed = self.committed.get(place)
            end = self.ends[place].offset if place in self.ends else None
            owner = self.owners.get(place)
            rows.append(
                {
                    "topic": place.topic,
                    "partition": place.partition,
                    "committed": committed.offset if committed is not None else None,
                    "end": end,
                    "lag": end - committed.offset if committed is not None and end is not None else None,
                    "member": owner.member_id if owner is not None else None,
                    "host": owner.host.lstrip("/") if owner is not None else None,
                }
            )
        return rows

    def as_json(self) -> dict[str, object]:
        members = [
            {"member": m.member_id, "instance": m.instance_id, "client": m.client_id, "host": m.host.lstrip("/")}
            for m in self.group.members
        ]
        return {
            "group": self.group.group,
            "state": self.group.state,
            "protocol_type": self.group.protocol_type,
            "protocol": self.group.protocol,
            "members": members,
            "partitions": self._rows(),
        }

    def as_text(self) -> str:
        count = len(self.group.members)
        head = f"{on_one_line(self.group.group)}: {self.group.state}, {counted(count, 'member')}"
        if self.group.protocol:
            head += f", {self.group.protocol}"
        rows = [
            ["-" if value is None else f"{value:,}" if name == "lag" else value for name, value in row.items()]
            for row in self._rows()
        ]
        if not rows:
            return head
        table = columns(rows, ("topic", "partition", "committed", "end", "lag", "member", "host"))
        told = [(str(place), words(problem)) for place, problem in sorted(self.problems.items())]
        marks = [why if why.startswith(place) else f"{place}: {why}" for place, why in told]
        return f"{head}\n" + "\n".join(f"  {line}" for line in (*table.splitlines(), *marks))


async def _describe(groups: Groups, name: str) -> _Described:
    from ottla.kafka import LATEST

    group = await groups.describe(name)
    found = _Described(group, await groups.committed(name))
    found.ends, found.problems = await _bounds(groups.cluster, {*found.committed, *found.owners}, LATEST)
    return found


async def _bounds(
    cluster: Cluster, places: set[TopicPartition], time: int
) -> tuple[dict[TopicPartition, FoundOffset], dict[TopicPartition, KafkaError]]:
    """Where partitions begin or end, or a time is in them, and why that is not known of some. Those that are gone are
    left out.
    """
    import trio

    from ottla.client.cluster_admin import SILENT_S
    from ottla.client.offsets import ask_offsets
    from ottla.errors import NetworkException, UnknownTopicOrPartition

    found: dict[TopicPartition, FoundOffset] = {}
    problems: dict[TopicPartition, KafkaError] = {}
    # Once more where metadata were old.
    for _ in range(2):
        left = dict.fromkeys(places - found.keys(), time)
        doubted = {place.topic for place in problems}
        problems = dict.fromkeys(left, NetworkException("its leader does not answer"))
        with trio.move_on_after(SILENT_S):
            problems = await ask_offsets(cluster, left, found.__setitem__, doubted=doubted)
        problems = {
            place: problem
            for place, problem in problems.items()
            if place not in found and not isinstance(problem, UnknownTopicOrPartition)
        }
        if not problems:
            break
    return found, problems


@command.command()
@click.argument("name")
@click.option("-t", "--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated.")
@click.option(
    "-p",
    "--partition",
    "numbers",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Only this partition of each topic; may be repeated.",
)
@click.option("--to-earliest", is_flag=True, help="To the start of each partition.")
@click.option("--to-latest", is_flag=True, help="To the end of each partition.")
@click.option("--to-offset", type=click.IntRange(0), metavar="N", help="To an offset.")
@click.option(
    "--to-time",
    type=Time(),
    metavar="TIME",
    help="To the first record at or after a time: ISO 8601, or milliseconds since 1970.",
)
@click.option("--shift-by", type=int, metavar="N", help="N records on from where it is; back if negative.")
@plan_options
@client_options
def reset(
    name: str,
    topics: tuple[str, ...],
    numbers: tuple[int, ...],
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_time: int | None,
    shift_by: int | None,
    dry_run: bool,
    yes: bool,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Set where group NAME goes on to read: in the topics given, or in all of which it has offsets.

    The group must have no members. The plan is shown first. Offsets beyond what is there become the first or the last
    that is. With --topic a group that does not exist is made.
    """
    ways = {
        "--to-earliest": to_earliest,
        "--to-latest": to_latest,
        "--to-offset": to_offset is not None,
        "--to-time": to_time is not None,
        "--shift-by": shift_by is not None,
    }
    at_most_one(ways)
    if not any(ways.values()):
        raise click.UsageError("say where to: --to-earliest, --to-latest, --to-offset, --to-time or --shift-by")

    async def look(cluster: Cluster) -> tuple[dict[TopicPartition, Committed], dict[TopicPartition, Committed]]:
        """Where the group is, and where it is to be."""
        from ottla.cli._names import check_group, check_topics, is_there
        from ottla.client.groups import Committed, Groups
        from ottla.kafka import EARLIEST, LATEST, OFFSETS_TOPIC, TopicPartition

        groups = Groups(cluster)
        await check_topics(cluster, topics)
        committed = await groups.committed(name) if await is_there(cluster, OFFSETS_TOPIC) else {}
        if not committed and (shift_by is not None or not topics):
            await check_group(groups, name, otherwise="" if topics else "; with --topic it is made")
        if topics:
            places = {TopicPartition(topic, number) for topic in topics for number in await cluster.partitions(topic)}
        else:
            places = set(committed)
        if numbers:
            if missing := sorted(set(numbers) - {place.partition for place in places}):
                where = ", ".join(topics) or f"what group {name!r} reads"
                raise click.ClickException(f"there is no partition {missing[0]} in {where}")
            places = {place for place in places if place.partition in numbers}
        first, problems = await _bounds(cluster, places, EARLIEST)
        end, more = await _bounds(cluster, set(first), LATEST)
        problems |= more
        timed: dict[TopicPartition, FoundOffset] = {}
        if to_time is not None:
            timed, more = await _bounds(cluster, set(end), to_time)
            problems |= more
            end = {place: each for place, each in end.items() if place in timed}
        for place, problem in sorted(problems.items()):
            click.echo(f"{place} stays as it is: {words(problem)}", err=True)

        def target(place: TopicPartition) -> int | None:
            if to_earliest or to_latest:
                return (first if to_earliest else end)[place].offset
            if to_time is not None:
                return timed[place].offset if timed[place].offset >= 0 else end[place].offset
            if to_offset is not None:
                return to_offset
            return committed[place].offset + (shift_by or 0) if place in committed else None

        wanted: dict[TopicPartition, Committed] = {}
        for place in sorted(end):
            offset = target(place)
            if offset is not None:
                wanted[place] = Committed(min(max(offset, first[place].offset), end[place].offset))
        if not wanted and problems:
            raise click.ClickException(f"none of the offsets of group {name!r} can be set now")
        if not wanted:
            where = f"in {', '.join(topics)} to shift from" if topics else "in any topic that exists: name a --topic"
            raise click.ClickException(f"group {name!r} has no offsets {where}")
        if committed and not dry_run and (members := (await groups.describe(name)).members):
            raise click.ClickException(f"group {name!r} has {counted(len(members), 'member')}: stop them first")
        return committed, wanted

    async def work(cluster: Cluster) -> None:
        from ottla.client.groups import Groups

        groups = Groups(cluster)
        if members := (await groups.describe(name)).members:  # who may have come while it was asked for
            raise click.ClickException(f"group {name!r} has {counted(len(members), 'member')}: stop them first")
        await groups.commit(name, wanted)

    doing = f"cannot reset group {name!r}"
    committed, wanted = with_cluster(doing, bootstrap, timeout_ms, look)
    rows = [
        (place.topic, place.partition, committed[place].offset if place in committed else "-", new.offset)
        for place, new in wanted.items()
    ]
    click.echo(columns(rows, ("topic", "partition", "from", "to")))
    count = counted(len(rows), "offset")
    would = f"{count} of group {name} would be set"
    if agreed(f"Set {count} of group {on_one_line(name)}?", would, yes=yes, dry_run=dry_run):
        with_cluster(doing, bootstrap, timeout_ms, work)
        click.echo(f"set {count} of group {on_one_line(name)}")


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "-t", "--topic", "topics", multiple=True, metavar="TOPIC", help="Only the offsets of this topic; may be repeated."
)
@plan_options
@client_options
def delete(
    names: tuple[str, ...], topics: tuple[str, ...], dry_run: bool, yes: bool, bootstrap: str, timeout_ms: int
) -> None:
    """Delete groups that have no members, with their offsets. What would be deleted is shown first."""
    what = f"the offsets of {', '.join(topics)} in {', '.join(names)}" if topics else ", ".join(names)

    async def look(cluster: Cluster) -> list[tuple[object, ...]]:
        from ottla.cli._names import check_group
        from ottla.client.groups import Groups

        groups = Groups(cluster)
        rows: list[tuple[object, ...]] = []
        for name in names:
            await check_group(groups, name)
            group, committed = await groups.describe(name), await groups.committed(name)
            read = [place for place in committed if not topics or place.topic in topics]
            rows.append((name, group.state, len(group.members), len(read)))
        return rows

    if dry_run or not yes:
        rows = with_cluster(f"cannot delete {what}", bootstrap, timeout_ms, look)
        click.echo(columns(rows, ("group", "state", "members", "offsets")))
    would, otherwise = f"{what} would be deleted", "nothing was deleted"
    if not agreed(f"Delete {what}?", would, yes=yes, dry_run=dry_run, otherwise=otherwise):
        return

    async def work(cluster: Cluster) -> None:
        from ottla.cli._names import check_group
        from ottla.client.groups import Groups
        from ottla.config.nearest import hint

        groups = Groups(cluster)

        async def delete_one(name: str) -> None:
            await check_group(groups, name)
            if topics:
                committed = await groups.committed(name)
                # Whether there is such a topic is not asked: offsets may outlive it.
                read = {place.topic for place in committed}
                for topic in topics:
                    if topic not in read:
                        raise click.ClickException(
                            f"cannot delete offsets of group {name!r}: it has none in {topic!r}{hint(topic, read)}"
                        )
                known = [place for place in committed if place.topic in topics]
                await groups.delete_offsets(name, known)
                click.echo(f"deleted {counted(len(known), 'offset')} of group {name}")
            else:
                await groups.delete(name)
                click.echo(f"deleted group {name}")

        await each_of(names, "cannot delete group", delete_one)

    with_cluster(f"cannot delete {what}", bootstrap, timeout_ms, work)


@command.command()
@click.argument("name")
@click.option("-f", "--force", is_flag=True, help="Also where the group has committed an offset since.")
@plan_options
@client_options
def migrate(name: str, force: bool, dry_run: bool, yes: bool, bootstrap: str, timeout_ms: int) -> None:
    """Copy group NAME's offsets from the coordination tree, where consumers before Kafka 0.9 kept them, to where they
    are kept now.

    Once: an offset that the group has there already is not touched, since it is younger. With --force it is
    overwritten, which is asked for.
    """

    async def look(cluster: Cluster) -> tuple[dict[TopicPartition, Committed], dict[TopicPartition, Committed]]:
        """What is in the tree, and what the group has of it elsewhere."""
        from ottla.cli._names import is_there
        from ottla.client.groups import Groups
        from ottla.kafka import OFFSETS_TOPIC, TopicPartition

        await cluster.refresh()
        everything = [
            TopicPartition(topic, row.partition_index)
            for topic, found in cluster.metadata.topics.items()
            for row in found.partitions
        ]
        old = await cluster.retry(lambda: _in_tree(cluster, name, everything))
        if not old or not await is_there(cluster, OFFSETS_TOPIC):
            return old, {}
        return old, {place: at for place, at in (await Groups(cluster).committed(name)).items() if place in old}

    async def work(cluster: Cluster) -> None:
        from ottla.client.groups import Groups

        await Groups(cluster).commit(name, copied)

    doing = f"cannot migrate group {name!r}"
    old, younger = with_cluster(doing, bootstrap, timeout_ms, look)
    if not old:
        raise click.ClickException(f"{doing}: it has no offsets in the coordination tree")
    kept = {} if force else younger
    copied = {place: at for place, at in old.items() if place not in kept}
    rows = [(place.topic, place.partition, at.offset, "copied") for place, at in copied.items()]
    rows += [(place.topic, place.partition, at.offset, "kept") for place, at in kept.items()]
    click.echo(columns(sorted(rows), ("topic", "partition", "offset", "")))
    lost = sum(younger[place].offset != at.offset for place, at in copied.items() if place in younger)
    count = f"{counted(lost, 'offset')} of group {name}"
    if agreed(f"Overwrite {count}?", f"{count} would be overwritten", yes=yes or not lost, dry_run=dry_run):
        with_cluster(doing, bootstrap, timeout_ms, work)


async def _in_tree(cluster: Cluster, group: str, places: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
    """What a group has in the coordination tree. Any broker reads it there: who looks for the group's coordinator has
    the topic made that keeps offsets now.
    """
    from ottla.client.groups import Committed
    from ottla.kafka import TopicPartition
    from ottla.wire.k09_offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchRequestTopic

    numbers: dict[str, list[int]] = {}
    for place in places:
        numbers.setdefault(place.topic, []).append(place.partition)
    request = OffsetFetchRequest(group, [OffsetFetchRequestTopic(*row) for row in numbers.items()])
    connection = await cluster.any_connection()
    answer = await connection.call(OFFSET_FETCH, request, 0, timeout_ms=cluster.timeout_ms)
    return {
        TopicPartition(topic.name, row.partition_index): Committed(row.committed_offset, metadata=row.metadata or "")
        for topic in answer.topics
        for row in topic.partitions
        if row.committed_offset >= 0
    }
