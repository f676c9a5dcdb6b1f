"""What a consumer does when a partition's new leader lacks records that it has read (KIP-320)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio

from ottla.client.cluster import Address, Cluster
from ottla.client.connection import Connection
from ottla.client.consumer import Consumer
from ottla.client.fetch import FETCH
from ottla.client.leader_epochs import LeaderEpochs
from ottla.errors import FencedLeaderEpoch, LogTruncated
from ottla.kafka import TopicPartition
from ottla.wire.k03_metadata import MetadataResponsePartition, MetadataResponseTopic
from ottla.wire.k23_offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)

HERE = TopicPartition("t", 0)
LEADER = Address("leader", 1)
pytestmark = pytest.mark.trio


class Leader:
    """A leader whose log has the end of an epoch at some offset."""

    def __init__(self, end: int, epoch: int, *, error_code: int = 0, version: int = 3) -> None:
        self.row = OffsetForLeaderPartitionResult(error_code, 0, epoch, end)
        self.asked: list[OffsetForLeaderEpochRequest] = []
        self.protocol = self
        self.versions = {OFFSET_FOR_LEADER_EPOCH.key: (0, version), FETCH.key: (0, 11)}

    async def call(self, api: Any, message: Any, *, timeout_ms: float) -> OffsetForLeaderEpochResponse:
        if api is FETCH:
            await trio.sleep_forever()
        assert api is OFFSET_FOR_LEADER_EPOCH
        self.asked.append(message)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult("t", [self.row])])

    async def check(self, epochs: LeaderEpochs) -> Any:
        return await epochs.check(cast(Connection, self), {HERE: 50})


def cluster_of(epoch: int) -> Cluster:
    cluster = Cluster("leader:1")
    lead(cluster, epoch)
    return cluster


def lead(cluster: Cluster, epoch: int) -> None:
    """Metadata that tell of a leader's epoch."""
    partition = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=epoch)
    cluster.metadata.topics["t"] = MetadataResponseTopic(name="t", partitions=[partition])
    cluster.metadata.brokers[1] = LEADER
    cluster.metadata.leaders[HERE] = 1


async def test_a_new_leader_is_asked_once() -> None:
    leader = Leader(end=100, epoch=3)
    cluster = cluster_of(3)
    epochs = LeaderEpochs(cluster)
    assert await leader.check(epochs) == ({}, {})
    assert not leader.asked, "nothing was read, so nothing can be lost"
    epochs.read[HERE] = 3
    assert await leader.check(epochs) == ({}, {})
    assert not leader.asked, "the same leader"
    lead(cluster, 4)
    for _ in range(2):
        assert await leader.check(epochs) == ({}, {})
    (request,) = leader.asked
    (row,) = request.topics[0].partitions
    assert (row.leader_epoch, row.current_leader_epoch, request.replica_id) == (3, 4, -1)


@pytest.mark.parametrize(("end", "epoch"), [(40, 2), (-1, -1)])
async def test_records_that_were_read_and_are_gone(end: int, epoch: int) -> None:
    epochs = LeaderEpochs(cluster_of(4))
    epochs.read[HERE] = 3
    assert await Leader(end, epoch).check(epochs) == ({HERE: (end, epoch)}, {})


async def test_a_leader_that_has_moved_on() -> None:
    epochs = LeaderEpochs(cluster_of(4))
    epochs.read[HERE] = 3
    leader = Leader(0, 0, error_code=FencedLeaderEpoch.code)
    for count in (1, 2):
        parted, problems = await leader.check(epochs)
        assert (parted, list(problems), type(problems[HERE])) == ({}, [HERE], FencedLeaderEpoch)
        assert len(leader.asked) == count, "it is asked again"


async def test_an_old_broker_is_believed() -> None:
    leader = Leader(0, 0, version=1)
    epochs = LeaderEpochs(cluster_of(4))
    epochs.read[HERE] = 3
    assert await leader.check(epochs) == ({}, {})
    assert not leader.asked


async def test_a_consumer_goes_on_where_the_logs_part(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of(4)
    leader = Leader(40, 2)

    @asynccontextmanager
    async def lent(address: Address) -> AsyncIterator[Leader]:
        assert address == LEADER
        yield leader

    monkeypatch.setattr(cluster, "lent_connection", lent)
    lenient, strict = Consumer(cluster, start="earliest"), Consumer(cluster)
    for consumer in (lenient, strict):
        await consumer.assign({HERE: 50})
        consumer._epochs.read[HERE] = 3
    assert await lenient.poll(0) == []
    assert lenient.positions == {HERE: 40}
    with pytest.raises(
        LogTruncated, match="t-0: its leader's log parts at offset 40 from what was read up to offset 50"
    ):
        await strict.poll()
