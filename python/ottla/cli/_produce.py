"""How `ottla produce` reads its files and sends their lines.

Nothing is left half done where that can be known before: files of JSON, whose lines name partitions, are read once
before anything is sent, and a topic that is not there is not made for lines that name partitions.
"""

from __future__ import annotations

import math
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ottla.cli._interrupts import end_interrupted, until_interrupted
from ottla.cli._output import counted
from ottla.cli._records import BadLine
from ottla.kafka import ACKS_ALL

if TYPE_CHECKING:
    from ottla.cli._lines import Source
    from ottla.cli._progress import Advance
    from ottla.cli._records import Parser
    from ottla.client.cluster import Cluster
    from ottla.client.producer import Producer

STDIN = "-"
MOMENT_S = 0.5


@dataclass(frozen=True)
class Options:
    """How to produce. `partition` is for all records; else their own if `keeps_partitions`, else one by key."""

    partition: int | None
    keeps_partitions: bool
    keeps_timestamps: bool
    compression: str
    acks: int


async def produce(cluster: Cluster, topic: str, files: tuple[str, ...], parse: Parser, options: Options) -> int:
    """Sends everything and returns how many records were acknowledged. Ctrl-C ends the reading: what was read is
    delivered, and said; a second one ends the wait for that.
    """
    from ottla.cli._progress import progress
    from ottla.client.producer import Producer

    names = files or (STDIN,)
    total_bytes = None if STDIN in names else sum(map(os.path.getsize, names))
    is_typed = STDIN in names and sys.stdin.isatty()
    async with Producer(
        cluster,
        acks=options.acks,
        idempotent=options.acks == ACKS_ALL,
        compression=options.compression,
        delivery_timeout_ms=cluster.timeout_ms,
    ) as producer:
        sender = _Sender(producer, topic, parse, options)
        if options.keeps_partitions:
            for name in names:
                await sender.check(name)
        else:
            await sender.open()
        with progress(f"producing to {topic}", total_bytes, unit="bytes", is_shown=not is_typed) as advance:

            async def send() -> None:
                if is_typed:
                    click.echo(f"each line becomes a record of {topic}; Ctrl-D ends", err=True)
                for name in names:
                    await sender.send_all(name, advance)

            interrupted = await until_interrupted(send)
            interrupted |= await until_interrupted(lambda: _flush(producer, says_so=interrupted))
        if interrupted:
            raise end_interrupted(f"produced {counted(producer.acknowledged, 'record')} to {topic}")
    return producer.acknowledged


async def _flush(producer: Producer, *, says_so: bool) -> None:
    """Waits for the acknowledgements; after Ctrl-C it says so if they take longer than a moment."""
    import trio

    with trio.move_on_after(MOMENT_S if says_so else math.inf):
        await producer.flush()
        return
    click.echo("waiting until what was read is delivered; Ctrl-C again ends", err=True)
    await producer.flush()


class _Sender:
    """Sends the lines of files."""

    def __init__(self, producer: Producer, topic: str, parse: Parser, options: Options) -> None:
        self.producer = producer
        self.topic = topic
        self.parse = parse
        self.options = options
        self.existing: range | None = None
        """The topic's partitions, as soon as they are known."""

    async def open(self, *, create: bool = True) -> range:
        """The topic's partitions. A topic that is not there is made, or is an error if that is not wanted."""
        from ottla.errors import UnknownTopicOrPartition

        cluster = self.producer.cluster
        try:
            found = await cluster.partitions(self.topic)
        except UnknownTopicOrPartition:
            if not create:
                raise BadLine(
                    f"it names a partition, and there is no topic '{self.topic}' yet; create it with as many "
                    f"partitions (`ottla topic create {self.topic} --partitions N`), or give --ignore-partitions"
                ) from None
            await cluster.topic(self.topic, create=True)
            found = await cluster.partitions(self.topic)
            click.echo(f"created topic {self.topic} with {counted(len(found), 'partition')}", err=True)
        self.existing = range(len(found))
        return self.existing

    async def check(self, name: str) -> None:
        """Reads a file once without sending anything, if it can be read again. Raises click.ClickException for its
        first line that cannot be sent.
        """
        if name == STDIN or not stat.S_ISREG(os.stat(name).st_mode):
            return
        with open(name, "rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    record = self.parse(line.removesuffix(b"\n").removesuffix(b"\r"))
                    await self._check_partition(record.partition)
                except BadLine as error:
                    raise click.ClickException(f"{name}, line {number}: {error} (nothing was produced)") from None

    async def send_all(self, name: str, advance: Advance) -> None:
        """Sends the lines of one file."""
        from ottla.cli._lines import lines

        before = 0
        with _opened(name) as source:
            async with aclosing(lines(source, lambda size: advance(size, 0))) as parts:
                async for part in parts:
                    for number, line in enumerate(part, start=before + 1):
                        try:
                            await self._send(line)
                        except BadLine as error:
                            await self.producer.flush()
                            sent = f"the {self.producer.acknowledged} records before it were produced"
                            where = "stdin" if name == STDIN else name
                            raise click.ClickException(f"{where}, line {number}: {error} ({sent})") from None
                    before += len(part)
                    advance(0, len(part))

    async def _send(self, line: bytes) -> None:
        record = self.parse(line)
        options = self.options
        to = record.partition if options.keeps_partitions else options.partition
        if to is not None or self.existing is None:
            await self._check_partition(to)
        await self.producer.send(
            self.topic,
            record.value,
            key=record.key,
            headers=record.headers,
            timestamp_ms=record.timestamp_ms if options.keeps_timestamps else None,
            partition=to,
        )

    async def _check_partition(self, partition: int | None) -> None:
        existing = self.existing
        if existing is None:
            existing = await self.open(create=partition is None or not self.options.keeps_partitions)
        if partition is not None and partition not in existing:
            instead = ""
            if self.options.keeps_partitions:
                instead = (
                    f"; `ottla topic alter {self.topic} --partitions N` adds some, --ignore-partitions chooses by key"
                )
            raise BadLine(f"topic '{self.topic}' has no partition {partition}; its last is {existing[-1]}{instead}")


@contextmanager
def _opened(name: str) -> Iterator[Source]:
    from ottla.cli._lines import stdin

    with ExitStack() as stack:
        yield stdin() if name == STDIN else stack.enter_context(open(name, "rb", buffering=0))
