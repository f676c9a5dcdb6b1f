"""DescribeProducers: the producers that partitions remember, and their open transactions (KIP-664). Later than 2.7, and
optional for every client.

The partition's leader is asked, or by tools any replica.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class TopicRequest(Message):
    """Partitions of one topic."""

    name: str = ""
    partition_indexes: list[Int32] = []


class DescribeProducersRequest(Message):
    """Partitions that are asked about."""

    topics: list[TopicRequest] = []


class ProducerState(Message):
    """A producer as a partition remembers it."""

    #: As InitProducerId gave it.
    producer_id: Int64 = 0
    #: 32 bits, unlike elsewhere.
    producer_epoch: Int32 = 0
    #: The sequence number of its last record; -1 if there is none.
    last_sequence: Int32 = -1
    #: The time of its last batch, in milliseconds since 1970.
    last_timestamp: Int64 = -1
    #: Of its last marker; -1 if there was none. Tools need it to write one by hand.
    coordinator_epoch: Int32 = 0
    #: Readers of committed records get no further than the lowest of these. -1: no transaction is open here.
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Message):
    """The producers of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    #: Those that have written here and are not forgotten yet.
    active_producers: list[ProducerState] = []


class TopicResponse(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[PartitionResponse] = []


class DescribeProducersResponse(Message):
    """The producers."""

    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = []


DESCRIBE_PRODUCERS = Api(
    61,
    "DescribeProducers",
    "0",
    flexible=0,
    request=DescribeProducersRequest,
    response=DescribeProducersResponse,
    needs="READ on TOPIC",
)
