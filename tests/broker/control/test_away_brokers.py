"""A broker that is away: clients are told of it, so that they keep what they have of it, and it is nobody's leader,
coordinator or company.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.broker import leaving
from ottla.broker.broker import Broker
from ottla.broker.metadata_cache import BrokerMetadata, MetadataCache, Update
from ottla.broker.transactions import Directory
from ottla.client.cluster import Cluster
from ottla.client.cluster_admin import ClusterAdmin
from ottla.client.connection import Connection
from ottla.coordination.znodes import Endpoint
from ottla.doctor.brokers import look
from ottla.doctor.findings import Report
from ottla.errors import CoordinatorNotAvailable, LeaderNotAvailable
from ottla.kafka import NO_LEADER, TopicPartition
from ottla.replication.leading import low_watermark
from ottla.slices import Slices
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR
from ottla.wire.k06_update_metadata import (
    UPDATE_METADATA,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeClusterRequest
from tests.support.client import Client
from tests.support.control_requests import BASE, ask, leading, started
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio
#: The broker that is away.
AWAY = 7
TOPICS = ("t", "__consumer_offsets")


def told(broker: Broker, away_ms: int, controller_epoch: int = 1) -> UpdateMetadataRequest:
    """The broker that is away leads each first partition, as one did that nobody can replace."""
    states = [
        UpdateMetadataPartitionState(
            partition_index=index,
            controller_epoch=BASE + controller_epoch,
            leader=leader,
            isr=[AWAY, broker.id],
            replicas=[AWAY, broker.id],
            offline_replicas=[AWAY],
        )
        for index, leader in enumerate((AWAY, broker.id))
    ]
    brokers = [UpdateMetadataBroker(number, endpoints=_endpoints(9), rack="east") for number in (broker.id, AWAY)]
    brokers[1].away_ms = away_ms
    return UpdateMetadataRequest(
        controller_id=broker.id,
        controller_epoch=BASE + controller_epoch,
        topic_states=[UpdateMetadataTopicState(topic, states) for topic in TOPICS],
        live_brokers=brokers,
    )


def _endpoints(port: int) -> list[UpdateMetadataEndpoint]:
    return [UpdateMetadataEndpoint(port, "127.0.0.1", "PLAINTEXT"), UpdateMetadataEndpoint(port + 1, "h", "TLS", 1)]


@asynccontextmanager
async def beside_one_that_is_away(path: Path) -> AsyncIterator[Broker]:
    async with started(path) as broker:
        await ask(broker, UPDATE_METADATA, told(broker, 60_000), 6)
        yield broker


async def asked(broker: Broker, api: Any, request: Any, version: int) -> Any:
    """As a client asks."""

    def run() -> Any:
        with Client.connect("127.0.0.1", broker.addresses.listening[0].port, "client") as client:
            return client.call(api, request, version)

    return await trio.to_thread.run_sync(run)


async def metadata(broker: Broker, version: int = 9) -> MetadataResponse:
    found: MetadataResponse = await asked(broker, METADATA, MetadataRequest([MetadataRequestTopic(name="t")]), version)
    return found


@pytest.mark.parametrize("version", [0, 1, 5, 9])
async def test_clients_are_told_of_it(tmp_path: Path, version: int) -> None:
    async with beside_one_that_is_away(tmp_path) as broker:
        answer = await metadata(broker, version)
        assert {(row.node_id, row.host, row.port) for row in answer.brokers if row.node_id == AWAY} == {
            (AWAY, "127.0.0.1", 9)
        }
        assert len(answer.brokers) == 2
        rows = {row.partition_index: row for row in answer.topics[0].partitions}
        assert rows[0].leader_id == NO_LEADER
        assert rows[0].error_code == LeaderNotAvailable.code
        assert rows[1].leader_id == broker.id
        if version >= 5:
            assert rows[1].offline_replicas == [AWAY]


async def test_who_asks_who_lives_does_not_hear_of_it(tmp_path: Path) -> None:
    async with beside_one_that_is_away(tmp_path) as broker:
        answer = await asked(broker, DESCRIBE_CLUSTER, DescribeClusterRequest(), 0)
        assert [row.broker_id for row in answer.brokers] == [broker.id]
        assert broker.rack_of(AWAY, "PLAINTEXT") is None
        assert not broker.surroundings.is_alive(AWAY)
        assert not broker.metadata.has_leaders("t", [0])
        assert broker.metadata.has_leaders("t", [1])
        assert broker.metadata.address(AWAY, "PLAINTEXT") is None
        directory = Directory(broker.tree, broker.id, broker.metadata, "PLAINTEXT", broker.standing)
        assert directory.leader(TopicPartition("t", 0)) == NO_LEADER
        assert not directory.is_led_elsewhere(TopicPartition("t", 0))
        assert not leaving._has_company(broker), "it has nobody to hand over to"


async def test_it_coordinates_no_group(tmp_path: Path) -> None:
    async with beside_one_that_is_away(tmp_path) as broker:
        codes = {
            (await asked(broker, FIND_COORDINATOR, FindCoordinatorRequest(key=f"group-{number}"), 3)).error_code
            for number in range(8)
        }
        assert codes <= {0, CoordinatorNotAvailable.code}
        partitions = broker.groups.topic.partition_for
        led = [f"group-{number}" for number in range(500) if partitions(f"group-{number}") == 0]
        answer = await asked(broker, FIND_COORDINATOR, FindCoordinatorRequest(key=led[0]), 3)
        assert (answer.error_code, answer.node_id) == (CoordinatorNotAvailable.code, -1)


async def test_its_log_start_counts_no_more(tmp_path: Path) -> None:
    async with beside_one_that_is_away(tmp_path) as broker:
        roles = leading(broker, 1, 1)
        (state,) = roles.topic_states[0].partition_states
        state.replicas = state.isr = [broker.id, AWAY]
        await ask(broker, LEADER_AND_ISR, roles, 4)
        partition = broker.replicas.partitions["t", 0]
        assert low_watermark(partition, broker.metadata.brokers) == 0
        assert low_watermark(partition, {AWAY}) == -1


async def test_it_returns(tmp_path: Path) -> None:
    async with beside_one_that_is_away(tmp_path) as broker:
        await ask(broker, UPDATE_METADATA, told(broker, 0), 6)
        assert broker.metadata.away == {}
        assert {row.leader_id for row in (await metadata(broker)).topics[0].partitions} == {AWAY, broker.id}
        assert broker.surroundings.is_alive(AWAY)


async def test_a_role_is_told_and_it_is_away_still(tmp_path: Path) -> None:
    """LeaderAndIsr says nothing of brokers."""
    async with beside_one_that_is_away(tmp_path) as broker:
        await ask(broker, LEADER_AND_ISR, leading(broker, 1, 1), 4)
        assert broker.metadata.away.keys() == {AWAY}


async def test_a_controller_that_is_elected_here_knows_of_it(tmp_path: Path) -> None:
    async with beside_one_that_is_away(tmp_path) as broker:
        known = {named.id: (named, until_s) for named, until_s in broker.surroundings.named()}
        assert known[broker.id][1] is None
        named, until_s = known[AWAY]
        assert named.endpoints == (Endpoint("PLAINTEXT", "127.0.0.1", 9), Endpoint("TLS", "h", 10, "SSL"))
        assert (named.rack, named.epoch) == ("east", -1)
        assert until_s is not None
        assert until_s == broker.metadata.away[AWAY].until_s


async def test_our_tools_ask_who_lives(tmp_path: Path) -> None:
    """They place replicas, and ask each broker."""
    async with beside_one_that_is_away(tmp_path) as broker, Cluster(broker.address) as cluster:
        admin = ClusterAdmin(cluster)
        assert (await admin.overview()).brokers.keys() == (await admin.describe()).brokers.keys() == {broker.id}
        assert cluster.metadata.brokers.keys() == {broker.id, AWAY}
        connections: list[Connection] = []
        report, (host, _, port) = Report(broker.address), broker.address.rpartition(":")
        found = await look(report, host, int(port), [host], PATIENCE_S, connections)
        assert found is not None
        assert found.size == 1
        assert [finding for finding in report.findings if f"broker {AWAY}" in finding.found] == []
        for connection in connections:
            await connection.aclose()


async def test_a_time_that_is_over_is_one() -> None:
    """A number from elsewhere is not believed to be sensible."""
    cache = MetadataCache()
    update = Update(cache)
    update.add_broker(BrokerMetadata(1, None, {}), -5)
    update.add_broker(BrokerMetadata(2, None, {}), 2**31 - 1)

    await update.apply(1, Slices())
    assert cache.brokers.keys() == {1}
    assert cache.away.keys() == {2}
