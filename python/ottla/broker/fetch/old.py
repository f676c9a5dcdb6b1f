"""Fetch 0-3: answers for consumers that read only message sets, of format v0 (Fetch 0 and 1) or v1 (2 and 3).

What is stored in a newer format is converted on a thread of its own, by Kafka's rules
(KafkaApis.maybeConvertFetchedData): a topic may forbid it (`message.downconversion.enable`), zstd has no older form,
transaction markers are left out. Unlike Kafka's, an answer ends with a whole message. Where only markers would be left
out it has what follows them, and where nothing follows it waits: Kafka sends the beginning of a message that does not
exist, which old consumers take for a message larger than they can fetch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla._core import ConvertedRecords, FetchRow, RowToConvert, convert_fetched
from ottla.errors import StorageError, UnsupportedVersion
from ottla.wire.k01_fetch import V1_SINCE

if TYPE_CHECKING:
    from ottla._core import PartitionToRead
    from ottla.broker.fetch.delayed_fetch import DelayedFetch
    from ottla.broker.fetch.result import FetchResult


def answer(fetch: DelayedFetch, asked: Sequence[PartitionToRead], result: FetchResult) -> None:
    """Answers with `result`, converted where that is needed; if nothing is left of it then, `fetch` waits if it may."""
    context, rows = fetch.context, result.rows
    rooms, request = context.rooms, context.request
    partitions = rooms.replicas.partitions
    to_convert: list[RowToConvert] = []
    places: list[int] = []
    for place, row in enumerate(rows):
        if not row.length:
            continue
        one = asked[place]
        partition = partitions.get(one.key)
        if partition is None:
            rows[place] = FetchRow(rooms.metadata.error_where_absent(*one.key))
            continue
        bound, may_convert = context.bound(partition), partition.may_convert_down
        to_convert.append(RowToConvert(row, one, partition.log, upper_bound=bound, may_convert=may_convert))
        places.append(place)
    if not to_convert:
        return request.reply_fetch(rows)

    def converted(made: list[ConvertedRecords | bool | int | None] | None, error: BaseException | None) -> None:
        if made is None:
            made = [StorageError.code] * len(to_convert)
        for place, one in zip(places, made, strict=True):
            rows[place] = _replaced(rows[place], one)
        is_empty = not any(row.error_code or row.length for row in rows)
        if is_empty and fetch.may_wait:
            return fetch.wait(result, context.bytes_min)
        return request.reply_fetch(rows)

    magic = 0 if context.version < V1_SINCE else 1
    bytes_left = max(0, context.bytes_max - result.size)
    return rooms.server.submit(
        lambda token: convert_fetched(rooms.server.hub.completions, token, to_convert, magic, bytes_left), converted
    )


def _replaced(row: FetchRow, made: ConvertedRecords | bool | int | None) -> FetchRow:
    """The row with what a conversion gave."""
    if made is None:
        return row
    if isinstance(made, ConvertedRecords):
        return row.converted(made)
    return FetchRow(UnsupportedVersion.code if made is False else made)
