"""Reading from brokers: where partitions begin and end is asked once, on the driver; tasks fetch from the leaders.

A task asks for the next stretch of records before it hands on the last one, so that the broker and the network work
while Spark does.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from ottla.client import Cluster, TopicPartition
from ottla.client.offsets import EARLIEST, LATEST, list_offsets
from ottla.errors import KafkaError, OffsetOutOfRange, RemoteProtocolError, UnknownTopicOrPartition
from ottla.spark.bounds import DataLoss, settle, times_ms
from ottla.spark.columns import Columns
from ottla.spark.fetching import Fetcher
from ottla.spark.options import ReadOptions
from ottla.spark.planning import Range

if TYPE_CHECKING:
    import pyarrow as pa

# How large a record is, is known only once it is there. This is for the number of tasks alone.
RECORD_BYTES_GUESS = 256
RETRY_SECONDS = 0.2


def resolve(options: ReadOptions) -> list[Range]:
    """What is to be read, as of now.

    Raises:
        KafkaError, OSError: the cluster cannot be asked, or a topic does not exist.
        ValueError, DataLoss: the options do not fit what the topics have.
    """
    return trio.run(_resolve, options)


async def _resolve(options: ReadOptions) -> list[Range]:
    assert options.bootstrap_servers is not None
    async with Cluster(
        options.bootstrap_servers, client_id=options.client_id, timeout_ms=options.poll_timeout_ms
    ) as cluster:
        partitions = await _partitions(cluster, options)
        committed = options.read_committed
        earliest = await list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
        latest = await list_offsets(cluster, dict.fromkeys(partitions, LATEST), read_committed=committed)
        at = []
        for limit in (options.starting, options.ending):
            answers = await list_offsets(cluster, times_ms(limit, partitions), read_committed=committed)
            at.append({key: None if each.offset < 0 else each.offset for key, each in answers.items()})
        found = settle(
            options,
            {partition: each.offset for partition, each in earliest.items()},
            {partition: each.offset for partition, each in latest.items()},
            *at,
        )
        return [
            Range(
                partition,
                start,
                end,
                max(1, (end - start) * RECORD_BYTES_GUESS),
                await cluster.leader(partition),
            )
            for partition, (start, end) in found.items()
            if end > start
        ]


async def _partitions(cluster: Cluster, options: ReadOptions) -> list[TopicPartition]:
    """The partitions that are meant; an assigned one that does not exist is an error, a pattern may match nothing."""
    topics = options.topics
    if topics.partitions is not None:
        for topic in {each.topic for each in topics.partitions}:
            missing = {each for each in topics.partitions if each.topic == topic} - {
                TopicPartition(topic, number) for number in await cluster.partitions(topic)
            }
            if missing:
                raise UnknownTopicOrPartition(f"there is no partition {', '.join(map(str, sorted(missing)))}")
        return sorted(topics.partitions)
    if topics.names is not None:
        names = list(topics.names)
    else:
        answer = await cluster.retry(cluster.refresh)
        names = [each.name for each in answer.topics if not each.is_internal and topics.matches(each.name)]
    return [TopicPartition(name, number) for name in names for number in await cluster.partitions(name)]


def read(options: ReadOptions, ranges: Sequence[Range], names: Sequence[str]) -> Iterator["pa.RecordBatch"]:
    """The records of these ranges, one range after the other."""
    fetcher = Fetcher(options)
    try:
        for each in ranges:
            yield from _read_range(fetcher, options, each, names)
    finally:
        fetcher.close()


def _read_range(
    fetcher: Fetcher, options: ReadOptions, part: Range, names: Sequence[str]
) -> Iterator["pa.RecordBatch"]:
    assert not isinstance(part.source, str)
    columns = Columns(names, part.partition, part.start, part.end)
    patience_s = options.poll_timeout_ms / 1000
    deadline = time.monotonic() + patience_s
    asked = False
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
            time.sleep(RETRY_SECONDS)
            fetcher.moved(part.partition)
            asked = False
            continue
        batches = list(columns.decode(answer.records or b"", answer.aborted_transactions or ()))
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
    """The records at this offset were deleted after the query was planned."""
    first = fetcher.first_offset(part.partition)
    if options.fail_on_data_loss or first <= columns.next_offset:
        raise DataLoss(
            f"{part.partition} begins at offset {first} by now, and {columns.next_offset} is to be read next. "
            "With failOnDataLoss=false what is missing is left out"
        ) from problem
    columns.skip_to(first)
