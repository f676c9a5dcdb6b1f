"""`ottla consume --classic`: records of topics that a group of consumers before Kafka 0.9 shares.

The connector of `ottla.classic` blocks, so it is used in a thread. A message counts as consumed when it is taken from
the stream. What is taken is printed before anything else is done, also at Ctrl-C, so that the offsets that are written
at the end are those of what was printed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from ottla.cli._consume_reader import Sharing, put
from ottla.cli._errors import explained
from ottla.cli._group_offsets import bounds
from ottla.cli._interrupts import ended_in_order
from ottla.cli._output import is_read, quoted, while_read
from ottla.cli._zookeeper import CONNECT_MS, Session, with_zookeeper

if TYPE_CHECKING:
    import trio

    from ottla.classic.consumer import ConsumerConnector
    from ottla.classic.stream import AnyStream, MessageAndMetadata
    from ottla.client.consumer import Record
    from ottla.kafka import TopicPartition

TAKEN_MAX = 500
"""Messages between two looks at Ctrl-C and at the pipe."""
WAIT_MS = 200
"""How long the thread waits for a message before it looks."""
COMMIT_MS = 5_000
RETRIES = 15
"""Twice as many seconds may owners of partitions take that ended without a word: their sessions end before."""


def consume_as_classic(sharing: Sharing, write: Callable[[Record], bytes], servers: str, timeout_ms: int) -> None:
    """Prints records until there were enough, or the ends are reached, or for ever."""
    doing = f"cannot consume {quoted(sharing.topics)}"

    async def work(session: Session) -> None:
        from ottla.classic.errors import ClassicError

        await _check_topics(session, sharing)
        ends = await _ends(session, sharing) if sharing.until_end else None
        with explained(doing, ClassicError):
            await ended_in_order(lambda reading: _read(sharing, write, servers, timeout_ms, ends, reading))

    with_zookeeper(doing, servers, None, timeout_ms, work)


async def _check_topics(session: Session, sharing: Sharing) -> None:
    from ottla.classic.discovery import TOPICS
    from ottla.cli._names import check_names
    from ottla.coordination.tree import children_or_none
    from ottla.errors import UnknownTopicOrPartition

    there = await session.answered(lambda: children_or_none(session.tree, TOPICS)) or []
    check_names("topic", sharing.topics, there, UnknownTopicOrPartition)


async def _ends(session: Session, sharing: Sharing) -> dict[TopicPartition, int]:
    """Where the partitions end now. Raises click.ClickException if that is not known of one."""
    from ottla.classic.groups import partitions_of
    from ottla.kafka import LATEST, TopicPartition

    there = await session.answered(lambda: partitions_of(session.tree, sharing.topics))
    places = [TopicPartition(topic, number) for topic, numbers in there.items() for number in numbers]
    found, _ = await bounds(await session.cluster(), places, LATEST)
    if unknown := sorted(set(places) - found.keys()):
        raise click.ClickException(f"where {unknown[0]} ends cannot be asked now; without --until-end it is waited for")
    return {place: each.offset for place, each in found.items()}


async def _read(
    sharing: Sharing,
    write: Callable[[Record], bytes],
    servers: str,
    timeout_ms: int,
    ends: dict[TopicPartition, int] | None,
    reading: trio.CancelScope,
) -> None:
    import trio

    from ottla.classic.consumer import Consumer

    settings = {
        "zookeeper.connect": servers,
        "zookeeper.connection.timeout.ms": min(timeout_ms, CONNECT_MS),
        "group.id": sharing.group,
        "auto.offset.reset": "smallest" if sharing.from_beginning else "largest",
        "auto.commit.interval.ms": COMMIT_MS,
        "consumer.timeout.ms": WAIT_MS,
        "rebalance.max.retries": RETRIES,
    }
    connector = await trio.to_thread.run_sync(partial(Consumer.create, settings))
    is_printed = True
    try:
        stream = await trio.to_thread.run_sync(_stream, connector, sharing.topics)
        reader = _Reader(sharing, write, connector, stream, ends)
        with reading:
            await while_read(reader.read)
        if not reader.printed and not reading.cancel_called:
            click.echo(reader.nothing(), err=True)
    except OSError:  # of stdout
        is_printed = False
        raise
    finally:
        await trio.to_thread.run_sync(partial(connector.shutdown, commit=is_printed and is_read()))


def _stream(connector: ConsumerConnector, topics: tuple[str, ...]) -> AnyStream:
    """One stream of all topics."""
    from ottla.classic.registry import Whitelist

    if len(topics) == 1:
        return connector.create_message_streams({topics[0]: 1})[topics[0]][0]
    return connector.create_message_streams_by_filter(Whitelist("|".join(map(re.escape, topics))))[0]


class _Reader:
    def __init__(
        self,
        sharing: Sharing,
        write: Callable[[Record], bytes],
        connector: ConsumerConnector,
        stream: AnyStream,
        ends: dict[TopicPartition, int] | None,
    ) -> None:
        self.sharing = sharing
        self.write = write
        self.connector = connector
        self.stream = stream
        self.ends = ends
        self.printed = 0

    async def read(self) -> None:
        """Prints what comes."""
        import trio

        from ottla.cli._progress import progress

        left = self.sharing.max_messages
        doing = f"consuming {', '.join(self.sharing.topics)}"
        # Where the records themselves are seen, nothing else moves on the screen.
        with progress(doing, None, unit="records", is_shown=not sys.stdout.isatty()) as advance:
            while left != 0 and not self._is_at_end():
                most = TAKEN_MAX if left is None else min(left, TAKEN_MAX)
                # A cancelled scope does not keep the thread's answer back: what was taken is printed.
                taken = await trio.to_thread.run_sync(self._take, most)
                put([_record(each) for each in taken], self.write, advance)
                self.printed += len(taken)
                left = None if left is None else left - len(taken)

    def _take(self, most: int) -> list[MessageAndMetadata[bytes, bytes]]:
        from ottla.classic.errors import ConsumerTimeout

        try:
            return self.stream.take(most)
        except ConsumerTimeout:
            return []

    def _is_at_end(self) -> bool:
        """Whether all is read that this member owns, up to where it ended at the start."""
        if self.ends is None:
            return False
        at = self.stream.consumed()
        return all(place in at and at[place] >= self.ends.get(place, 0) for place in self.connector.owned)

    def nothing(self) -> str:
        """Why nothing was printed."""
        if not self.connector.owned:
            return f"other members of group {self.sharing.group!r} have all partitions"
        return f"nothing new for group {self.sharing.group!r}"


def _record(message: MessageAndMetadata[bytes, bytes]) -> Record:
    from ottla.client.consumer import Record

    return Record(
        message.topic,
        message.partition,
        message.offset,
        message.timestamp_ms,
        message.key,
        message.message,
        message.headers,
    )
