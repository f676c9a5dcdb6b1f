"""`SimpleConsumer`: one broker, stateless requests; who calls keeps the offsets.

Requests have the versions of their time where a broker still has them (Fetch 2, ListOffsets 0, OffsetCommit 0 for
ZooKeeper's storage), since their answers mean other things: a message that is larger than the fetch is cut off, and a
time has a list of offsets. A broker without them (4.0 on) is asked in newer ones.

Source: kafka/consumer/SimpleConsumer.scala, kafka/api/OffsetRequest.scala.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Literal, NamedTuple, Self

from ottla.classic.connection import LazyConnection
from ottla.classic.errors import MessageSizeTooLarge
from ottla.classic.messages import MessageSet
from ottla.client.answers import row_about
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    RemoteProtocolError,
    UnsupportedVersion,
    check,
    error,
)
from ottla.kafka import CONSUMER, EARLIEST, LATEST, TopicPartition
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchTopic
from ottla.wire.k01_fetch import FetchRequest as FetchMessage
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.k08_offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.k09_offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.wire.schema import Api, Request, Response

Storage = Literal["zookeeper", "kafka"]

EARLIEST_TIME = EARLIEST
LATEST_TIME = LATEST

SO_TIMEOUT_MS = 30_000
BUFFER_BYTES = 64 * 1024
FETCH_VERSION = 2
LARGEST_BYTES = 64 * 1024 * 1024
RETRY_MS = 100
_MOVING = (CoordinatorLoadInProgress.code, CoordinatorNotAvailable.code, NotCoordinator.code)


class FetchRequest(NamedTuple):
    """From `offset` on, at most `max_size` bytes; what is cut off there is not given."""

    topic: str
    partition: int
    offset: int
    max_size: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class SimpleConsumer:
    """`SimpleConsumer("localhost", 9092, 30_000, 65_536, "mine").fetch(FetchRequest("t", 0, 0, 1_000_000))`.

    For many threads, one request at a time. A request whose connection broke raises; the next connects again.
    `buffer_size` is kept for programs that name it; the kernel chooses.
    """

    def __init__(
        self,
        host: str,
        port: int,
        so_timeout_ms: int = SO_TIMEOUT_MS,
        buffer_size: int = BUFFER_BYTES,
        client_id: str = "",
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
    ) -> None:
        """A fetch waits for `min_bytes` at most `max_wait_ms`; with 0 it gives at once what there is."""
        self.host = host
        self.port = port
        self.so_timeout_ms = so_timeout_ms
        self.buffer_size = buffer_size
        self.client_id = client_id
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self._connection = LazyConnection(host, port, client_id, so_timeout_ms)
        self._coordinators: dict[str, LazyConnection] = {}

    def fetch(self, request: FetchRequest) -> MessageSet:
        """The messages of one partition from an offset on; none where it ends.

        Raises:
            OffsetOutOfRange: the offset is not, or no longer, in the partition.
            MessageSizeTooLarge: the message at the offset is larger than `max_size`.
            KafkaError: what else the broker answers, such as NotLeaderOrFollower.
            OSError, RemoteProtocolError: it cannot be asked.
        """
        (found,) = self.multifetch([request])
        if found.error is not None:
            raise found.error
        next(iter(found), None)  # raises where not even the first one is whole
        return found

    def multifetch(self, requests: Sequence[FetchRequest]) -> list[MessageSet]:
        """Many partitions in one request, each at most once; what is wrong with one is raised when its set is read.

        Raises:
            ValueError: a partition is asked twice. OSError, RemoteProtocolError: as `fetch`.
        """
        topics: dict[str, list[FetchPartition]] = {}
        asked: dict[TopicPartition, FetchRequest] = {}
        for each in requests:
            if each.place in asked:
                raise ValueError(f"{each.place} is asked twice in one request")
            asked[each.place] = each
            row = FetchPartition(partition=each.partition, fetch_offset=each.offset, partition_max_bytes=each.max_size)
            topics.setdefault(each.topic, []).append(row)
        message = FetchMessage(
            replica_id=CONSUMER,
            max_wait_ms=self.max_wait_ms,
            min_bytes=self.min_bytes,
            topics=[FetchTopic(topic=name, partitions=rows) for name, rows in topics.items()],
        )
        answer = self._connection.call(
            FETCH, message, self._old(FETCH, FETCH_VERSION), timeout_ms=self.so_timeout_ms + self.max_wait_ms
        )
        found = {}
        for topic in answer.responses:
            for each_answer in topic.partition_responses:
                place = TopicPartition(topic.topic, each_answer.partition)
                if (request := asked.get(place)) is None:
                    continue
                failure: KafkaError | None = None
                if each_answer.error_code:
                    failure = error(each_answer.error_code, f"{place} at offset {request.offset}")
                found[place] = MessageSet(
                    each_answer.record_set,
                    start_offset=request.offset,
                    high_watermark=each_answer.high_watermark,
                    error=failure,
                    asked_bytes=request.max_size,
                )
        for each in requests:
            if each.place not in found:
                raise RemoteProtocolError(f"the answer says nothing of {each.place}")
        return [found[each.place] for each in requests]

    def fetch_doubling(self, request: FetchRequest, largest_bytes: int = LARGEST_BYTES) -> MessageSet:
        """As `fetch`; while the message is larger than the fetch, it asks for twice as many bytes, up to a bound.

        Raises:
            MessageSizeTooLarge: it is larger than `largest_bytes`. Others as `fetch`.
        """
        size = request.max_size
        while True:
            try:
                return self.fetch(request._replace(max_size=size))
            except MessageSizeTooLarge:
                if size >= largest_bytes:
                    raise
                size = min(max(2 * size, 1), largest_bytes)

    def get_offsets_before(self, topic: str, partition: int, time_ms: int, max_offsets: int) -> list[int]:
        """At most so many valid offsets before a time, descending: the first offsets of segments that were last
        written before `time_ms` (milliseconds since 1970), or from the end (LATEST_TIME), or the start (EARLIEST_TIME).

        Raises:
            KafkaError: what the broker answers. OSError, RemoteProtocolError: it cannot be asked.
        """
        place = TopicPartition(topic, partition)
        version = self._old(LIST_OFFSETS, 0)
        row = ListOffsetsPartition(partition_index=partition, timestamp=time_ms, max_num_offsets=max_offsets)
        if version is None:
            row.max_num_offsets = 1
        message = ListOffsetsRequest(replica_id=CONSUMER, topics=[ListOffsetsTopic(name=topic, partitions=[row])])
        answer = self._connection.call(LIST_OFFSETS, message, version, timeout_ms=self.so_timeout_ms)
        found = row_about(str(place), row_about(str(place), answer.topics).partitions)
        check(found.error_code, str(place))
        if version is None:
            return [found.offset][:max_offsets] if found.offset >= 0 else []
        return list(found.old_style_offsets)

    def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], *, storage: Storage = "zookeeper"
    ) -> None:
        """Keeps how far a group has read: the next offset of each partition. ZooKeeper's storage is reached through
        this broker; Kafka's is with the group's coordinator, which is looked up.

        Raises:
            KafkaError: what the broker answers for the first partition that it refuses.
            UnsupportedVersion: it has no storage in ZooKeeper. OSError, RemoteProtocolError: it cannot be asked.
        """
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for place, offset in offsets.items():
            row = OffsetCommitRequestPartition(partition_index=place.partition, committed_offset=offset)
            topics.setdefault(place.topic, []).append(row)
        message = OffsetCommitRequest(
            group_id=group,
            topics=[OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
        )
        answer = self._stored(
            group,
            storage,
            OFFSET_COMMIT,
            message,
            lambda found: [row.error_code for topic in found.topics for row in topic.partitions],
        )
        for topic in answer.topics:
            for each in topic.partitions:
                check(each.error_code, f"group '{group}', {topic.name}-{each.partition_index}")

    def fetch_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, storage: Storage = "zookeeper"
    ) -> dict[TopicPartition, int]:
        """How far a group has read, by what `commit_offsets` kept; partitions without an offset are left out.

        Raises: as `commit_offsets`.
        """
        topics: dict[str, list[int]] = {}
        for place in partitions:
            topics.setdefault(place.topic, []).append(place.partition)
        message = OffsetFetchRequest(group, [OffsetFetchRequestTopic(name, rows) for name, rows in topics.items()])
        answer = self._stored(group, storage, OFFSET_FETCH, message, lambda found: [found.error_code])
        check(answer.error_code, f"group '{group}'")
        found = {}
        for topic in answer.topics:
            for each in topic.partitions:
                place = TopicPartition(topic.name, each.partition_index)
                if each.committed_offset >= 0:
                    found[place] = each.committed_offset
                elif storage == "kafka":
                    check(each.error_code, f"group '{group}', {place}")
        return found

    def close(self) -> None:
        """May be called more than once."""
        for connection in (self._connection, *self._coordinators.values()):
            connection.close()

    def _old(self, api: Api[Request, Response], version: int) -> int | None:
        """The version of old, if the broker still has it; None for the newest that both have."""
        least, most = self._connection.versions(api)
        return version if least <= version <= most else None

    def _stored(
        self,
        group: str,
        storage: Storage,
        api: Api[Request, Response],
        message: Request,
        codes: Callable[[Response], Iterable[int]],
    ) -> Response:
        """Asks who keeps the group's offsets. A coordinator that moves, or still reads its log, is asked again until
        `so_timeout_ms` is over; `codes` finds errors in an answer.
        """
        if storage == "zookeeper":
            if self._old(api, 0) is None:
                raise UnsupportedVersion(f"{self.host}:{self.port} keeps no offsets in ZooKeeper")
            return self._connection.call(api, message, 0, timeout_ms=self.so_timeout_ms)
        deadline = time.monotonic() + self.so_timeout_ms / 1000
        while True:
            try:
                answer = self._coordinator(group).call(api, message, timeout_ms=self.so_timeout_ms)
                for code in codes(answer):
                    if code in _MOVING:
                        raise error(code, f"group '{group}'")
                return answer
            except (OSError, KafkaError) as problem:
                self._forget(group)
                passes = isinstance(problem, OSError) or problem.code in _MOVING
                if not passes or time.monotonic() + RETRY_MS / 1000 > deadline:
                    raise
            time.sleep(RETRY_MS / 1000)

    def _coordinator(self, group: str) -> LazyConnection:
        if (known := self._coordinators.get(group)) is not None:
            return known
        answer = self._connection.call(FIND_COORDINATOR, FindCoordinatorRequest(group), timeout_ms=self.so_timeout_ms)
        if answer.error_code:
            raise error(answer.error_code, answer.error_message or f"group '{group}'")
        if answer.port < 0:
            raise CoordinatorNotAvailable(f"group '{group}' has no coordinator now")
        found = LazyConnection(answer.host, answer.port, self.client_id, self.so_timeout_ms)
        self._coordinators[group] = found
        return found

    def _forget(self, group: str) -> None:
        if (known := self._coordinators.pop(group, None)) is not None:
            known.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
