"""`ottla group` with `--zookeeper`: the groups of consumers before Kafka 0.9, which are in ZooKeeper.

Their offsets are there, or in Kafka (`offsets.storage=kafka`), or on the way in both; ZooKeeper does not say which, so
both are asked. Where both have one, the greater counts, as it does for the consumers themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from ottla.cli._ask import agreed
from ottla.cli._errors import each_of, on_one_line, words
from ottla.cli._group_offsets import Aim, bounds, plan, targets, with_marks
from ottla.cli._output import columns, counted, print_json, quoted
from ottla.cli._zookeeper import Session, with_zookeeper

if TYPE_CHECKING:
    from ottla.classic.groups import ListedGroup, TreeGroup
    from ottla.client.offsets import FoundOffset
    from ottla.errors import KafkaError
    from ottla.kafka import TopicPartition

KIND = "zookeeper"
_NOT_DELETED = "nothing was deleted"
_DESCRIBED = ("topic", "partition", "committed", "end", "lag", "owner", "storage")


def listed(servers: str, timeout_ms: int) -> list[ListedGroup]:
    """All groups that are in a ZooKeeper."""

    async def work(session: Session) -> list[ListedGroup]:
        from ottla.classic.groups import list_groups

        return await session.answered(lambda: list_groups(session.tree))

    return with_zookeeper("cannot list groups", servers, None, timeout_ms, work)


def state(row: ListedGroup) -> str:
    """A word for whether a group has members; ZooKeeper's groups have no states."""
    return "Active" if row.members else "Empty"


def describe(names: tuple[str, ...], *, as_json: bool, servers: str, bootstrap: str | None, timeout_ms: int) -> None:
    """Prints what there is of groups; without names, of all."""

    async def work(session: Session) -> list[_Described]:
        from ottla.classic.groups import list_groups

        groups = [await existing(session, name) for name in names]
        if not names:
            rows = await session.answered(lambda: list_groups(session.tree))
            groups = await _present(session, [row.group for row in rows])
        return [await _describe(session, group) for group in groups]

    doing = f"cannot describe group {quoted(names)}" if names else "cannot describe groups"
    for found in with_zookeeper(doing, servers, bootstrap, timeout_ms, work):
        if as_json:
            print_json(found.as_json())
        else:
            click.echo(found.as_text())


async def existing(session: Session, name: str, otherwise: str = "") -> TreeGroup:
    """A group. Raises click.ClickException if there is none; `otherwise` is the end of what it says."""
    from ottla.classic.groups import list_groups
    from ottla.cli._names import missing

    if (found := await read(session, name)) is None:
        others = [row.group for row in await session.answered(lambda: list_groups(session.tree))]
        raise click.ClickException(f"{missing('group', name, others)} in ZooKeeper at {session.servers}{otherwise}")
    return found


async def read(session: Session, name: str) -> TreeGroup | None:
    """A group; None if there is none. Raises click.ClickException for a name that none can have."""
    from ottla.classic.groups import group_path, read_group
    from ottla.coordination.tree import is_path

    if "/" in name or not is_path(group_path(name)):
        raise click.ClickException(f"no group in ZooKeeper can have the name {name!r}: it is the name of a node there")
    return await session.answered(lambda: read_group(session.tree, name))


async def _present(session: Session, names: Sequence[str]) -> list[TreeGroup]:
    """Those groups that are there still."""
    return [found for name in names if (found := await read(session, name)) is not None]


async def in_kafka(session: Session, name: str) -> dict[TopicPartition, int]:
    """What a group has committed in Kafka. Raises KafkaError, OSError, click.ClickException."""
    from ottla.cli._names import is_there
    from ottla.client.groups import Groups
    from ottla.kafka import OFFSETS_TOPIC

    cluster = await session.cluster()
    if not await is_there(cluster, OFFSETS_TOPIC):
        return {}
    return {place: found.offset for place, found in (await Groups(cluster).committed(name)).items()}


class _Described:
    def __init__(self, group: TreeGroup) -> None:
        self.group = group
        self.places: set[TopicPartition] = {*group.offsets, *group.owners}
        self.in_kafka: Mapping[TopicPartition, int] = {}
        self.ends: Mapping[TopicPartition, FoundOffset] = {}
        self.problems: Mapping[TopicPartition, KafkaError] = {}
        """Why the ends of some partitions are not known."""
        self.unknown: list[str] = []
        """What could not be asked at all."""

    def _rows(self) -> list[dict[str, object]]:
        rows = []
        for place in sorted(self.places):
            committed = both(self.group.offsets, self.in_kafka).get(place)
            end = self.ends[place].offset if place in self.ends else None
            owner = self.group.owners.get(place)
            rows.append(
                {
                    "topic": place.topic,
                    "partition": place.partition,
                    "committed": committed,
                    "end": end,
                    "lag": end - committed if committed is not None and end is not None else None,
                    "owner": owner.name if owner is not None else None,
                    "zookeeper": self.group.offsets.get(place),
                    "kafka": self.in_kafka.get(place),
                }
            )
        return rows

    def as_json(self) -> dict[str, object]:
        return {
            "group": self.group.group,
            "kind": KIND,
            "members": [
                {"member": each.member_id, "topics": list(each.topics), "pattern": each.pattern}
                for each in self.group.members
            ],
            "partitions": self._rows(),
            "problems": [*self.group.problems, *self.unknown],
        }

    def as_text(self) -> str:
        head = f"{on_one_line(self.group.group)}: in ZooKeeper, {counted(len(self.group.members), 'member')}"
        rows = []
        for place, row in zip(sorted(self.places), self._rows(), strict=True):
            cells = ["-" if row[name] is None else row[name] for name in _DESCRIBED[:-1]]
            cells[4] = cells[4] if row["lag"] is None else f"{row['lag']:,}"
            rows.append((*cells, _storage(self.group.offsets.get(place), self.in_kafka.get(place))))
        names = [owner.name for owner in self.group.owners.values()]
        idle = [
            f"member {on_one_line(each.member_id)} owns no partition"
            for each in self.group.members
            if not any(name.rpartition("-")[0] == each.member_id for name in names)
        ]
        table = columns(rows, _DESCRIBED) if rows else ""
        below = with_marks(table, self.problems, [*idle, *map(on_one_line, self.group.problems), *self.unknown])
        return f"{head}\n{below}" if below else head


def both(tree: Mapping[TopicPartition, int], kafka: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The offset of each partition, the greater one where both have one."""
    return {place: max(tree.get(place, -1), kafka.get(place, -1)) for place in {*tree, *kafka}}


def _storage(tree: int | None, kafka: int | None) -> str:
    """Where an offset is. Where both have one and they differ, it says what the lesser is."""
    if tree is None or kafka is None:
        return "-" if tree is kafka else "kafka" if tree is None else "zookeeper"
    if tree == kafka:
        return "both"
    return f"kafka (zookeeper: {tree})" if kafka > tree else f"zookeeper (kafka: {kafka})"


async def _describe(session: Session, group: TreeGroup) -> _Described:
    from ottla.classic.groups import partitions_of
    from ottla.errors import KafkaError
    from ottla.kafka import LATEST, TopicPartition

    found = _Described(group)
    there = await session.answered(lambda: partitions_of(session.tree, group.topics))
    in_tree = {TopicPartition(topic, number) for topic, numbers in there.items() for number in numbers}
    found.places |= in_tree
    try:
        cluster = await session.cluster()
        found.ends, found.problems = await bounds(cluster, found.places, LATEST)
        lost = sorted(in_tree - found.ends.keys() - found.problems.keys())
        found.unknown += [f"{place} is in ZooKeeper, and no broker knows it" for place in lost]
    except (KafkaError, OSError, click.ClickException) as problem:
        found.unknown.append(f"what brokers know is left out: {_why(problem)}")
        return found
    try:
        found.in_kafka = await in_kafka(session, group.group)
    except (KafkaError, OSError, click.ClickException) as problem:
        found.unknown.append(f"offsets that are in Kafka are left out: {_why(problem)}")
        return found
    if more := found.in_kafka.keys() - found.places:
        found.places |= more
        ends, problems = await bounds(cluster, more, LATEST)
        found.ends, found.problems = {**found.ends, **ends}, {**found.problems, **problems}
    return found


def _why(problem: Exception) -> str:
    return problem.message if isinstance(problem, click.ClickException) else words(problem)


class _Plan(NamedTuple):
    committed: dict[TopicPartition, int]
    wanted: dict[TopicPartition, int]
    in_kafka: dict[TopicPartition, int]
    """Those of `wanted` that the group has in Kafka, too."""


def reset(
    name: str,
    aim: Aim,
    topics: tuple[str, ...],
    numbers: tuple[int, ...],
    *,
    dry_run: bool,
    yes: bool,
    servers: str,
    bootstrap: str | None,
    timeout_ms: int,
) -> None:
    """Sets where a group goes on to read: in ZooKeeper, and in Kafka where it has offsets there, so that its members
    begin there wherever they look.
    """

    async def look(session: Session) -> _Plan:
        from ottla.cli._names import check_topics

        otherwise = "" if topics else "; with --topic it is made"
        needs_group = aim.shift_by is not None or not topics
        group = await existing(session, name, otherwise) if needs_group else await read(session, name)
        if group is not None and not dry_run:
            group.check_resettable()
        cluster = await session.cluster()
        await check_topics(cluster, topics)
        kafka = await in_kafka(session, name)
        if kafka and not dry_run:
            await _check_no_members(session, name)
        committed = both(group.offsets if group is not None else {}, kafka)
        wanted = await targets(cluster, name, aim, committed, topics, numbers)
        return _Plan(committed, wanted, {place: offset for place, offset in wanted.items() if place in kafka})

    async def work(session: Session) -> None:
        from ottla.classic.groups import write_offsets
        from ottla.client.groups import Committed, Groups

        group = await read(session, name)  # whose members may have come while it was asked for
        if group is not None:
            group.check_resettable()
        if found.in_kafka:
            await _check_no_members(session, name)
            offsets = {place: Committed(offset) for place, offset in found.in_kafka.items()}
            await Groups(await session.cluster()).commit(name, offsets)
        await write_offsets(session.tree, name, found.wanted)

    doing = f"cannot reset group {name!r}"
    found = with_zookeeper(doing, servers, bootstrap, timeout_ms, look)
    click.echo(plan(found.committed, found.wanted))
    count = counted(len(found.wanted), "offset")
    shown = on_one_line(name)
    if agreed(f"Set {count} of group {shown}?", f"{count} of group {name} would be set", yes=yes, dry_run=dry_run):
        with_zookeeper(doing, servers, bootstrap, timeout_ms, work)
        also = f", {len(found.in_kafka)} of them also in Kafka" if found.in_kafka else ""
        click.echo(f"set {count} of group {shown}{also}")


async def _check_no_members(session: Session, name: str) -> None:
    """Raises click.ClickException if newer consumers are in a group of this name."""
    from ottla.client.groups import Groups

    members = (await Groups(await session.cluster()).describe(name)).members
    if members:
        raise click.ClickException(f"group {name!r} has {counted(len(members), 'member')} in Kafka: stop them first")


def delete(
    names: tuple[str, ...], topics: tuple[str, ...], *, dry_run: bool, yes: bool, servers: str, timeout_ms: int
) -> None:
    """Deletes groups, or what they have of topics; without names what all groups without members have of them. What
    they have in Kafka stays.
    """
    of = f"what {', '.join(names) or 'all groups'} have of {', '.join(topics)}"
    what = of if topics else ", ".join(names)
    doing = f"cannot delete {what}"

    async def chosen(session: Session) -> list[TreeGroup]:
        from ottla.classic.groups import list_groups

        if names:
            return await _present(session, names)
        rows = await session.answered(lambda: list_groups(session.tree))
        groups = await _present(session, [row.group for row in rows])
        groups = [group for group in groups if not group.topics.isdisjoint(topics)]
        if not groups:
            raise click.ClickException(f"no group has anything of {quoted(topics)}")
        return groups

    async def look(session: Session) -> list[tuple[object, ...]]:
        for name in names:
            await existing(session, name)
        return [
            (group.group, len(group.members), sum(not topics or each.topic in topics for each in group.offsets))
            for group in await chosen(session)
        ]

    if dry_run or not yes:
        rows = with_zookeeper(doing, servers, None, timeout_ms, look)
        click.echo(columns(rows, ("group", "members", "offsets")))
    if not agreed(f"Delete {what}?", f"{what} would be deleted", yes=yes, dry_run=dry_run, otherwise=_NOT_DELETED):
        return

    async def work(session: Session) -> None:
        if names:
            await each_of(names, "cannot delete group", lambda name: _delete_one(session, name, topics))
            return
        for group in await chosen(session):
            try:
                await _delete_one(session, group.group, sorted(group.topics & set(topics)))
            except click.ClickException as problem:
                click.echo(problem.message, err=True)

    with_zookeeper(doing, servers, None, timeout_ms, work)


async def _delete_one(session: Session, name: str, topics: Sequence[str]) -> None:
    from ottla.classic.groups import GroupHasMembers, delete_group
    from ottla.config.nearest import hint

    group = await existing(session, name)
    for topic in topics:
        if topic not in group.topics:
            raise click.ClickException(f"group {name!r} has nothing of {topic!r}{hint(topic, group.topics)}")
    try:
        is_whole = await delete_group(session.tree, group, topics)
    except GroupHasMembers as problem:
        raise click.ClickException(str(problem)) from None
    shown = on_one_line(name)
    if not topics:
        click.echo(f"deleted group {shown}")
    elif is_whole:
        click.echo(f"deleted group {shown}, which had nothing else")
    else:
        click.echo(f"deleted what group {shown} has of {', '.join(topics)}")
