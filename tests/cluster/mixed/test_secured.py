"""One cluster of Apache Kafka and Ottla with TLS, passwords and rules: who may do something may do it at every broker,
who may not is told the same by each, rules reach all of them, and a leader that moves takes no record with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.wire.acls import Binding, PatternType, Permission
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic
from ottla.wire.k09_offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.needs import Operation, Resource
from tests.broker.authorization.ruled import ANYTHING, flat, rule
from tests.cluster.secured import Member, SecuredCluster
from tests.cluster.stand import OTTLA
from tests.peers.apache import Apache, tool
from tests.peers.ottla import Brokers
from tests.peers.skips import module
from tests.support.client import batch
from tests.support.load import Load
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]

TOPIC, GROUP = "shared", "readers"
TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED = 29, 30, 31
#: Kinds of the brokers, in the order of their start: the first controls. And how users say who they are.
CLUSTERS = [
    pytest.param((("kafka", OTTLA), "PLAIN"), id="kafka-ottla"),
    pytest.param(((OTTLA, "kafka-3.9.2", "kafka"), "SCRAM-SHA-512"), id="ottla-3.9.2-2.7.2", marks=pytest.mark.judge),
]


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SecuredCluster]:
    kinds, mechanism = request.param
    for name in ("kafka", "ottla", "files"):
        (tmp_path / name).mkdir()
    with Apache(tmp_path / "kafka") as apache, Brokers(tmp_path / "ottla") as brokers:
        made = SecuredCluster(apache, brokers, tmp_path / "files", kinds, ("alice", "mallory"), mechanism)
        for member in made.members:
            made.start(member)
        assert made.controller() is made.members[0]
        yield made


def by_kafkas_tool(cluster: SecuredCluster, member: Member, *arguments: str) -> None:
    """Rules by `kafka-acls.sh`, which is told of this broker."""
    file = cluster.folder / "admin.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in member.java("admin").items()))
    server = ("--bootstrap-server", f"127.0.0.1:{member.sasl}", "--command-config", str(file))
    tool("2.7.2", "acls", *server, *arguments)


def reaches_all(cluster: SecuredCluster, *rules: Binding, is_gone: bool = False) -> None:
    wanted = {flat(one) for one in rules}

    def found(member: Member) -> set[tuple[object, ...]]:
        answer = member.found(ANYTHING, "admin")
        assert not isinstance(answer, int), answer
        return answer

    for member in cluster.members:
        eventually(
            f"broker {member.id} hears of it",
            lambda: not wanted & found(member) if is_gone else wanted <= found(member),  # noqa: B023
            facts=lambda: found(member),  # noqa: B023
        )


def told(cluster: SecuredCluster, member: Member, user: str) -> dict[str, Any]:
    """The codes with which this broker answers the user, by what is asked for."""
    partition = cluster.leaders(TOPIC).index(member.id)
    row = PartitionProduceData(partition_index=partition, records=batch(b"x"))
    produce = ProduceRequest(acks=1, timeout_ms=10_000, topics=[TopicProduceData(name=TOPIC, partitions=[row])])
    asked = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1000)
    fetch = FetchRequest(replica_id=-1, max_wait_ms=1, topics=[FetchTopic(topic=TOPIC, partitions=[asked])])
    offsets = OffsetFetchRequest(group_id=GROUP, topics=[OffsetFetchRequestTopic(TOPIC, [0])])
    configs = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=2, resource_name=TOPIC)])
    metadata = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    with member.enter(user) as connection:
        call = connection.call
        return {
            "produce": call(PRODUCE, produce, 8).responses[0].partitions[0].error_code,
            "fetch": call(FETCH, fetch, 11).responses[0].partition_responses[0].error_code,
            "metadata": call(METADATA, metadata, 8).topics[0].error_code,
            "coordinator": call(FIND_COORDINATOR, FindCoordinatorRequest(key=GROUP), 1).error_code,
            "offsets": call(OFFSET_FETCH, offsets, 5).error_code,
            "configs": call(DESCRIBE_CONFIGS, configs, 2).results[0].error_code,
            "rules": member.found(ANYTHING, user),
        }


REFUSED = {
    "produce": TOPIC_REFUSED,
    "fetch": TOPIC_REFUSED,
    "metadata": TOPIC_REFUSED,
    "coordinator": GROUP_REFUSED,
    "offsets": GROUP_REFUSED,
    "configs": TOPIC_REFUSED,
    "rules": CLUSTER_REFUSED,
}


@pytest.mark.parametrize("cluster", CLUSTERS, indirect=True)
def test_users_and_rules_are_the_same_at_every_broker(cluster: SecuredCluster) -> None:
    members = cluster.members
    cluster.create(TOPIC)
    eventually("all replicas are in sync", lambda: cluster.in_sync(TOPIC))
    by_alice = ("--add", "--allow-principal", "User:alice", "--topic", TOPIC)
    by_kafkas_tool(cluster, members[0], *by_alice, "--producer", "--idempotent")
    by_kafkas_tool(cluster, members[1], *by_alice, "--consumer", "--group", GROUP)
    alices = [
        rule("alice", Operation.WRITE, Resource.TOPIC, TOPIC),
        rule("alice", Operation.READ, Resource.TOPIC, TOPIC),
        rule("alice", Operation.READ, Resource.GROUP, GROUP),
    ]
    reaches_all(cluster, *alices)
    for member in members:
        assert told(cluster, member, "mallory") == REFUSED, member.kind

    load = Load(cluster.rdkafka("alice"), topic=TOPIC, group=GROUP, partitions=len(members))
    load.goes_on()
    # Each in turn is asked for a change that all hear of, and takes it back where it was not asked for.
    for place, member in enumerate(members):
        other = members[place - 1]
        denied = rule("alice", Operation.ALL, Resource.TOPIC, f"not-{place}", Permission.DENY, PatternType.PREFIXED)
        assert member.create(denied, user="admin") == [0]
        reaches_all(cluster, denied)
        assert other.delete(denied, user="admin") == [(0, [0])]
        reaches_all(cluster, denied, is_gone=True)
    # Each of them is away for a while, so that others lead, control and coordinate.
    for member in reversed(members):
        if member.kind != OTTLA and len(members) == 2:
            # The gate has no time for a second start of Kafka.
            continue
        cluster.stop(member)
        eventually("others lead", lambda: member.id not in cluster.leaders(TOPIC), facts=lambda: cluster.leaders(TOPIC))  # noqa: B023
        load.goes_on()
        cluster.start(member)
        eventually("all replicas are in sync", lambda: cluster.in_sync(TOPIC, "__consumer_offsets"))
        cluster.elect(TOPIC)
        load.goes_on()
    reaches_all(cluster, *alices)
    for member in members:
        assert told(cluster, member, "mallory") == REFUSED, member.kind
        if member.kind != OTTLA:
            assert "Principal = User:mallory is Denied" in member.running.log.read_text()
    load.end()
    load.is_whole()
