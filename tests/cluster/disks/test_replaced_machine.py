"""A machine is replaced: a broker with the old one's id, an empty directory and another address takes its place."""

import shutil

import pytest

from tests.cluster import asking
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster
from tests.faults.broker import settings
from tests.faults.broker.load import PARTITIONS
from tests.peers.ports import free_port
from tests.peers.skips import module
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]


@pytest.mark.judge
def test_the_new_one_copies_what_it_should_have_and_leads_again(cluster: Cluster) -> None:
    """Under load: nothing that was acknowledged is missing, also when the new machine's copy is all there is to read.
    It is elected by an operator's command.
    """
    member = cluster.broker(1)
    with (
        Round(cluster, settings.seed(), led_by=member.id) as load,
        cluster.observer.follow(*load.topics) as chronicle,
    ):
        purged = load.another_topic("purged", replicas=[member.id, 2, 3])
        asking.delete_inside_a_batch(cluster, member, purged)
        load.writes()
        member.kill()
        shutil.rmtree(member.data)
        for index in range(PARTITIONS):
            cluster.led_by_another(load.plain, index, than=member.id)
        load.writes()
        with member.node.inside():
            member.port = free_port()
        member.address = f"{member.node.address}:{member.port}"
        cluster.observer.brokers[member.id] = (member.node.address, member.port)
        member.start()
        cluster.all_in_sync(*load.topics, purged)
        assert all((member.data / f"{load.plain}-{index}").is_dir() for index in range(PARTITIONS))
        load.writes()
        asking.elect_first_of(cluster, [*load.topics, purged], [member.id, 2, 3])
        load.flows()
        for other in cluster.brokers[1:]:
            eventually(f"{other.name} knows it", lambda other=other: leads(cluster, other.id, load.plain))  # type: ignore[misc]
        load.finish()
        assert asking.log_range(cluster, member, purged) == asking.AFTER_DELETION
    assert chronicle.unclean() == []
    chronicle.check()
    load.judge(at_least=100)
    logs_equal(cluster.directories, *load.topics, purged)


def leads(cluster: Cluster, asked: int, topic: str) -> bool:
    """True if broker 1 leads all partitions, as this broker tells clients."""
    return {state.leader for state in cluster.observer.states_known_to(asked, topic).values()} == {1}
