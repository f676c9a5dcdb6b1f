"""One Fetch while it is served: the request, and what its limits are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.quotas.measured import fetch_bytes_max
from ottla.kafka import READ_COMMITTED

if TYPE_CHECKING:
    from ottla._core import FetchRequest, FetchRow, PartitionToRead, Request
    from ottla.broker.broker import Broker
    from ottla.replication.partition import Partition

#: The first version whose clients read record batches (format v2).
BATCHES_SINCE: Final = 4
#: The most stored bytes that one answer to an older client converts: the answer is made in memory.
CONVERTED_BYTES_MAX: Final = 4 << 20


class Context:
    """What one Fetch needs wherever it is served. Its limits are Kafka's (KafkaApis): an answer has at most what the
    request, the broker's `fetch.max.bytes` and a window of the client's quota allow, and no request waits for more than
    its answer may have.
    """

    __slots__ = ("broker", "bytes_max", "bytes_min", "fetch", "is_committed", "request", "version")

    def __init__(self, broker: Broker, request: Request, fetch: FetchRequest) -> None:
        self.broker = broker
        self.request = request
        self.fetch = fetch
        self.version = request.api_version
        self.is_committed = fetch.isolation_level == READ_COMMITTED
        bytes_max = min(fetch.max_bytes, broker.fetch_bytes_max)
        if broker.quotas is not None:
            bytes_max = min(bytes_max, fetch_bytes_max(broker.quotas, request, fetch))
        if self.version < BATCHES_SINCE:
            bytes_max = min(bytes_max, CONVERTED_BYTES_MAX)
        self.bytes_max = bytes_max
        self.bytes_min = min(fetch.min_bytes, bytes_max)

    def bound(self, partition: Partition) -> int:
        """The offset where consumers stop reading now."""
        return partition.last_stable_offset if self.is_committed else partition.log.high_watermark

    def has_all(self, asked: PartitionToRead, row: FetchRow) -> bool:
        """Whether a client that is told `row` knows all of the partition, as far as its log was read then."""
        bound = row.last_stable_offset if self.is_committed else row.high_watermark
        return asked.offset >= bound and not (row.has_more or row.error_code)


def is_behind(row: FetchRow, partition: Partition) -> bool:
    """Whether the partition moved on since the row was read."""
    log = partition.log
    return log.high_watermark != row.high_watermark or log.last_stable_offset != row.last_stable_offset
