"""A topic that an operator removes from ZooKeeper by hand, as with `deleteall /brokers/topics/t`."""

from __future__ import annotations

import pytest

from ottla.errors import NotCoordinator, UnknownTopicOrPartition
from ottla.replication.aside import found
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from tests.peers.ottla import Broker, Brokers
from tests.support.by_hand import exists, produced, shell
from tests.support.client import connect, data, values
from tests.support.group_client import Member
from tests.support.waiting import eventually

pytestmark = pytest.mark.zookeeper

OFFSETS = "__consumer_offsets"


def warned(broker: Broker) -> list[str]:
    lines = broker.log.read_text().splitlines()
    return [line for line in lines if "was removed from the tree" in line]


def test_it_leaves_the_metadata_its_folders_stay_and_its_name_is_free(brokers: Brokers, zookeeper: str) -> None:
    one, two = (brokers(broker_id=broker_id, zookeeper=zookeeper) for broker_id in (1, 2))
    with shell(zookeeper) as tree, connect(one) as first, connect(two) as second:
        eventually("brokers", lambda: len(tree.get_children("/brokers/ids")) == 2)
        first.create_on("t", {0: [1, 2]})
        first.create_on("u", {0: [1, 2]})
        for topic in "tu":
            eventually("the leader", lambda topic=topic: produced(first, topic, b"a") == 0)  # type: ignore[misc]
        tree.delete("/brokers/topics/t", recursive=True)
        for client in first, second:
            eventually("it is gone", lambda client=client: not exists(client, "t"))  # type: ignore[misc]
        eventually("it is led no more", lambda: produced(first, "t", b"b") == UnknownTopicOrPartition.code)
        assert exists(first, "u")
        assert produced(first, "u", b"b") == 0
        (line,) = warned(one) + warned(two)
        assert "topic t was removed" in line
        assert all(data(broker.data, "t").exists() for broker in (one, two))
        # Led by the other; and nobody waits until the tree rests.
        first.create_on("t", {0: [2, 1]})
        eventually("the other topic", lambda: produced(second, "t", b"c") == 0)
        # Records of the former one are put aside.
        assert values(second.fetch("t")) == [b"c"]
        tree.delete("/brokers/topics/t", recursive=True)
        first.create_on("t", {0: [2, 1]})
        # Until its leader hears of it, writes go to the former one.
        eventually("the log of the former one is put aside", lambda: len([*found(two.data)]) == 2)
        eventually("one more", lambda: produced(second, "t", b"d") == 0)
        assert values(second.fetch("t")) == [b"d"]
    asides = {each.end_offset for broker in (one, two) for _, each in found(broker.data)}
    assert asides == {1}


def test_coordinators_hear_that_their_topic_is_gone(brokers: Brokers, zookeeper: str) -> None:
    """The groups begin anew, in another topic of the name, which is made when somebody asks for a coordinator."""
    settings = {"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 1}
    settings["group.initial.rebalance.delay.ms"] = 0
    broker = brokers(broker_id=1, zookeeper=zookeeper, settings=settings)
    with shell(zookeeper) as tree, connect(broker) as client:

        def coordinated() -> bool:
            return client.call(FIND_COORDINATOR, FindCoordinatorRequest(key="g")).error_code == 0

        client.create("t")
        eventually("a coordinator", coordinated)
        member = Member.connect(broker, "g")
        assert member.join() == 0
        tree.delete(f"/brokers/topics/{OFFSETS}", recursive=True)
        eventually("it is none any more", lambda: member.heartbeat() == NotCoordinator.code)
        eventually("a coordinator again", coordinated)
        again = Member.connect(broker, "g")
        eventually("a member again", lambda: again.join() == 0)
        assert again.sync({again.id: b""}).error_code == 0
        assert again.commit("t", 5) == 0
        assert again.committed("t") == (5, 0)
        assert tree.exists(f"/brokers/topics/{OFFSETS}")
