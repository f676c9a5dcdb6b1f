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
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import click

from ottla.cli._interrupts import end_interrupted, until_interrupted
from ottla.cli._output import COMMANDS_MAX, counted
from ottla.cli._records import BadLine
from ottla.kafka import ACKS_ALL

if TYPE_CHECKING:
    from ottla.cli._lines import Source
    from ottla.cli._progress import Advance
    from ottla.cli._records import Parser, Record
    from ottla.client.batches import Batch
    from ottla.client.cluster import Cluster
    from ottla.client.producer import Producer

STDIN = "-"
MOMENT_S = 0.5
TOPIC_LIMIT, BROKER_LIMIT = "max.message.bytes", "socket.request.max.bytes"
BATCH_OVERHEAD_BYTES = 256
"""More than a batch adds to a record without headers."""
HEADER_OVERHEAD_BYTES = 10
"""The most that a header takes beside its name and value."""


@dataclass(frozen=True)
class Options:
    """How to produce. `partition` is for all records; else their own if `keeps_partitions`, else one by key.
    `header_bytes` are those of a record that are not of its line.
    """

    partition: int | None
    keeps_partitions: bool
    keeps_timestamps: bool
    compression: str
    acks: int
    line_bytes_max: int
    header_bytes: int = 0


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
        sender = Sender(producer, topic, parse, options)
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

            try:
                interrupted = await until_interrupted(send)
                interrupted |= await until_interrupted(lambda: _flush(sender, says_so=interrupted))
            except click.ClickException:
                raise
            except Exception:
                sender.say_how_far()
                raise
        if interrupted:
            raise end_interrupted(f"produced {counted(producer.acknowledged, 'record')} to {topic}")
    return producer.acknowledged


async def _flush(sender: Sender, *, says_so: bool) -> None:
    """Waits for the acknowledgements; after Ctrl-C it says so if they take longer than a moment."""
    import trio

    with trio.move_on_after(MOMENT_S if says_so else math.inf):
        await sender.flush()
        return
    click.echo("waiting until what was read is delivered; Ctrl-C again ends", err=True)
    await sender.flush()


class _Place(NamedTuple):
    """A line of a file, and the offset that it is a copy of."""

    name: str
    line: int
    offset: int


class _Limit(NamedTuple):
    """How large a batch may be, and which setting with which value says so."""

    bytes_max: int
    setting: str
    value: int


_Source = tuple[str, int]
"""The topic and partition that a line is a copy of."""


class Sender:
    """Sends the lines of files."""

    def __init__(self, producer: Producer, topic: str, parse: Parser, options: Options) -> None:
        self.producer = producer
        self.topic = topic
        self.parse = parse
        self.options = options
        self.existing: range | None = None
        """The topic's partitions, as soon as they are known."""
        self.read = 0
        """How many lines the producer has taken."""
        self.limit: _Limit | None = None
        self._suspect_bytes = sys.maxsize
        """From here on the record of a line may be too large."""
        self._at = STDIN, 0
        """The last line that the producer has taken."""
        self._next: dict[_Source, int] = {}
        self._unsure: dict[Batch, dict[_Source | None, _Place]] = {}
        """The first lines of each batch that is not acknowledged: of each partition that it copies."""

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
        self.limit = await _limit(cluster, self.topic)
        if self.limit is not None:
            self._suspect_bytes = self.limit.bytes_max - BATCH_OVERHEAD_BYTES - self.options.header_bytes
        return self.existing

    async def check(self, name: str) -> None:
        """Reads a file once without sending anything, if it can be read again. Raises click.ClickException for its
        first line that cannot be sent.
        """
        if name == STDIN or not stat.S_ISREG(os.stat(name).st_mode):
            return
        bytes_max = self.options.line_bytes_max
        with open(name, "rb") as file:
            # A line may have as many bytes, and its end.
            for number, line in enumerate(iter(lambda: file.readline(bytes_max + 2), b""), start=1):
                try:
                    if len(line.rstrip(b"\r\n")) > bytes_max:
                        raise self._too_long()
                    record = self.parse(line.removesuffix(b"\n").removesuffix(b"\r"))
                    await self._check_partition(record.partition)
                except BadLine as error:
                    raise click.ClickException(f"{name}, line {number}: {error} (nothing was produced)") from None

    async def send_all(self, name: str, advance: Advance) -> None:
        """Sends the lines of one file."""
        from ottla.cli._lines import LineTooLong, lines

        before, number = self.read, 0
        with _opened(name) as source:
            parts = lines(source, lambda size: advance(size, 0), self.options.line_bytes_max)
            async with aclosing(parts):
                try:
                    async for part in parts:
                        for line in part:
                            await self._send(name, number + 1, line)
                            number += 1
                        self._settle()
                        advance(0, len(part))
                except LineTooLong:
                    await self._stop_at(name, number + 1, self._too_long())
                except BadLine as error:
                    await self._stop_at(name, number + 1, error)
                finally:
                    # Once, not with each line.
                    self.read, self._at = before + number, (name, number)

    async def _stop_at(self, name: str, number: int, error: BadLine) -> NoReturn:
        """Ends the command at a line that cannot be sent, when all before it are delivered."""
        await self.flush()
        before = counted(self.producer.acknowledged, "record before it was", "records before it were")
        goes_on = "" if name == STDIN else f"; `tail -n +{number} {quote(name)}` begins with it"
        where = "stdin" if name == STDIN else name
        raise click.ClickException(f"{where}, line {number:,}: {error} ({before} produced{goes_on})") from None

    def _too_long(self) -> BadLine:
        return BadLine(
            f"it has more than {counted(self.options.line_bytes_max, 'byte')}; --max-line admits longer ones"
        )

    async def flush(self) -> None:
        """Waits until everything that was sent is acknowledged. Raises KafkaError: some of it cannot be."""
        await self.producer.flush()
        self._settle()

    def _settle(self) -> None:
        """Forgets what is acknowledged."""
        for batch in [batch for batch in self._unsure if batch.is_over and batch.failure is None]:
            del self._unsure[batch]

    def say_how_far(self) -> None:
        """After an error: what is in the topic, and how to go on."""
        if self.options.acks == 0 or not self.read:
            return
        click.echo(
            f"{self.producer.acknowledged:,} of the {counted(self.read, 'record')} that were read are known to be in "
            f"{self.topic}; {self._goes_on()}",
            err=True,
        )

    def _goes_on(self) -> str:
        self._settle()
        unsure = [each for places in self._unsure.values() for each in places.items()]
        if not self._next:
            place = unsure[0][1] if unsure else _Place(self._at[0], self._at[1] + 1, 0)
            name = "stdin" if place.name == STDIN else place.name
            before = (
                f"no line of {name} is" if place.line == 1 else f"all lines of {name} before line {place.line:,} are"
            )
            if place.name == STDIN:
                return before
            again = f"ottla produce {quote(self.topic)}"
            if place.line == 1:
                return f"{before}: `{again} {quote(name)}` goes on with it, with the same options"
            return f"{before}: `tail -n +{place.line} {quote(name)} | {again}` goes on there, with the same options"
        offsets = dict(self._next)
        for source, place in unsure:
            if source is not None:
                offsets[source] = min(offsets[source], place.offset)
        commands = [
            f"`ottla consume {quote(topic)} --json -p {partition} -o {offset}`"
            for (topic, partition), offset in sorted(offsets.items())
        ]
        shown = ", ".join(commands[:COMMANDS_MAX])
        more = "" if len(commands) <= COMMANDS_MAX else f" and so on for {len(commands) - COMMANDS_MAX} more"
        return f"the copy goes on with {shown}{more}"

    async def _send(self, name: str, number: int, line: bytes) -> None:
        record = self.parse(line)
        options = self.options
        to = record.partition if options.keeps_partitions else options.partition
        if to is not None or self.existing is None:
            await self._check_partition(to)
        if len(line) > self._suspect_bytes and self.limit is not None:
            self._check_size(record, self.limit)
        producer = self.producer
        await producer.send(
            self.topic,
            record.value,
            key=record.key,
            headers=record.headers,
            timestamp_ms=record.timestamp_ms if options.keeps_timestamps else None,
            partition=to,
        )
        batch = producer.newest
        assert batch is not None
        if record.source is not None:
            source, offset = record.source[:2], record.source[2]
            self._next[source] = offset + 1
            self._unsure.setdefault(batch, {}).setdefault(source, _Place(name, number, offset))
        elif batch not in self._unsure:
            self._unsure[batch] = {None: _Place(name, number, 0)}

    def _check_size(self, record: Record, limit: _Limit) -> None:
        """Raises BadLine for a record that brokers would refuse even alone."""
        from ottla._core import encode_batch

        row = (record.timestamp_ms or 0, record.key, record.value, record.headers)
        size = len(encode_batch([row], compression=self.options.compression))
        if size <= limit.bytes_max:
            return
        alter = (
            f"`ottla topic alter {quote(self.topic)} --set {limit.setting}=N` admits larger ones"
            if limit.setting == TOPIC_LIMIT
            else "that is up to the brokers"
        )
        raise BadLine(f"the record takes {counted(size, 'byte')}, and {limit.setting} is {limit.value:,}: {alter}")

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


async def _limit(cluster: Cluster, topic: str) -> _Limit | None:
    """How large a batch may be; None if nobody says so."""
    from ottla.client.admin import Admin
    from ottla.client.limits import OVERHEAD_BYTES
    from ottla.errors import KafkaError, ProtocolError
    from ottla.kafka import BROKER_RESOURCE, TOPIC_RESOURCE

    found = []
    for resource, name, setting, overhead in (
        (TOPIC_RESOURCE, topic, TOPIC_LIMIT, 0),
        (BROKER_RESOURCE, str(min(cluster.metadata.brokers)), BROKER_LIMIT, OVERHEAD_BYTES),
    ):
        try:
            settings = await Admin(cluster).describe_settings(name, resource=resource)
        except (KafkaError, ProtocolError):  # not everybody may ask
            continue
        values = [int(each.value) for each in settings if each.name == setting and each.value]
        found += [_Limit(value - overhead, setting, value) for value in values]
    return min(found, default=None)


@contextmanager
def _opened(name: str) -> Iterator[Source]:
    from ottla.cli._lines import stdin

    with ExitStack() as stack:
        yield stdin() if name == STDIN else stack.enter_context(open(name, "rb", buffering=0))
