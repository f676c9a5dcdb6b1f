"""DescribeProducers (key 61): the producers that a partition remembers, and their open transactions (KIP-664).

How an operator finds who holds readers of committed records back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ottla.broker.pace import Pace
from ottla.broker.replies import reply
from ottla.controller.names import check_name
from ottla.errors import InvalidTopic, NotLeaderOrFollower, StorageError, UnknownTopicOrPartition
from ottla.wire.k61_describe_producers import (
    DESCRIBE_PRODUCERS,
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

VERSIONS = range(1)


async def handle(broker: Broker, request: Request) -> None:
    version = request.api_version
    asked: DescribeProducersRequest = DESCRIBE_PRODUCERS.decode_request(version, request)
    topics = []
    pace = Pace()
    for topic in asked.topics:
        rows = []
        for index in topic.partition_indexes:
            await pace.turn()
            rows.append(await _describe(broker, topic.name, index))
        topics.append(TopicResponse(name=topic.name, partitions=rows))
    reply(broker, request, DESCRIBE_PRODUCERS, DescribeProducersResponse(topics=topics))


async def _describe(broker: Broker, topic: str, index: int) -> PartitionResponse:
    row = PartitionResponse(partition_index=index)
    try:
        check_name(topic)
    except InvalidTopic as problem:
        row.error_code, row.error_message = problem.code, str(problem)
        return row
    partition = broker.replicas.partitions.get((topic, index))
    if partition is None:
        # Another broker may know more.
        known = index in broker.metadata.topics.get(topic, {})
        row.error_code = NotLeaderOrFollower.code if known else UnknownTopicOrPartition.code
    elif partition.is_offline:
        row.error_code = StorageError.code
    else:
        # The log may be waiting for a disk.
        found = await trio.to_thread.run_sync(partition.log.producers)
        row.active_producers = [ProducerState(*fields) for fields in found]
    return row
