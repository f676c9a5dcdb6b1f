"""All brokers are stopped and started, one after the other, under a group of static members: they keep their
partitions, and none of them reads a record twice.
"""

import time

import pytest

from ottla.wire.k15_describe_groups import DESCRIBE_GROUPS, DescribeGroupsRequest
from tests.cluster import asking
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster
from tests.cluster.static_member import StaticMember, read_twice
from tests.faults.broker import settings
from tests.faults.broker.load import PARTITIONS
from tests.peers.skips import module
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]


@pytest.mark.judge
def test_static_members_keep_their_partitions(cluster: Cluster) -> None:
    bounced(cluster, 1)


@pytest.mark.soak
def test_static_members_keep_their_partitions_five_times(cluster: Cluster) -> None:
    bounced(cluster, 5)


def bounced(cluster: Cluster, times: int) -> None:
    with Round(cluster, settings.seed(), copies=False) as load:
        group = load.prefix + "static"
        with cluster.clients.inside():
            members = [StaticMember(f"static-{number}", load, group) for number in range(PARTITIONS)]
            for member in members:
                member.start()
        eventually(
            "each has a partition",
            lambda: (
                [len(one.assigned[-1:]) for one in members] == [1] * PARTITIONS
                and sorted(index for one in members for index in one.assigned[-1]) == [*range(PARTITIONS)]
            ),
        )
        settled = [len(one.assigned) for one in members]
        joined = ids(cluster, group)
        assert len(joined) == PARTITIONS
        revoked = [one.revoked for one in members]
        slowest_s = 0.0
        with cluster.observer.follow("__consumer_offsets", *load.topics) as chronicle:
            for _ in range(times):
                for broker in cluster.brokers:
                    stopped = time.monotonic()
                    broker.stop()
                    reads(load, members)
                    assert not broker.running
                    slowest_s = max(slowest_s, time.monotonic() - stopped)
                    broker.start()
                    cluster.all_in_sync("__consumer_offsets", *load.topics)
                    reads(load, members)
        assert ids(cluster, group) == joined
        load.finish()
        ends = load.ends(load.plain)
        eventually("all is read", lambda: sum(len(one.places) for one in members) >= sum(ends.values()))
        for member in members:
            member.end()
    print(
        f"figures: {3 * times} stops, {sum(ends.values())} records, {sum(one.commits for one in members)} commits, "
        f"{sum(len(one.refused) for one in members)} refused; reads went on after {slowest_s:.1f} s at most"
    )
    assert [len(one.assigned) for one in members] == settled
    assert [one.revoked for one in members] == revoked
    assert read_twice(members) == []
    # The group's coordinator was stopped in each round, since one of two partitions of its topic is the group's.
    assert chronicle.moved() >= 3 * times
    assert all(len(chronicle.leaders(("__consumer_offsets", index))) > times for index in range(2))
    assert chronicle.unclean() == []
    chronicle.check()
    load.judge(at_least=600 * times)
    logs_equal(cluster.directories, *load.topics, "__consumer_offsets")


def reads(load: Round, members: list[StaticMember]) -> None:
    """Waits until each member was told of another commit that began later than now."""
    before = [one.commits for one in members]
    load.writes(30)

    def go_on() -> bool:
        for member in members:
            member.check()
        return all(one.commits > count + 1 for one, count in zip(members, before, strict=True))

    eventually("all members read and commit", go_on, facts=lambda: [(one.commits, one.refused[-2:]) for one in members])


def ids(cluster: Cluster, group: str) -> dict[str | None, str]:
    """The coordinator's id of each member. One that joins again gets another id, with a rebalance and without."""
    found: dict[str | None, str] = {}

    def told() -> bool:
        with asking.client(cluster, asking.coordinator(cluster, group, asking.GROUP)) as client:
            (row,) = client.call(DESCRIBE_GROUPS, DescribeGroupsRequest(groups=[group]), 4).groups
        assert asking.name_of(row.error_code) in ("NONE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS")
        found.update({one.group_instance_id: one.member_id for one in row.members})
        return bool(row.error_code == 0)

    eventually("the group is described", told)
    return found
