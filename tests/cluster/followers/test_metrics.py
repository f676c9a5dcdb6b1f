"""The metrics of replicas while they move, fall behind and go away: each number changes when that happens."""

from collections.abc import Iterator

import pytest

from ottla.config.table import LONG_MAX
from ottla.kafka import TopicPartition
from tests.cluster import asking
from tests.cluster.kinds import OTTLA
from tests.cluster.orders import order
from tests.cluster.stand import Cluster, Member
from tests.metrics.scraped import Scraped, scrape
from tests.peers.ports import free_port
from tests.support.client import batch
from tests.support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]

LEADER, FOLLOWER, THIRD = 1, 2, 3
#: More than one answer has of a partition.
RECORDS = 60
VALUE = b"x" * 50_000
#: A follower that stands still is out of sync before its session ends.
LAG_MS = 1000
REPLICAS = "kafka_server_replicamanager_"
TRAFFIC = "kafka_server_brokertopicmetrics_"
FETCHERS = "kafka_server_replicafetchermanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"
CONTROLLER_STATS, COUNT = "kafka_controller_controllerstats_", "rateandtimems_count_total"
ELECTIONS = f"{CONTROLLER_STATS}leaderelection{COUNT}"
THROTTLED = "ottla_replication_throttled_bytes_total"


@pytest.fixture(scope="module")
def ports() -> dict[int, int]:
    return {broker: free_port() for broker in (LEADER, FOLLOWER, THIRD)}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, ports: dict[int, int]) -> Iterator[Cluster]:
    of_each = {broker: {"metrics.listener": f"127.0.0.1:{port}"} for broker, port in ports.items()}
    settings = {"replica.lag.time.max.ms": LAG_MS}
    directory = tmp_path_factory.mktemp("metrics")
    with Cluster(directory, OTTLA, settings=settings, of_each=of_each, namespaces=False) as made:
        yield made


class Told:
    """The metrics that the running brokers tell now."""

    def __init__(self, cluster: Cluster, ports: dict[int, int]) -> None:
        self._cluster, self._ports = cluster, ports

    def by(self, broker: int) -> Scraped:
        return scrape(self._ports[broker])

    def of(self, broker: int, name: str, **labels: object) -> float:
        value = self.by(broker)(name, **labels)
        assert value is not None, name
        return value

    def sum(self, name: str) -> float:
        return sum(self.by(member.id).sum(name) for member in self._cluster.brokers if member.running)

    def becomes(self, name: str, value: float) -> None:
        """Waits until the sum over all brokers is that."""
        eventually(f"{name} is {value}", lambda: self.sum(name) == value, facts=lambda: self.sum(name))


@pytest.fixture
def told(cluster: Cluster, ports: dict[int, int]) -> Told:
    return Told(cluster, ports)


def create(cluster: Cluster, told: Told, topic: str, *replicas: int) -> None:
    """A topic of one partition; its leader knows of it."""
    with asking.client(cluster, controller(cluster)) as client:
        client.create_on(topic, {0: list(replicas)})
    cluster.all_in_sync(topic)
    name = "kafka_cluster_partition_replicascount"
    eventually("it is led", lambda: told.by(replicas[0])(name, topic=topic, partition=0) == len(replicas))


def controller(cluster: Cluster) -> Member:
    return cluster.broker(cluster.observer.controller()[0])


def others(cluster: Cluster) -> tuple[int, int]:
    """The brokers that are not the controller."""
    one, two = (member.id for member in cluster.brokers if member is not controller(cluster))
    return one, two


def produce(cluster: Cluster, topic: str) -> None:
    with asking.client(cluster, cluster.leader(topic)) as client:
        for _ in range(RECORDS):
            assert asking.produced(client.produce(topic, batch(VALUE)))[0] == "NONE"


def throttle(cluster: Cluster, topic: str, rate: int, replicas: str) -> None:
    """How many bytes a second the third broker fetches for these replicas of a topic."""
    with asking.client(cluster, cluster.broker(THIRD)) as client:
        client.alter_broker(str(THIRD), {"follower.replication.throttled.rate": str(rate)})
        client.alter_topic(topic, {"follower.replication.throttled.replicas": replicas})


def test_a_move_under_a_throttle(cluster: Cluster, told: Told) -> None:
    create(cluster, told, "moved", LEADER, FOLLOWER)
    produce(cluster, "moved")
    size = sum(file.stat().st_size for file in (cluster.broker(LEADER).data / "moved-0").glob("*.log"))
    before = {broker: told.by(broker) for broker in (LEADER, FOLLOWER, THIRD)}

    def grown(broker: int, name: str, **labels: object) -> float:
        return told.of(broker, name, **labels) - (before[broker](name, **labels) or 0)

    assert before[FOLLOWER](f"{TRAFFIC}replicationbytesin_total") == size
    assert (before[LEADER](f"{TRAFFIC}replicationbytesout_total") or 0) >= size
    throttle(cluster, "moved", 1, f"0:{THIRD}")
    assert order(cluster, {TopicPartition("moved", 0): [LEADER, FOLLOWER, THIRD]}) == {("moved", 0): "NONE"}
    told.becomes(f"{REPLICAS}reassigningpartitions", 1)
    assert told.of(LEADER, f"{REPLICAS}reassigningpartitions") == 1
    # The first answer comes: from it the follower knows that it lags.
    eventually("it lags", lambda: told.of(THIRD, f"{FETCHERS}maxlag", clientId="Replica") > 0)
    assert 0 < grown(THIRD, THROTTLED, side="follower") < size
    # Nobody is missed who was never there.
    assert told.of(LEADER, f"{REPLICAS}underreplicatedpartitions") == 0
    throttle(cluster, "moved", LONG_MAX, "")
    cluster.all_in_sync("moved")
    told.becomes(f"{REPLICAS}reassigningpartitions", 0)
    assert told.of(THIRD, f"{FETCHERS}maxlag", clientId="Replica") == 0
    assert told.sum(f"{REPLICAS}underreplicatedpartitions") == 0
    # An answer may end in the middle of a batch, which comes again.
    moved = grown(THIRD, f"{TRAFFIC}reassignmentbytesin_total")
    assert size <= moved <= grown(LEADER, f"{TRAFFIC}reassignmentbytesout_total") < 2 * size
    assert size <= moved == grown(THIRD, f"{TRAFFIC}replicationbytesin_total")
    assert moved <= grown(LEADER, f"{TRAFFIC}replicationbytesout_total") < 2 * size
    for name in ("replicationbytesin", "reassignmentbytesin"):
        assert grown(FOLLOWER, f"{TRAFFIC}{name}_total") == 0, name
    # A replica that is there already is in no move.
    produce(cluster, "moved")
    assert grown(THIRD, f"{TRAFFIC}replicationbytesin_total") == moved + size
    assert grown(THIRD, f"{TRAFFIC}reassignmentbytesin_total") == moved


def test_a_follower_that_stands_still_and_comes_back(cluster: Cluster, told: Told) -> None:
    leader, still, other = controller(cluster).id, *others(cluster)
    create(cluster, told, "lagging", leader, still, other)
    before = told.by(leader)
    labels = {"topic": "lagging", "partition": 0}

    def grown(name: str) -> float:
        return told.of(leader, f"{REPLICAS}{name}_total") - (before(f"{REPLICAS}{name}_total") or 0)

    with cluster.broker(still).paused():
        produce(cluster, "lagging")
        eventually("it is out of sync", lambda: cluster.observer.state("lagging").isr == {leader, other})
        # It is counted when the controller's answer is there.
        eventually("that is counted", lambda: grown("isrshrinks") > 0)
        assert told.of(leader, "kafka_cluster_partition_atminisr", **labels) == 1
        assert told.of(leader, "kafka_cluster_partition_underreplicated", **labels) == 1
    cluster.all_in_sync("lagging")
    eventually("it is back", lambda: grown("isrexpands") > 0)
    assert told.of(leader, "kafka_cluster_partition_underreplicated", **labels) == 0
    eventually("it fetches", lambda: told.of(still, f"{FETCHERS}minfetchrate", clientId="Replica") > 0)


def test_a_broker_that_dies(cluster: Cluster, told: Told) -> None:
    leader, dies = controller(cluster).id, others(cluster)[0]
    create(cluster, told, "alone", dies)
    create(cluster, told, "pair", leader, dies)
    offline, below = f"{CONTROLLER}offlinepartitionscount", f"{REPLICAS}underminisrpartitioncount"
    assert (told.sum(offline), told.of(leader, below)) == (0, 0)
    elections = told.of(leader, ELECTIONS)
    cluster.broker(dies).kill()
    told.becomes(offline, 1)
    eventually("that is counted", lambda: told.of(leader, ELECTIONS) > elections)
    eventually("one is below min.insync.replicas", lambda: told.of(leader, below) == 1)
    assert told.of(leader, "kafka_cluster_partition_underminisr", topic="pair", partition=0) == 1
    cluster.broker(dies).start()
    told.becomes(offline, 0)
    told.becomes(f"{REPLICAS}underreplicatedpartitions", 0)
    assert told.of(leader, below) == 0


def test_a_controller_that_dies(cluster: Cluster, told: Told) -> None:
    active, changes = f"{CONTROLLER}activecontrollercount", f"{CONTROLLER_STATS}controllerchange{COUNT}"
    old = controller(cluster)
    told.becomes(active, 1)
    assert told.of(old.id, active) == 1
    assert [told.of(broker, active) for broker in others(cluster)] == [0, 0]
    old.kill()
    told.becomes(active, 1)
    new = controller(cluster)
    assert new is not old
    eventually("it has taken over", lambda: told.of(new.id, changes) > 0)
    old.start()
