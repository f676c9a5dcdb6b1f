"""Reading from brokers: where partitions begin and end is asked once, on the driver; tasks fetch from the leaders.

A task asks for the next stretch of records before it hands on the last one, so that the broker and the network work
while Spark does.

Topics may be deleted at any time. One that a pattern found, and that is not there any more when its offsets are asked
for, was none of them. Otherwise a topic that is gone is an error; with failOnDataLoss=false it is a warning, and all
others are read. Where a batch or a new stream begins, all that are named must be there: a name may be misspelt.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import trio

from ottla.client import Cluster, NotABroker, TopicPartition, UnknownHost
from ottla.client.offsets import list_offsets
from ottla.errors import KafkaError, OffsetOutOfRange, RemoteProtocolError, UnknownTopicOrPartition
from ottla.kafka import EARLIEST, LATEST
from ottla.reading.bounds import Beginning, DataLoss, settle, settle_start, times_ms
from ottla.reading.columns import Columns
from ottla.reading.damage import Skipped
from ottla.reading.fetching import Fetcher
from ottla.reading.limits import Limit, Timestamp
from ottla.reading.options import ReadOptions
from ottla.reading.ranges import Range
from ottla.reading.sizes import record_bytes
from ottla.reading.wanted import Wanted

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.2

T = TypeVar("T")


def resolve(options: ReadOptions, wanted: Wanted) -> list[Range]:
    """The ranges that a batch is to read of what is wanted, with the offsets that hold now.

    Raises:
        KafkaError, OSError: the cluster cannot be asked, or a topic does not exist.
        ValueError, DataLoss: the options do not fit what the topics have.
    """

    async def look(cluster: Cluster) -> list[Range]:
        partitions = await _partitions(cluster, options)
        earliest, latest, starts_at = await _bounds(cluster, options, partitions)
        ends_at = await _at(cluster, options, options.ending, partitions)
        spans = wanted.narrow(settle(options, earliest, latest, starts_at, ends_at), {})
        if wanted.since_ms is not None and spans:
            spans = wanted.narrow(spans, await _at(cluster, options, Timestamp(wanted.since_ms), spans))
        return await _ranges(cluster, options, spans)

    return _ask(options, look, begins=True)


def starting(options: ReadOptions) -> Beginning:
    """Where a new stream begins, as of now. Raises what `resolve` does."""

    async def look(cluster: Cluster) -> Beginning:
        return settle_start(options, *await _bounds(cluster, options, await _partitions(cluster, options)))

    return _ask(options, look, begins=True)


def latest(options: ReadOptions, known: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Where the partitions end now.

    `known` are ends from earlier. A leader that took over may for a moment know less; it is asked again, at most
    fetchOffset.numRetries times.
    """

    async def look(cluster: Cluster) -> dict[TopicPartition, int]:
        partitions = await _partitions(cluster, options, begun=True)
        for attempt in range(options.offset_attempts):
            if attempt:
                await trio.sleep(options.offset_retry_ms / 1000)
            found = await list_offsets(
                cluster, dict.fromkeys(partitions, LATEST), read_committed=options.read_committed
            )
            if all(known.get(partition, 0) <= each.offset for partition, each in found.items()):
                break
        return {partition: each.offset for partition, each in found.items()}

    return _ask(options, look)


def earliest(options: ReadOptions, wanted: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Where these partitions begin now; those that do not exist are left out."""

    async def look(cluster: Cluster) -> dict[TopicPartition, int]:
        there = set(await _partitions(cluster, options, begun=True)) & set(wanted)
        found = await list_offsets(cluster, dict.fromkeys(there, EARLIEST))
        return {partition: each.offset for partition, each in found.items()}

    return _ask(options, look) if wanted else {}


def ranges(options: ReadOptions, spans: Mapping[TopicPartition, tuple[int, int]]) -> list[Range]:
    """These offsets, first and end of each partition, as tasks read them: with their leaders and sizes."""

    async def look(cluster: Cluster) -> list[Range]:
        return await _ranges(cluster, options, spans)

    return _ask(options, look) if spans else []


def _ask(options: ReadOptions, look: Callable[[Cluster], Awaitable[T]], *, begins: bool = False) -> T:
    """Runs what asks the cluster, again after what may pass, at most fetchOffset.numRetries times.

    Each time lasts for as long as kafka.default.api.timeout.ms if no broker answers: one may be starting. Where a batch
    or a stream `begins`, it is more likely that the address is wrong, and each time ends at once.
    """
    assert options.bootstrap_servers is not None

    async def once() -> T:
        servers = options.bootstrap_servers or ""
        async with Cluster(
            servers, client_id=options.client_id, timeout_ms=options.api_timeout_ms, security=options.security
        ) as cluster:
            try:
                await cluster.any_connection()
            except (OSError, RemoteProtocolError) as problem:
                if begins or isinstance(problem, UnknownHost | NotABroker):
                    raise
                log.warning("%s; they are asked for %g s more", problem, options.api_timeout_ms / 1000)
            return await look(cluster)

    for _ in range(options.offset_attempts - 1):
        try:
            return trio.run(once)
        except (OSError, RemoteProtocolError, KafkaError) as problem:
            if isinstance(problem, UnknownTopicOrPartition):
                # Deleted since it was found: the next attempt does not find it.
                final = options.topics.pattern is None and options.fail_on_data_loss
            else:
                final = not getattr(problem, "retriable", True)
            if final:
                raise
        time.sleep(options.offset_retry_ms / 1000)
    return trio.run(once)


async def _bounds(
    cluster: Cluster, options: ReadOptions, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], dict[TopicPartition, int | None]]:
    """Where the partitions begin and end, and where in them the starting time is, if there is one."""
    first = await list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    last = await list_offsets(cluster, dict.fromkeys(partitions, LATEST), read_committed=options.read_committed)
    return (
        {partition: each.offset for partition, each in first.items()},
        {partition: each.offset for partition, each in last.items()},
        await _at(cluster, options, options.starting, partitions),
    )


async def _at(
    cluster: Cluster, options: ReadOptions, limit: Limit, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int | None]:
    """The offsets of the times of a limit; None where no record is late enough."""
    answers = await list_offsets(cluster, times_ms(limit, partitions), read_committed=options.read_committed)
    return {key: None if each.offset < 0 else each.offset for key, each in answers.items()}


async def _ranges(
    cluster: Cluster, options: ReadOptions, spans: Mapping[TopicPartition, tuple[int, int]]
) -> list[Range]:
    sizes = await record_bytes(cluster, spans)
    found: list[Range] = []
    for partition, (start, end) in spans.items():
        if end <= start:
            continue
        try:
            leader = await cluster.leader(partition)
        except UnknownTopicOrPartition:
            if options.fail_on_data_loss:
                raise
            log.warning("%s is gone, offsets %d to %d are left out", partition, start, end)
            continue
        found.append(Range(partition, start, end, max(1, round((end - start) * sizes[partition])), leader))
    return found


async def _partitions(cluster: Cluster, options: ReadOptions, *, begun: bool = False) -> list[TopicPartition]:
    """The partitions that are meant and exist. `begun` says that some have been read."""
    topics = options.topics
    may_lack = begun and not options.fail_on_data_loss
    if topics.pattern is not None:
        answer = await cluster.retry(cluster.refresh)
        names = [each.name for each in answer.topics if not each.is_internal and topics.matches(each.name)]
    else:
        names = list(topics.names or sorted({each.topic for each in topics.partitions or ()}))
    found: set[TopicPartition] = set()
    for name in names:
        try:
            found.update(TopicPartition(name, number) for number in await cluster.partitions(name))
        except UnknownTopicOrPartition as problem:
            if topics.pattern is None and not may_lack:
                raise UnknownTopicOrPartition(f"there is no topic {name}") from problem
    if topics.partitions is None:
        return sorted(found)
    if (missing := topics.partitions - found) and not may_lack:
        raise UnknownTopicOrPartition(f"there is no partition {', '.join(map(str, sorted(missing)))}")
    return sorted(topics.partitions & found)


def read(options: ReadOptions, ranges: Sequence[Range], names: Sequence[str]) -> Iterator["pa.RecordBatch"]:
    """The records of these ranges, one range after the other."""
    fetcher = Fetcher(options)
    skipped = Skipped(options.corrupt_report) if options.skip_corrupt else None
    try:
        for each in ranges:
            yield from _read_range(fetcher, options, each, names, skipped)
    finally:
        fetcher.close()


def _read_range(
    fetcher: Fetcher, options: ReadOptions, part: Range, names: Sequence[str], skipped: Skipped | None
) -> Iterator["pa.RecordBatch"]:
    assert not isinstance(part.source, str)
    columns = Columns.of(options, part, names, skipped)
    patience_s = options.poll_timeout_ms / 1000
    deadline = time.monotonic() + patience_s
    asked = False
    missed = 0
    while not columns.done:
        before = columns.next_offset
        try:
            if not asked:
                fetcher.ask(part.partition, part.source, before)
            asked = False
            answer = fetcher.answer(part.partition)
        except OffsetOutOfRange as problem:
            _skip(fetcher, options, part, columns, problem)
            continue
        except (OSError, RemoteProtocolError, KafkaError) as problem:
            final = isinstance(problem, KafkaError) and not problem.retriable
            if final or time.monotonic() > deadline:
                raise
            asked = False
            # A broker that has just started may not know its topics yet.
            missed = 0 if fetcher.moved(part.partition) else missed + 1
            if missed >= options.offset_attempts:
                _gone(options, part, columns, problem)
            else:
                time.sleep(options.offset_retry_ms / 1000 if missed else RETRY_SECONDS)
            continue
        missed = 0
        place = f"from the broker at {fetcher.leader(part.partition)}"
        batches = list(columns.decode(answer.records or b"", answer.aborted_transactions or (), place))
        if not columns.done:
            # If this fails, the next round's ask fails too, where it is handled.
            with suppress(OSError):
                fetcher.ask(part.partition, part.source, columns.next_offset)
                asked = True
        yield from batches
        if columns.next_offset > before:
            deadline = time.monotonic() + patience_s
        elif time.monotonic() > deadline:
            raise TimeoutError(
                f"{part.partition} has nothing at offset {before} within {options.poll_timeout_ms} ms, although it "
                f"ended at {part.end} or later when the query was planned"
            )
    yield from columns.rest()


def _skip(fetcher: Fetcher, options: ReadOptions, part: Range, columns: Columns, problem: OffsetOutOfRange) -> None:
    """The records at this offset were deleted after the query was planned, or the topic was deleted and made anew."""
    bounds = fetcher.bounds(part.partition)
    wanted = columns.next_offset
    if bounds is None:
        _gone(options, part, columns, problem)
        return
    first, last = bounds
    if options.fail_on_data_loss or first <= wanted <= last:
        raise DataLoss(
            f"{part.partition} has offsets {first} to {last} by now, and {wanted} is to be read next"
            f"{options.advice.data_loss}"
        ) from problem
    following = min(first, part.end) if wanted < first else part.end
    log.warning("%s has offsets %d to %d by now: %d to %d are left out", part.partition, first, last, wanted, following)
    columns.skip_to(following)


def _gone(options: ReadOptions, part: Range, columns: Columns, problem: Exception) -> None:
    """The topic was deleted after the query was planned."""
    if options.fail_on_data_loss:
        raise DataLoss(
            f"{part.partition} is gone, and offset {columns.next_offset} is to be read next{options.advice.data_loss}"
        ) from problem
    log.warning("%s is gone: offsets %d to %d are left out", part.partition, columns.next_offset, part.end)
    columns.skip_to(part.end)
