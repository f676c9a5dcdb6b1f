"""Partitions that this broker has no replica of: others have them, or nobody."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from ottla.broker.broker import Broker
from ottla.broker.metadata_cache import PartitionMetadata
from ottla.config import BrokerConfig
from ottla.errors import NotLeaderOrFollower, UnknownTopicOrPartition
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.k23_offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.client import Client, batch


def produced(client: Client, topic: str) -> int:
    return client.produce(topic, batch(b"x"), acks=1).responses[0].partitions[0].error_code


def fetched(client: Client, topic: str) -> int:
    row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(replica_id=-1, topics=[FetchTopic(topic=topic, partitions=[row])])
    return client.call(FETCH, request, 11).responses[0].partition_responses[0].error_code


def listed(client: Client, topic: str) -> int:
    row = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(topic, [row])])
    return client.call(LIST_OFFSETS, request, 5).topics[0].partitions[0].error_code


def ended(client: Client, topic: str) -> int:
    row = OffsetForLeaderPartition(partition_index=0, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic, [row])])
    return client.call(OFFSET_FOR_LEADER_EPOCH, request, 3).topics[0].partitions[0].error_code


@pytest.mark.trio
@pytest.mark.parametrize("ask", [produced, fetched, listed, ended])
async def test_clients_are_told_to_look_elsewhere(tmp_path: Path, ask: Callable[[Client, str], int]) -> None:
    """As Kafka's do it. A client that is told of an unknown partition may give up, or tell its user."""

    def run(port: int) -> tuple[int, int]:
        with Client.connect("127.0.0.1", port, "test") as client:
            return ask(client, "elsewhere"), ask(client, "nowhere")

    settings = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0", "broker.id": "1"}
    async with Broker.start(BrokerConfig(settings)) as broker:
        broker.metadata.topics["elsewhere"] = {0: PartitionMetadata(2, 5, (2,), (2,), ())}
        errors = await trio.to_thread.run_sync(run, broker.addresses.listening[0].port)
    assert errors == (NotLeaderOrFollower.code, UnknownTopicOrPartition.code)
