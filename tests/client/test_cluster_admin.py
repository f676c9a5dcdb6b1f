"""Calls about brokers and replicas, against one broker of each kind; those that need several are in tests/cluster."""

import pytest
import trio

from ottla.client import Admin, Cluster, ClusterAdmin, Producer
from ottla.client.throttles import FOLLOWERS, LEADERS, RATES, limit, remove, throttled_replicas
from ottla.errors import (
    BrokerNotAvailable,
    ElectionNotNeeded,
    InvalidReplicaAssignment,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)
from ottla.kafka import BROKER_RESOURCE, TopicPartition
from tests.peers.apache import Kafka
from tests.peers.ottla import Broker
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio


async def with_topic(cluster: Cluster, name: str, partitions: int = 2) -> ClusterAdmin:
    await Admin(cluster).create_topic(name, partitions, 1)
    return ClusterAdmin(cluster)


async def test_overview(server: Kafka | Broker) -> None:
    async with Cluster(server.bootstrap) as cluster:
        admin = await with_topic(cluster, "seen")
        overview = await admin.overview()
    assert overview.brokers.keys() == {overview.controller} == {server.id}
    (broker,) = overview.brokers.values()
    assert (broker.address, broker.rack) == (server.bootstrap, None)
    names = [TopicPartition("seen", 0), TopicPartition("seen", 1)]
    for found in (overview.replicas(), overview.in_sync()):
        assert [found[name] for name in names] == [(server.id,)] * 2
    assert [overview.leaders()[name] for name in names] == [server.id] * 2
    assert overview.known() == [server.id]


async def test_sizes_and_ends_of_replicas(server: Kafka | Broker) -> None:
    async with Cluster(server.bootstrap) as cluster:
        admin = await with_topic(cluster, "measured")
        full, empty = TopicPartition("measured", 0), TopicPartition("measured", 1)
        async with Producer(cluster) as producer:
            for _ in range(3):
                await producer.send("measured", b"x" * 100, partition=0)
        (directory,) = await admin.log_directories(server.id)
        assert directory.path == str(server.data)
        assert directory.problem is None
        assert directory.sizes[full] > 300 > directory.sizes[empty]
        gone = server.id + 1
        asked = {server.id: [full, empty], gone: [full]}
        assert await admin.sizes(asked) == {server.id: {name: directory.sizes[name] for name in (full, empty)}}
        assert await admin.log_ends(asked) == {server.id: {full: 3, empty: 0}, gone: {}}
        assert (await admin.sizes_of_all([server.id]))[server.id] >= sum(directory.sizes.values())
        with pytest.raises(BrokerNotAvailable, match=f"broker {gone} is not there"):
            await admin.log_directories(gone)


async def test_what_cannot_move_is_refused_one_by_one(server: Kafka | Broker) -> None:
    async with Cluster(server.bootstrap) as cluster:
        admin = await with_topic(cluster, "still")
        there, other, unknown = (TopicPartition(topic, i) for topic, i in (("still", 0), ("still", 1), ("nowhere", 0)))
        targets = {there: (server.id,), other: (server.id + 1,), unknown: (server.id,)}
        refused = await admin.reassign(targets)
        assert {name: type(problem) for name, problem in refused.items()} == {
            other: InvalidReplicaAssignment,
            unknown: UnknownTopicOrPartition,
        }
        refused = await admin.reassign({there: None})
        assert {name: type(problem) for name, problem in refused.items()} == {there: NoReassignmentInProgress}
        assert await admin.moves() == {}


@pytest.mark.parametrize("unclean", [False, True])
async def test_an_election_that_is_not_needed(server: Kafka | Broker, unclean: bool) -> None:
    async with Cluster(server.bootstrap) as cluster:
        admin = await with_topic(cluster, f"led-{unclean}")
        names = [TopicPartition(f"led-{unclean}", i) for i in range(2)]
        results = await admin.elect([*names, TopicPartition("nowhere", 0)], unclean=unclean)
        assert [type(results[name]) for name in names] == [ElectionNotNeeded] * 2
        assert isinstance(results[TopicPartition("nowhere", 0)], UnknownTopicOrPartition)


async def test_throttles_are_set_and_taken_back(server: Kafka | Broker) -> None:
    name, quiet = TopicPartition("held", 1), TopicPartition("held", 0)
    gone = server.id + 1

    async def own(admin: Admin) -> tuple[dict[str, str | None], dict[str, str | None]]:
        topic = await admin.describe_settings("held")
        broker = await admin.describe_settings(str(server.id), resource=BROKER_RESOURCE)
        return (
            {each.name: each.value for each in topic if each.source == 1},
            {each.name: each.value for each in broker if each.name in RATES},
        )

    async with Cluster(server.bootstrap) as cluster:
        admin = Admin(cluster)
        await admin.create_topic("held", 2, 1, {LEADERS: "0:7"})
        before = {name: (server.id,), quiet: (server.id,)}
        await limit(admin, 1000, before, {name: (server.id, gone), quiet: (server.id,)})
        topic, _ = await own(admin)
        assert topic == {LEADERS: f"0:7,1:{server.id}", FOLLOWERS: f"1:{gone}"}
        # A broker of Kafka hears of its settings a moment later.
        with trio.fail_after(PATIENCE_S):
            while (await own(admin))[1] != dict.fromkeys(RATES, "1000"):
                pass
        assert await remove(admin, ["held", "never-was"]) == (["held"], [server.id])
        with trio.fail_after(PATIENCE_S):
            while "1000" in (await own(admin))[1].values():
                pass
        topic, _ = await own(admin)
        assert topic == {}
        assert await remove(admin, ["held"]) == ([], [])
        assert await remove(admin, ["held"], [server.id, gone]) == ([], [server.id]), "a known one is not asked"


async def test_who_is_held_back() -> None:
    moved, turned = TopicPartition("t", 0), TopicPartition("u", 3)
    before = {moved: (1, 2), turned: (1, 2)}
    assert throttled_replicas(before, {moved: (2, 3), turned: (2, 1)}) == {
        "t": {LEADERS: {"0:1", "0:2"}, FOLLOWERS: {"0:3"}}
    }
