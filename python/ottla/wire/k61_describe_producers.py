"""DescribeProducers: the producers that partitions remember, and their open transactions (KIP-664). Later than 2.7, and
optional for every client.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class TopicRequest(Message):
    name: str = ""
    partition_indexes: list[Int32] = []


class DescribeProducersRequest(Message):
    topics: list[TopicRequest] = []


class ProducerState(Message):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    active_producers: list[ProducerState] = []


class TopicResponse(Message):
    name: str = ""
    partitions: list[PartitionResponse] = []


class DescribeProducersResponse(Message):
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
