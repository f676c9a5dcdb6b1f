"""One Fetch while it is served: the request, and what its limits are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla._core import Reader
from ottla.replication.selection import nearest
from ottla.slices import ROWS, are_few
from ottla.wire.k01_fetch import BATCHES_SINCE, RACK_SINCE
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla._core import FetchRequest, FetchRow, PartitionToRead
    from ottla.broker.call import AnyCall
    from ottla.broker.fetch.result import FetchResult
    from ottla.broker.rooms import FetchRooms
    from ottla.replication.partition import Partition

#: The most stored bytes that one answer to an older client converts: the answer is made in memory.
CONVERTED_BYTES_MAX: Final = 4 << 20


class Context:
    """One Fetch, with all that serving it needs wherever that is done. Its limits are Kafka's (KafkaApis): an answer
    has at most what the request, the broker's `fetch.max.bytes` and a window of the client's quota allow, and no
    request waits for more than its answer may have.
    """

    __slots__ = (
        "bytes_max",
        "bytes_min",
        "call",
        "fetch",
        "is_follower",
        "is_held_back",
        "rack",
        "reader",
        "reads_followers",
        "request",
        "rights",
        "rooms",
        "throttles",
        "version",
    )

    def __init__(self, call: AnyCall, rooms: FetchRooms, fetch: FetchRequest) -> None:
        self.call = call
        self.rooms = rooms
        self.request = call.request
        self.fetch = fetch
        self.version = call.version
        self.is_follower = fetch.is_follower
        self.reader = fetch.reader
        #: None if everybody may read everything.
        self.rights = call.rights
        #: Records were left out, of throttled partitions.
        self.is_held_back = False
        #: None for consumers, and as long as nothing is throttled.
        self.throttles = rooms.throttles if fetch.is_follower and rooms.throttles.leader.is_used else None
        #: A consumer that may be told where to read may read from followers (KIP-392).
        self.reads_followers = self.version >= RACK_SINCE and fetch.replica_id < 0
        #: Where a consumer stands that is to read from a replica in its rack; empty: it reads here.
        self.rack = fetch.rack_id if rooms.chooses_replicas and self.reads_followers else ""
        bytes_max = min(fetch.max_bytes, rooms.fetch_bytes_max)
        if call.quotas is not None and not (fetch.is_follower and self.may_follow):
            # More bytes in one answer would be throttled even if nothing was fetched before, and a consumer could never
            # go on.
            bytes_max = min(bytes_max, call.quotas.fetch_bytes_max(call.client))
        if self.version < BATCHES_SINCE:
            bytes_max = min(bytes_max, CONVERTED_BYTES_MAX)
        self.bytes_max = bytes_max
        self.bytes_min = min(fetch.min_bytes, bytes_max)

    def in_slices(self, count: int, part: Callable[[int, int], object], then: Callable[[], object]) -> None:
        """Calls `part(start, stop)` for all of `count` partitions, and `then` after the last: at once, or if there are
        many, in slices. An error then closes the request's connection.
        """
        if are_few(count):
            part(0, count)
            then()
            return

        def parts() -> Iterator[int]:
            for start in range(0, count, ROWS):
                stop = min(start + ROWS, count)
                part(start, stop)
                yield stop - start
            then()

        self.call.in_slices(count, parts())

    def may_read(self, topic: str) -> bool:
        """True if the client is allowed to read this topic: one that follows, as a broker."""
        if self.rights is None:
            return True
        if self.is_follower:
            return self.may_follow
        return self.rights.may(Operation.READ, Resource.TOPIC, topic)

    @property
    def may_follow(self) -> bool:
        """True if the client is allowed what brokers do."""
        return self.rights is None or self.rights.may(Operation.CLUSTER_ACTION, Resource.CLUSTER)

    @property
    def follower(self) -> int | None:
        """The broker that reads as a follower; None for a consumer."""
        return self.fetch.replica_id if self.is_follower else None

    def is_throttled(self, partition: Partition) -> bool:
        """True if the follower gets no records of the partition now; then this Fetch `is_held_back`."""
        is_throttled = self.throttles is not None and self.throttles.holds(partition, self.fetch.replica_id)
        self.is_held_back |= is_throttled
        return is_throttled

    @property
    def wait_ms(self) -> int:
        """How long it may wait: if it is held back, until there is room again."""
        wait_ms = self.fetch.max_wait_ms
        if self.is_held_back and self.throttles is not None:
            wait_ms = min(wait_ms, self.throttles.leader_look_ms)
        return wait_ms

    def throttle_ms(self, result: FetchResult) -> int:
        """For how long a Fetch that would be answered with `result` is throttled: then it must be answered empty. 0 for
        other brokers' fetches.
        """
        quotas = self.call.quotas
        if quotas is None or (self.is_follower and self.may_follow):
            return 0
        client, size = self.call.client, result.answer_bytes
        by_size = quotas.fetched(client, size)
        by_time = self.request.take_throttle()
        if by_time and not by_size:
            quotas.not_fetched(client, size)
        return max(by_size, by_time)

    def answered(self, result: FetchResult) -> None:
        """The answer has the records of `result`."""
        if result.throttled and self.throttles is not None:
            self.throttles.leader.record(result.throttled)
        if result.moved:
            self.rooms.replicas.reassignment_bytes_out += result.moved

    def elsewhere(self, partition: Partition, offset: int) -> int | None:
        """The broker that the client, which has named its rack, is to read from; None: this one."""
        if partition.in_sync is None:
            return None
        listener = self.call.session.listener
        return nearest(self.rack, offset, partition.in_sync, lambda broker: self.rooms.rack_of(broker, listener))

    def bound(self, partition: Partition) -> int:
        """The offset where the client stops reading now: a follower at the log's end."""
        return partition.log.bound(self.reader)

    def has_all(self, asked: PartitionToRead, row: FetchRow) -> bool:
        """True if a client that is told `row` knows all of the partition, as far as its log was read then.

        A follower that has every record is told the high watermark until that is the end of the log, too.
        """
        if row.has_more or row.error_code:
            return False
        if self.is_follower:
            return asked.offset == row.high_watermark
        return asked.offset >= (row.last_stable_offset if self.reader is Reader.COMMITTED else row.high_watermark)

    def is_behind(self, asked: PartitionToRead, row: FetchRow, partition: Partition) -> bool:
        """True if the partition moved on since `row` was read."""
        log = partition.log
        if self.is_follower:
            return log.end_offset != asked.offset
        return log.high_watermark != row.high_watermark or log.last_stable_offset != row.last_stable_offset
