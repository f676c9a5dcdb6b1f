"""Fetch 0-3: answers for consumers that read only message sets, of format v0 (Fetch 0 and 1) or v1 (2 and 3).

What is stored in a newer format is converted on a thread of its own, by Kafka's rules
(KafkaApis.maybeConvertFetchedData): a topic may forbid it (`message.downconversion.enable`), zstd has no older form,
transaction markers are left out. Unlike Kafka's, an answer ends with a whole message, and one that had only markers to
send waits for more to come: Kafka sends the beginning of a message that does not exist, which old consumers take for a
message larger than they can fetch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla._core import ConvertedRecords, convert_fetched
from ottla.errors import StorageError, UnsupportedVersion

if TYPE_CHECKING:
    from ottla._core import FetchRequest, Request
    from ottla.broker.api.k01_fetch import Row
    from ottla.broker.broker import Broker

#: The first version whose consumers read record batches (format v2).
BATCHES_SINCE = 4

#: The most stored bytes that one answer converts: it is made in memory. Old consumers ask again for the rest.
BYTES_MAX = 4 << 20

V1_SINCE = 2


def answer(
    broker: Broker, request: Request, fetch: FetchRequest, rows: list[Row], wait: Callable[[list[Row]], None] | None
) -> None:
    """Answers with `rows`, converted where that is needed; if nothing is left of them then, by `wait`."""
    partitions = broker.replicas.partitions
    jobs, places = [], []
    for place, row in enumerate(rows):
        read = row[7]
        if read is None or isinstance(read, ConvertedRecords) or not read.length:
            continue
        topic, number, offset, *_ = fetch.partitions[row[0]]
        partition = partitions.get((topic, number))
        may_convert = partition is None or partition.may_convert_down
        jobs.append((read, offset, may_convert))
        places.append(place)
    if not jobs:
        return request.reply_fetch(rows)

    def converted(results: list[ConvertedRecords | bool | int | None] | None, error: BaseException | None) -> None:
        if results is None:
            results = [StorageError.code] * len(jobs)
        for place, result in zip(places, results, strict=True):
            rows[place] = _replaced(rows[place], result)
        is_empty = not any(row[1] or (row[7] is not None and row[7].length) for row in rows)
        known = all((topic, number) in partitions for topic, number, *_ in fetch.partitions)
        if is_empty and known and wait is not None and fetch.max_wait_ms > 0:
            return wait(rows)
        return request.reply_fetch(rows)

    magic = 0 if request.api_version < V1_SINCE else 1
    return convert_fetched(broker.server.hub.completions, broker.server.expect(converted), jobs, magic)


def _replaced(row: Row, result: Any) -> Row:
    """The row with what a conversion gave."""
    if result is None:
        return row
    if isinstance(result, ConvertedRecords):
        return (*row[:7], result, row[8])
    error = UnsupportedVersion.code if result is False else result
    return (row[0], error, -1, -1, -1, None, -1, None, None)
