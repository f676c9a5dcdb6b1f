"""A broker is started with the id of one that runs: it is refused, and nobody else notices it."""

import pytest

from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster
from tests.faults.broker import settings
from tests.peers.ottla import Brokers
from tests.peers.skips import module
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper, pytest.mark.soak]


def test_the_second_of_two_is_refused(cluster: Cluster, brokers: Brokers) -> None:
    """After the time in which the session of a process that died would have ended."""
    member = cluster.broker(1)
    path = f"/brokers/ids/{member.id}"
    with (
        Round(cluster, settings.seed(), copies=False, led_by=member.id) as load,
        cluster.observer.follow(*load.topics) as chronicle,
    ):
        before = cluster.observer.tree.get(path)
        with member.node.inside():
            second = brokers(
                broker_id=member.id,
                host=member.node.address,
                zookeeper=member.zookeeper,
                settings=member.settings,
                wait=False,
            )
        eventually("its end", lambda: not second.running, facts=second.output_tail)
        load.writes()
        assert cluster.observer.tree.get(path) == before
        load.finish()
    said = second.log.read_text()
    assert f"{path}: another process is broker {member.id}: PLAINTEXT://{member.address} in session 0x" in said
    assert "Traceback" not in said
    assert second.process.returncode not in (0, None)
    assert chronicle.moved() == 0
    assert chronicle.shrank() == {}
    chronicle.check()
    load.judge(at_least=300)
