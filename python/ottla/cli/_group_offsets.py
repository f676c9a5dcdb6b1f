"""Where groups are to go on to read: the options of `ottla group reset`, and what they mean for each partition."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli._errors import words
from ottla.cli._output import columns
from ottla.cli._settings import at_most_one
from ottla.cli._times import Time

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.offsets import FoundOffset
    from ottla.errors import KafkaError
    from ottla.kafka import TopicPartition

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Aim:
    """Where to: one of these."""

    to_earliest: bool
    to_latest: bool
    to_offset: int | None
    to_time: int | None
    shift_by: int | None

    @classmethod
    def of(cls, options: dict[str, Any]) -> Aim:
        """From the values of the options. Raises click.UsageError unless it is one."""
        ways = {
            "--to-earliest": options["to_earliest"],
            "--to-latest": options["to_latest"],
            "--to-offset": options["to_offset"] is not None,
            "--to-time": options["to_time"] is not None,
            "--shift-by": options["shift_by"] is not None,
        }
        at_most_one(ways)
        if not any(ways.values()):
            raise click.UsageError("say where to: --to-earliest, --to-latest, --to-offset, --to-time or --shift-by")
        return cls(**options)


_OPTIONS = (
    click.option("--to-earliest", is_flag=True, help="To the start of each partition."),
    click.option("--to-latest", is_flag=True, help="To the end of each partition."),
    click.option("--to-offset", type=click.IntRange(0), metavar="N", help="To an offset."),
    click.option(
        "--to-time",
        type=Time(),
        metavar="TIME",
        help="To the first record at or after a time: ISO 8601, or milliseconds since 1970.",
    ),
    click.option("--shift-by", type=int, metavar="N", help="N records on from where it is; back if negative."),
)
_NAMES = ("to_earliest", "to_latest", "to_offset", "to_time", "shift_by")


def aim_options(function: Function) -> Function:
    """Adds the options that say where to. The command gets them as one `aim`."""

    @functools.wraps(function)
    def command(**options: Any) -> Any:
        return function(aim=Aim.of({name: options.pop(name) for name in _NAMES}), **options)

    for option in reversed(_OPTIONS):
        command = option(command)
    return command  # type: ignore[return-value]


async def targets(
    cluster: Cluster,
    name: str,
    aim: Aim,
    committed: Mapping[TopicPartition, int],
    topics: Collection[str],
    numbers: Collection[int],
) -> dict[TopicPartition, int]:
    """The new offset of each partition of these topics and numbers, within what is there; without topics, of those of
    which the group has offsets. Says on stderr which partitions cannot be asked.

    Raises:
        click.ClickException: there is none at all, or not one of `numbers`.
    """
    from ottla.kafka import EARLIEST, LATEST, TopicPartition

    places = set(committed)
    if topics:
        places = {TopicPartition(topic, number) for topic in topics for number in await cluster.partitions(topic)}
    if missing := sorted(set(numbers) - {place.partition for place in places}):
        where = ", ".join(topics) or f"what group {name!r} reads"
        raise click.ClickException(f"there is no partition {missing[0]} in {where}")
    places = {place for place in places if not numbers or place.partition in numbers}
    first, problems = await bounds(cluster, places, EARLIEST)
    end, more = await bounds(cluster, first, LATEST)
    problems |= more
    timed: dict[TopicPartition, FoundOffset] = {}
    if aim.to_time is not None:
        timed, more = await bounds(cluster, end, aim.to_time)
        problems |= more
        end = {place: each for place, each in end.items() if place in timed}
    for place, problem in sorted(problems.items()):
        click.echo(f"{place} stays as it is: {words(problem)}", err=True)

    def target(place: TopicPartition) -> int | None:
        if aim.to_earliest or aim.to_latest:
            return (first if aim.to_earliest else end)[place].offset
        if aim.to_time is not None:
            return timed[place].offset if timed[place].offset >= 0 else end[place].offset
        if aim.to_offset is not None:
            return aim.to_offset
        return committed[place] + (aim.shift_by or 0) if place in committed else None

    wanted = {}
    for place in sorted(end):
        if (offset := target(place)) is not None:
            wanted[place] = min(max(offset, first[place].offset), end[place].offset)
    if not wanted and problems:
        raise click.ClickException(f"none of the offsets of group {name!r} can be set now")
    if not wanted:
        where = f"in {', '.join(topics)} to shift from" if topics else "in any topic that exists: name a --topic"
        raise click.ClickException(f"group {name!r} has no offsets {where}")
    return wanted


def plan(committed: Mapping[TopicPartition, int], wanted: Mapping[TopicPartition, int]) -> str:
    """A table of what would be set."""
    rows = [(place.topic, place.partition, committed.get(place, "-"), offset) for place, offset in wanted.items()]
    return columns(rows, ("topic", "partition", "from", "to"))


async def bounds(
    cluster: Cluster, places: Collection[TopicPartition], time: int
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
        left = dict.fromkeys(set(places) - found.keys(), time)
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


def with_marks(table: str, problems: Mapping[TopicPartition, KafkaError], more: Collection[str] = ()) -> str:
    """A table and below it what is not known and why, each line set in."""
    told = [(str(place), words(problem)) for place, problem in sorted(problems.items())]
    marks = [why if why.startswith(place) else f"{place}: {why}" for place, why in told]
    return "\n".join(f"  {line}" for line in (*table.splitlines(), *marks, *more))
