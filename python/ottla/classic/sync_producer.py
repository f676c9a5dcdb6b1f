"""`SyncProducer`: one broker, one request at a time. What is above it knows which broker leads what.

Source: kafka/producer/SyncProducer.scala, 0.7 to 0.10.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from ottla import _core
from ottla.classic.connection import LazyConnection
from ottla.classic.messages import Message
from ottla.errors import KafkaError, RequestTimedOut, error
from ottla.kafka import TopicPartition
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData

REQUEST_TIMEOUT_MS = 10_000
CODECS = ("none", "gzip", "snappy", "lz4")


class ProducerRequest(NamedTuple):
    """Messages for one partition; `compression` is none, gzip, snappy, lz4 or zstd."""

    topic: str
    partition: int
    messages: Sequence[Message | tuple[bytes | None, bytes | None, int]]
    compression: str = "none"

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Produced(NamedTuple):
    """What became of one request: the offset of its first message (-1 with acks=0), or its error."""

    place: TopicPartition
    offset: int
    error: KafkaError | None = None


class SyncProducer:
    """Sends to one broker and waits for its answer, if `acks` is not 0. For many threads, one request at a time."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        acks: int = 1,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        client_id: str = "",
        connect_timeout_ms: float = REQUEST_TIMEOUT_MS,
    ) -> None:
        self.acks = acks
        self.request_timeout_ms = request_timeout_ms
        self._connection = LazyConnection(host, port, client_id, max(connect_timeout_ms, request_timeout_ms))

    def send(self, topic: str, messages: Sequence[Message], partition: int = 0, *, compression: str = "none") -> int:
        """Sends messages to one partition, and gives the offset of the first.

        Raises:
            KafkaError: the broker refuses. OSError, RemoteProtocolError: it cannot be asked, or the answer was lost.
        """
        (result,) = self.multi_send([ProducerRequest(topic, partition, messages, compression)])
        if result.error is not None:
            raise result.error
        return result.offset

    def multi_send(self, requests: Sequence[ProducerRequest]) -> list[Produced]:
        """Sends to many partitions in one request; errors of partitions are in the results, in the order of the
        requests. Two requests for one partition are two requests to the broker; the second is not made if the first
        failed.

        Raises:
            OSError, RemoteProtocolError: as `send`.
        """
        results: dict[int, Produced] = {}
        failed: dict[TopicPartition, Produced] = {}
        for group in _apart(requests):
            # What comes after a request that failed must not be there before it, when that is sent again.
            able = [at for at in group if requests[at].place not in failed]
            results.update((at, failed[requests[at].place]) for at in group if requests[at].place in failed)
            if able:
                for at, result in zip(able, self._send_once([requests[at] for at in able]), strict=True):
                    results[at] = result
                    if result.error is not None:
                        failed[result.place] = result
        return [results[at] for at in range(len(requests))]

    def _send_once(self, requests: Sequence[ProducerRequest]) -> list[Produced]:
        topics: dict[str, list[PartitionProduceData]] = {}
        for each in requests:
            data = PartitionProduceData(partition_index=each.partition, records=encoded(each))
            topics.setdefault(each.topic, []).append(data)
        message = ProduceRequest(
            transactional_id=None,
            acks=self.acks,
            timeout_ms=self.request_timeout_ms,
            topics=[TopicProduceData(name=name, partitions=rows) for name, rows in topics.items()],
        )
        if self.acks == 0:
            self._connection.post(PRODUCE, message)
            return [Produced(each.place, -1) for each in requests]
        answer = self._connection.call(PRODUCE, message, timeout_ms=self.request_timeout_ms + REQUEST_TIMEOUT_MS)
        found = {
            TopicPartition(topic.name, row.partition_index): row
            for topic in answer.responses
            for row in topic.partitions
        }
        results = []
        for each in requests:
            if (row := found.get(each.place)) is None:
                results.append(Produced(each.place, -1, RequestTimedOut(f"{each.place}: the answer leaves it out")))
            elif row.error_code:
                text = f"{each.place}: {row.error_message or ''}".rstrip(": ")
                results.append(Produced(each.place, -1, error(row.error_code, text)))
            else:
                results.append(Produced(each.place, row.base_offset))
        return results

    def close(self) -> None:
        """May be called more than once."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def encoded(request: ProducerRequest) -> bytes:
    """One batch of the current format. Raises ValueError if there is no message."""
    if not request.messages:
        raise ValueError(f"no message for {request.place}")
    now = int(time.time() * 1000)
    return _core.encode_batch(
        ((now if time_ms < 0 else time_ms, key, value, ()) for value, key, time_ms in request.messages),
        compression=request.compression,
    )


def _apart(requests: Sequence[ProducerRequest]) -> list[list[int]]:
    """The requests' places in the sequence, in groups of which none has a partition twice."""
    groups: list[list[int]] = []
    seen: dict[TopicPartition, int] = {}
    for at, each in enumerate(requests):
        group = seen[each.place] = seen.get(each.place, -1) + 1
        if group == len(groups):
            groups.append([])
        groups[group].append(at)
    return groups
