"""`ottla group`: list, describe, reset, delete and migrate groups, at this broker or any other of Kafka's kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from ottla.cli import _zookeeper_groups
from ottla.cli._ask import agreed, plan_options
from ottla.cli._client import client_options, with_cluster
from ottla.cli._completion import groups as complete_groups
from ottla.cli._completion import topics as complete_topics
from ottla.cli._errors import each_of, on_one_line
from ottla.cli._group_offsets import Aim, aim_options, bounds, plan, targets, with_marks
from ottla.cli._output import columns, counted, print_json, print_names, quoted
from ottla.cli._settings import at_most_one, on_command_line
from ottla.cli._zookeeper import zookeeper_option

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.groups import Committed, Group, Groups, ListedGroup
    from ottla.client.offsets import FoundOffset
    from ottla.errors import KafkaError
    from ottla.kafka import TopicPartition


_LISTED = ("group", "state", "protocol type")
_IN_ZOOKEEPER = "A group of consumers before Kafka 0.9, which is in this ZooKeeper."


@click.group()
def command() -> None:
    """List, describe, reset, delete and migrate consumer groups."""


@command.command(name="list")
@click.option("--names", "only_names", is_flag=True, help="Only the names, one a line.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each group, one a line.")
@zookeeper_option("Groups of consumers before Kafka 0.9, in this ZooKeeper. With --bootstrap as well, both.")
@client_options
def list_(only_names: bool, as_json: bool, zookeeper: str | None, bootstrap: str, timeout_ms: int) -> None:
    """List all groups with their states: Stable, Empty (no member, but offsets), or between two generations.

    Brokers before Kafka 2.6 do not tell the states. Groups in ZooKeeper are Active or Empty.
    """
    at_most_one({"--names": only_names, "--json": as_json})

    async def work(cluster: Cluster) -> list[ListedGroup]:
        from ottla.client.groups import Groups

        return await Groups(cluster).listed()

    found: list[ListedGroup] = []
    if zookeeper is None or on_command_line("bootstrap"):
        found = with_cluster("cannot list groups", bootstrap, timeout_ms, work)
    rows = [
        {"group": row.group, "state": row.state or None, "protocol_type": row.protocol_type, "kind": "kafka"}
        for row in found
    ]
    if zookeeper is not None:
        old = _zookeeper_groups.listed(zookeeper, timeout_ms)
        rows += [
            {"group": row.group, "state": _zookeeper_groups.state(row), "protocol_type": None, "kind": "zookeeper"}
            for row in old
        ]
        rows.sort(key=lambda row: (row["group"] or "", row["kind"] or ""))
    header = _LISTED if zookeeper is None else (*_LISTED, "kind")
    if as_json:
        for row in rows:
            print_json({name.replace(" ", "_"): row[name.replace(" ", "_")] for name in header})
    elif only_names:
        print_names(sorted({row["group"] or "" for row in rows}), as_json=False)
    elif rows:
        click.echo(columns([[row[name.replace(" ", "_")] or "-" for name in header] for row in rows], header))


@command.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_groups)
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each group, one a line.")
@zookeeper_option(_IN_ZOOKEEPER)
@client_options
def describe(names: tuple[str, ...], as_json: bool, zookeeper: str | None, bootstrap: str, timeout_ms: int) -> None:
    """Show members and offsets of groups, with how far they are behind; without a NAME, of all.

    The lag is what is left to read: the end of the partition less the committed offset. Of a group in ZooKeeper it is
    also told which of the two has the offset, ZooKeeper or Kafka. The brokers that are asked are those that are
    registered there, unless --bootstrap names others.
    """
    if zookeeper is not None:
        asked = bootstrap if on_command_line("bootstrap") else None
        _zookeeper_groups.describe(names, as_json=as_json, servers=zookeeper, bootstrap=asked, timeout_ms=timeout_ms)
        return

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
        return f"{head}\n{with_marks(table, self.problems)}"


async def _describe(groups: Groups, name: str) -> _Described:
    from ottla.kafka import LATEST

    group = await groups.describe(name)
    found = _Described(group, await groups.committed(name))
    found.ends, found.problems = await bounds(groups.cluster, {*found.committed, *found.owners}, LATEST)
    return found


@command.command()
@click.argument("name", shell_complete=complete_groups)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    help="Only this topic; may be repeated.",
    shell_complete=complete_topics,
)
@click.option(
    "-p",
    "--partition",
    "numbers",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Only this partition of each topic; may be repeated.",
)
@aim_options
@plan_options
@zookeeper_option(_IN_ZOOKEEPER)
@client_options
def reset(
    name: str,
    topics: tuple[str, ...],
    numbers: tuple[int, ...],
    aim: Aim,
    dry_run: bool,
    yes: bool,
    zookeeper: str | None,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Set where group NAME goes on to read: in the topics given, or in all of which it has offsets.

    The group must have no members. The plan is shown first. Offsets beyond what is there become the first or the last
    that is. With --topic a group that does not exist is made. Of a group in ZooKeeper, offsets that it has in Kafka are
    set with those in ZooKeeper.
    """
    if zookeeper is not None:
        _zookeeper_groups.reset(
            name,
            aim,
            topics,
            numbers,
            dry_run=dry_run,
            yes=yes,
            servers=zookeeper,
            bootstrap=bootstrap if on_command_line("bootstrap") else None,
            timeout_ms=timeout_ms,
        )
        return

    async def look(cluster: Cluster) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Where the group is, and where it is to be."""
        from ottla.cli._names import check_group, check_topics, is_there
        from ottla.client.groups import Groups
        from ottla.kafka import OFFSETS_TOPIC

        groups = Groups(cluster)
        await check_topics(cluster, topics)
        found = await groups.committed(name) if await is_there(cluster, OFFSETS_TOPIC) else {}
        committed = {place: at.offset for place, at in found.items()}
        if not committed and (aim.shift_by is not None or not topics):
            await check_group(groups, name, otherwise="" if topics else "; with --topic it is made")
        wanted = await targets(cluster, name, aim, committed, topics, numbers)
        if committed and not dry_run and (members := (await groups.describe(name)).members):
            raise click.ClickException(f"group {name!r} has {counted(len(members), 'member')}: stop them first")
        return committed, wanted

    async def work(cluster: Cluster) -> None:
        from ottla.client.groups import Committed, Groups

        groups = Groups(cluster)
        if members := (await groups.describe(name)).members:  # who may have come while it was asked for
            raise click.ClickException(f"group {name!r} has {counted(len(members), 'member')}: stop them first")
        await groups.commit(name, {place: Committed(offset) for place, offset in wanted.items()})

    doing = f"cannot reset group {name!r}"
    committed, wanted = with_cluster(doing, bootstrap, timeout_ms, look)
    click.echo(plan(committed, wanted))
    count = counted(len(wanted), "offset")
    would = f"{count} of group {name} would be set"
    if agreed(f"Set {count} of group {on_one_line(name)}?", would, yes=yes, dry_run=dry_run):
        with_cluster(doing, bootstrap, timeout_ms, work)
        click.echo(f"set {count} of group {on_one_line(name)}")


@command.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_groups)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    help="Only the offsets of this topic; may be repeated.",
    shell_complete=complete_topics,
)
@plan_options
@zookeeper_option(_IN_ZOOKEEPER)
@client_options
def delete(
    names: tuple[str, ...],
    topics: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    zookeeper: str | None,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Delete groups that have no members, with their offsets. What would be deleted is shown first.

    In ZooKeeper a group that has nothing of other topics goes as a whole. With --topic and --zookeeper and no NAME it
    is done in all groups there. What a group has in Kafka stays.
    """
    if not names and not (topics and zookeeper is not None):
        raise click.UsageError("name a group; without one, --topic and --zookeeper are needed, for all groups there")
    if zookeeper is not None:
        _zookeeper_groups.delete(names, topics, dry_run=dry_run, yes=yes, servers=zookeeper, timeout_ms=timeout_ms)
        return
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
@click.argument("name", shell_complete=complete_groups)
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
