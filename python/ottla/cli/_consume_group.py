"""`ottla consume --group GROUP`: records of topics that the members of a group share.

What was printed is committed: every few seconds, before partitions go to another member, and at the end, also at
Ctrl-C. Nothing past it ever is. Where nobody reads the pipe any more that stdout is, nothing more is committed: what
was in the pipe comes again.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from ottla.cli._client import with_cluster
from ottla.cli._consume_reader import Reader, Sharing, find_ends, place_of, put
from ottla.cli._interrupts import ended_in_order
from ottla.cli._output import is_read, quoted, while_read
from ottla.client.consumer import RebalanceListener

if TYPE_CHECKING:
    import trio

    from ottla.client.cluster import Cluster
    from ottla.client.consumer import Consumer, Record
    from ottla.kafka import TopicPartition


def consume_as_member(sharing: Sharing, write: Callable[[Record], bytes], bootstrap: str, timeout_ms: int) -> None:
    """Prints records until there were enough, or the ends are reached, or for ever."""

    async def work(cluster: Cluster) -> None:
        from ottla.cli._names import check_topics

        # What the client would log the reader says.
        logging.getLogger("ottla.client").setLevel(logging.ERROR)
        await check_topics(cluster, sharing.topics)
        await ended_in_order(lambda reading: _read(cluster, sharing, write, timeout_ms, reading))

    with_cluster(f"cannot consume {quoted(sharing.topics)}", bootstrap, timeout_ms, work)


async def _read(
    cluster: Cluster, sharing: Sharing, write: Callable[[Record], bytes], timeout_ms: int, reading: trio.CancelScope
) -> None:
    """Reads as a member until the end or until `reading` is cancelled; commits and leaves then."""
    from ottla.client.consumer import Consumer
    from ottla.errors import KafkaError

    start = "earliest" if sharing.from_beginning else "latest"
    async with Consumer(cluster, group=sharing.group, start=start, read_committed=sharing.read_committed) as consumer:
        reader = Reader(consumer, sharing.topics, timeout_ms)
        member = _Member(sharing, reader, write)
        consumer.subscribe(sharing.topics, member)
        try:
            with reading:
                await while_read(member.read)
        except KafkaError:
            with suppress(KafkaError):
                await _commit(consumer)
            raise
        await _commit(consumer)
        if not reader.printed and not reading.cancel_called:
            click.echo(member.nothing(), err=True)


async def _commit(consumer: Consumer) -> None:
    """The last commit, unless nobody has read the pipe to its end. Raises KafkaError if it is not stored in time."""
    if is_read():
        await consumer.commit()


class _Member(RebalanceListener):
    def __init__(self, sharing: Sharing, reader: Reader, write: Callable[[Record], bytes]) -> None:
        self.sharing = sharing
        self.reader = reader
        self.consumer = reader.consumer
        self.write = write
        self.ends: dict[TopicPartition, int] = {}
        self._left = self.consumer.group_metadata().generation
        """The generation whose partitions went: in a later one that gives none there are none to wait for."""

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """They are others' to read up to their ends."""
        self._left = self.consumer.group_metadata().generation
        for each in partitions:
            self.ends.pop(each, None)

    async def read(self) -> None:
        """Prints what comes. After it, the positions are those behind what was printed."""
        from ottla.cli._progress import progress

        left = self.sharing.max_messages
        doing = f"consuming {', '.join(self.sharing.topics)}"
        # Where the records themselves are seen, nothing else moves on the screen.
        with progress(doing, None, unit="records", is_shown=not sys.stdout.isatty()) as advance:
            while left != 0 and not await self._is_at_end():
                records = await self.reader.poll()
                if self.sharing.until_end:
                    await find_ends(self.consumer, self.ends)
                    records = self._kept(records, [each.offset < self.ends[place_of(each)] for each in records])
                if left is not None:
                    records = self._kept(records, [at < left for at in range(len(records))])
                    left -= len(records)
                put(records, self.write, advance)
                self.reader.printed += len(records)

    async def _is_at_end(self) -> bool:
        if not self.sharing.until_end:
            return False
        if self.consumer.assignment():
            return self.consumer.assignment() <= self.consumer.paused()
        return self.consumer.group_metadata().generation != self._left

    def _kept(self, records: list[Record], are_wanted: list[bool]) -> list[Record]:
        """Those that are wanted; the positions go back to the first of each partition that is not."""
        kept = []
        for record, is_wanted in zip(records, are_wanted, strict=True):
            if is_wanted:
                kept.append(record)
            else:
                place = place_of(record)
                self.consumer.positions[place] = min(self.consumer.positions[place], record.offset)
        return kept

    def nothing(self) -> str:
        """Why nothing was printed."""
        if not self.consumer.assignment():
            return f"other members of group {self.sharing.group!r} have all partitions"
        return f"nothing new for group {self.sharing.group!r}"
