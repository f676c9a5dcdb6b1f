"""Which codes a failover shows: those that Apache Kafka 2.7.2 shows, each for the same request. Clients know these, and
some take others for fatal.
"""

from collections.abc import Iterator

import pytest

from tests.cluster import asking
from tests.cluster.failover import STATES, Asked, ask_around, beyond
from tests.cluster.stand import Cluster
from tests.peers.skips import module
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
TOPIC = "asked-about"
#: Kafka's code where nothing can be appended.
REFUSED = "COORDINATOR_NOT_AVAILABLE"

#: Kafka 2.7.2's, with three brokers: the codes that were seen in four kills of the coordinator and two of its stops,
#: by this program (OTTLA_CLUSTER_KINDS=kafka,kafka,kafka). InitProducerId can be told CONCURRENT_TRANSACTIONS, too
#: (TransactionCoordinator.prepareInitProducerIdTransit), and was not. COORDINATOR_NOT_AVAILABLE is told by
#: FindCoordinator alone as long as enough replicas are in sync: no other request is refused for want of a leader.
WITH_ENOUGH_IN_SYNC = {
    "FindCoordinator": {"NONE", "COORDINATOR_NOT_AVAILABLE"},
    "InitProducerId": {"NONE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS"},
    "AddPartitionsToTxn": {"NONE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS"},
    "AddOffsetsToTxn": {"NONE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS"},
    "EndTxn": {"NONE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS"},
    "TxnOffsetCommit": {"NONE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"},
    "OffsetFetch": {"NONE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"},
    # While groups are loaded nobody can be late: it is answered with NONE.
    "Heartbeat": {"NONE", "NOT_COORDINATOR"},
}
#: Of the broker that is not the next coordinator either, and so never loads anything.
NEVER_COORDINATES = {name: {"NOT_COORDINATOR"} for name in WITH_ENOUGH_IN_SYNC} | {
    "FindCoordinator": WITH_ENOUGH_IN_SYNC["FindCoordinator"]
}
#: The codes that Kafka adds to them where fewer replicas are in sync than min.insync.replicas.
#: Seen for all but AddPartitionsToTxn and AddOffsetsToTxn, which share the others' way to the log
#: (TransactionStateManager.appendTransactionToLog). REQUEST_TIMED_OUT came after offsets.commit.timeout.ms.
WITH_TOO_FEW = {
    "InitProducerId": {REFUSED},
    "AddPartitionsToTxn": {REFUSED},
    "AddOffsetsToTxn": {REFUSED},
    "EndTxn": {REFUSED},
    "TxnOffsetCommit": {REFUSED, "REQUEST_TIMED_OUT"},
}


@pytest.fixture(autouse=True)
def whole(cluster: Cluster) -> Iterator[None]:
    """All brokers are there before a test and after it."""
    controller, _ = cluster.observer.controller()
    if not cluster.observer.tree.exists(f"/brokers/topics/{TOPIC}"):
        with asking.client(cluster, cluster.broker(controller)) as client:
            client.create_on(TOPIC, {0: [2, 3, 1], 1: [3, 2, 1]})
    cluster.all_in_sync(TOPIC)
    yield
    for member in [member for member in cluster.brokers if not member.running]:
        cluster.leaves(member)
        member.start()
    for member in cluster.brokers:
        cluster.knows_all(member)


#: Where the coordinator controls, too, nobody has a leader until the next controller has decided.
@pytest.mark.parametrize("controller", [2, pytest.param(1, marks=pytest.mark.judge)])
def test_the_coordinator_is_killed(cluster: Cluster, controller: int) -> None:
    asking.make_controller(cluster, cluster.broker(controller))
    asked = ask_around(cluster, TOPIC, lambda _: cluster.broker(1).kill())
    assert beyond(asked.found(), WITH_ENOUGH_IN_SYNC) == {}, asked
    assert beyond(asked.found(3), NEVER_COORDINATES) == {}, asked


@pytest.mark.judge
def test_the_coordinator_is_stopped(cluster: Cluster) -> None:
    asked = ask_around(cluster, TOPIC, lambda _: cluster.broker(1).stop())
    assert beyond(asked.found(), WITH_ENOUGH_IN_SYNC) == {}, asked
    assert beyond(asked.found(3), NEVER_COORDINATES) == {}, asked


@pytest.mark.judge
def test_too_few_replicas_are_left(cluster: Cluster) -> None:
    allowed = {name: codes | WITH_TOO_FEW.get(name, set()) for name, codes in WITH_ENOUGH_IN_SYNC.items()}
    asked = ask_around(cluster, TOPIC, lambda asked: leave_one(cluster, asked))
    assert beyond(asked.found(), allowed) == {}, asked


def leave_one(cluster: Cluster, asked: Asked) -> None:
    """Broker 2 coordinates for a while, and nobody is in sync with it."""
    cluster.broker(3).kill()
    eventually("broker 3 is out of sync", lambda: 3 not in cluster.observer.state(STATES).isr)
    cluster.broker(1).kill()
    eventually("broker 2 leads", lambda: cluster.observer.state(STATES).leader == 2)
    eventually("it says so", lambda: REFUSED in asked.codes[2, "InitProducerId"], facts=lambda: asked)
    cluster.broker(3).start()
