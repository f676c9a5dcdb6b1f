"""What readers of records share, with a group and without: polls that say what cannot be read, ends, printing."""

from __future__ import annotations

import math
import sys
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

import click

from ottla.cli._errors import words
from ottla.cli._output import COMMANDS_MAX, counted, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ottla.cli._progress import Advance
    from ottla.client.consumer import Consumer, Record
    from ottla.client.offsets import FoundOffset
    from ottla.kafka import TopicPartition


class Sharing(NamedTuple):
    """What a member reads, and when it ends."""

    group: str
    topics: tuple[str, ...]
    from_beginning: bool
    max_messages: int | None
    until_end: bool
    read_committed: bool


async def find_ends(consumer: Consumer, ends: dict[TopicPartition, int]) -> None:
    """Notes where partitions end that have begun to be read, and rests those that are read up to there."""
    if new := consumer.positions.keys() - ends.keys():
        ends.update(await consumer.end_offsets(new))
    consumer.pause(partition for partition, end in ends.items() if consumer.positions[partition] >= end)


class Reader:
    """Polls, and says on stderr which partitions cannot be read, and when they can be again. If none can be for longer
    than an answer may take, they are not waited for.
    """

    def __init__(self, consumer: Consumer, topics: Sequence[str], timeout_ms: int) -> None:
        self.consumer = consumer
        self.topics = topics
        self.timeout_s = timeout_ms / 1000
        self.printed = 0
        self._gone: tuple[float, Exception] | None = None
        """Since when there is none that can be read, and what was seen first."""
        self._missed: set[TopicPartition] = set()
        """What cannot be read while others can."""

    async def poll(self) -> list[Record]:
        """The next records. Raises click.ClickException if brokers do not come back."""
        import trio

        deadline = math.inf if self._gone is None else self._gone[0] + self.timeout_s
        with trio.move_on_at(deadline) as waits:
            records = await _poll(self.consumer)
        if waits.cancelled_caught:
            raise self._given_up()
        obstacles = self.consumer.obstacles
        wanted = self.consumer.assignment() - self.consumer.paused()
        if not obstacles or wanted - obstacles.keys():
            if self._gone is not None:
                click.echo("the brokers are back", err=True)
            self._gone = None
            self._tell_of_some(obstacles)
        elif self._gone is None:
            obstacle = next(iter(obstacles.values()))
            click.echo(f"{words(obstacle)}; trying again for {self.timeout_s:g} s", err=True)
            self._gone = trio.current_time(), obstacle
        elif records:
            self._gone = trio.current_time(), next(iter(obstacles.values()))
        elif trio.current_time() >= deadline:
            raise self._given_up()
        return records

    def _tell_of_some(self, obstacles: Mapping[TopicPartition, Exception]) -> None:
        for partition in sorted(obstacles.keys() - self._missed):
            click.echo(f"{partition} cannot be read now: {words(obstacles[partition])}", err=True)
        for partition in sorted(self._missed - obstacles.keys()):
            click.echo(f"{partition} is read again", err=True)
        self._missed = set(obstacles)

    def _given_up(self) -> click.ClickException:
        assert self._gone is not None
        doing, gone = f"cannot consume {quoted(self.topics)}", words(self._gone[1])
        why = f"{doing}: {gone}, and for {self.timeout_s:g} s nothing has answered"
        if not self.printed:
            return click.ClickException(why)
        commands = [
            f"`ottla consume {quote(each.topic)} -p {each.partition} -o {offset}`"
            for each, offset in sorted(self.consumer.positions.items())
        ]
        more = "" if len(commands) <= COMMANDS_MAX else f" and so on for {len(commands) - COMMANDS_MAX} more"
        printed = counted(self.printed, "record was", "records were")
        if self.consumer.group is not None:
            return click.ClickException(f"{why}; {printed} printed, and the same command goes on")
        return click.ClickException(f"{why}; {printed} printed, {', '.join(commands[:COMMANDS_MAX])}{more} goes on")


async def _poll(consumer: Consumer) -> list[Record]:
    """The next records; goes on with the oldest that is left where retention has overtaken it."""
    from ottla.client.offsets import ask_offsets
    from ottla.errors import OffsetOutOfRange
    from ottla.kafka import EARLIEST

    try:
        return await consumer.poll()
    except OffsetOutOfRange as error:
        firsts: dict[TopicPartition, FoundOffset] = {}
        await ask_offsets(consumer.cluster, dict.fromkeys(consumer.positions, EARLIEST), firsts.__setitem__)
        overtaken = [
            partition
            for partition, at in consumer.positions.items()
            if partition in firsts and at < firsts[partition].offset
        ]
        if not overtaken:
            raise
        for partition in overtaken:
            click.echo(f"{error}: deleted meanwhile, going on at {firsts[partition].offset}", err=True)
            consumer.positions[partition] = firsts[partition].offset
        return []


def place_of(record: Record) -> TopicPartition:
    from ottla.kafka import TopicPartition

    return TopicPartition(record.topic, record.partition)


def put(records: list[Record], write: Callable[[Record], bytes], advance: Advance) -> None:
    if records:
        sys.stdout.buffer.write(b"".join(write(record) for record in records))
        sys.stdout.buffer.flush()
        advance(len(records), len(records))
