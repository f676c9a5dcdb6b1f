"""Brokers that stand still: nobody hears of them, others lead meanwhile, and nothing that was acknowledged is lost."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator

import pytest

import ottla
from ottla.broker.network_threads import VARIABLE as THREADS
from ottla.coordination import znodes
from ottla.coordination.tree import SessionState
from ottla.embedded import BrokerFailed, NotRunning
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.client import Client, batch
from tests.support.waiting import PATIENCE_S, eventually

#: So long a session lasts of which nothing is heard, in ms: short for a test that waits for its end.
SHORT = {"zookeeper.session.timeout.ms": 300}
#: And longer than a test.
LONG = {"zookeeper.session.timeout.ms": 3_600_000}


@pytest.fixture
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(3, SHORT) as made:
        yield made


def client(broker: ottla.Broker) -> Client:
    return Client.connect(broker.host, broker.port, "test")


def produce(broker: ottla.Broker, *values: bytes) -> int:
    with client(broker) as connection:
        (row,) = connection.produce("t", batch(*values), acks=-1).responses[0].partitions
    return row.error_code


def values(broker: ottla.Broker) -> list[bytes]:
    with broker.log("t") as log:
        return [record.value for record in log.records() if record.value is not None]


def leader(cluster: ottla.Cluster, than: ottla.Broker | None = None) -> ottla.Broker:
    found = eventually(
        "it has a leader", lambda: (now := cluster.leader("t")) not in (None, than) and not now.is_paused and now
    )
    assert isinstance(found, ottla.Broker)
    return found


class Late:
    """A connection from before a pause, on which a Produce is sent meanwhile."""

    def __init__(self, broker: ottla.Broker) -> None:
        self._connection = client(broker)

    def send(self, *values: bytes) -> None:
        row = TopicProduceData(name="t", partitions=[PartitionProduceData(records=batch(*values))])
        self._connection.send(PRODUCE, ProduceRequest(acks=-1, timeout_ms=60_000, topics=[row]), 8)

    @property
    def is_answered(self) -> bool:
        return bool(select.select([self._connection._socket], [], [], 0)[0])

    def answer(self) -> int | None:
        """The error code; None if the connection has ended instead."""
        with self._connection:
            try:
                (row,) = self._connection.receive().responses[0].partitions
            except ConnectionError:
                return None
        code: int = row.error_code
        return code


def test_requests_wait_until_it_goes_on() -> None:
    with ottla.Broker() as broker:
        broker.create_topic("t")
        assert produce(broker, b"1") == 0
        with client(broker) as before:
            late = Late(broker)
            broker.pause()
            assert (broker.is_running, broker.is_paused) == (True, True)
            assert "paused" in repr(broker)
            late.send(b"2")
            assert values(broker) == [b"1"]
            assert not late.is_answered
            broker.pause()  # it may be
            broker.resume()
            assert late.answer() == 0
            before.produce("t", batch(b"3"))
        assert not broker.is_paused
        broker.resume()  # it may be
        assert values(broker) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("threads", ["0", "2"])
def test_leases_do_not_serve_meanwhile(monkeypatch: pytest.MonkeyPatch, threads: str) -> None:
    monkeypatch.setenv(THREADS, threads)
    with ottla.Broker() as broker:
        broker.create_topic("t")
        with client(broker) as connection:
            for _ in range(3):
                connection.produce("t", batch(b"1"), acks=1)
            assert broker._thread is not None
            leases = broker._thread._broker.leases
            assert leases.topics == {"t"}
            late = Late(broker)
            broker.pause()
            assert leases.topics == set()
            late.send(b"2")
            broker.resume()
            assert late.answer() == 0
            for _ in range(2):
                connection.produce("t", batch(b"3"), acks=1)
            eventually("there are leases again", lambda: leases.topics == {"t"})
            with broker.faults.add("Produce", topic="t", delay=0.001):
                broker.pause()
                broker.resume()
                connection.produce("t", batch(b"4"), acks=1)
                assert leases.topics == set(), "a fault still wants to see all"


@pytest.mark.parametrize("threads", ["0", "2"])
@pytest.mark.parametrize("end", ["kill", "power_loss"])
def test_one_that_is_killed_answers_nobody(monkeypatch: pytest.MonkeyPatch, end: str, threads: str) -> None:
    monkeypatch.setenv(THREADS, threads)
    with ottla.Broker({"log.flush.interval.messages": 1}) as broker:
        broker.create_topic("t")
        assert produce(broker, b"1") == 0
        late = Late(broker)
        broker.pause()
        late.send(b"2")
        getattr(broker, end)()
        assert late.answer() is None
        assert not broker.is_paused
        broker.start()
        assert values(broker) == [b"1"]
        assert produce(broker, b"3") == 0


@pytest.mark.parametrize("end", ["stop", "close", "restart"])
def test_to_be_stopped_it_goes_on(end: str) -> None:
    broker = ottla.Broker().start()
    broker.create_topic("t")
    broker.pause()
    getattr(broker, end)()
    assert (broker.is_running, broker.is_paused) == (end == "restart", False)
    broker.close()


def test_a_block_and_a_program_end_while_it_is_paused() -> None:
    with ottla.Broker() as broker:
        broker.pause()
    assert not broker.is_running
    lines = "import ottla; broker = ottla.Broker().start(); broker.pause()"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "")


def test_mistakes_are_told() -> None:
    broker = ottla.Broker()
    for call in (broker.pause, broker.resume):
        with pytest.raises(NotRunning, match="call start"):
            call()
    with broker:
        broker.pause()
        with pytest.raises(NotRunning, match="is paused: call resume"):
            broker.create_topic("t")
        # What need not be asked of the broker itself is there.
        fault = broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", times=1)
        broker.clock.jump(10)
        broker.resume()
        broker.create_topic("t")
        assert (produce(broker, b"1"), produce(broker, b"1")) == (6, 0)
        assert fault.hits == 1


def test_one_that_fails_is_not_waited_for() -> None:
    def fails() -> None:
        raise LookupError("a fault in the broker")

    broker = ottla.Broker().start()
    assert broker._thread is not None
    broker._thread._token.run_sync_soon(fails)
    eventually("it has ended", lambda: not broker.is_running)
    with pytest.raises(BrokerFailed, match="a fault in the broker"):
        broker.pause()
    assert not broker.is_paused
    with pytest.raises(BrokerFailed, match="a fault in the broker"):
        broker.close()


def test_a_paused_leader_comes_back_as_a_follower(cluster: ottla.Cluster) -> None:
    cluster.create_topic("t")
    first = leader(cluster)
    assert produce(first, b"1") == 0
    late = Late(first)
    assert first._thread is not None
    states: list[SessionState] = []
    first._thread._broker.tree.listen(states.append)
    first.pause()
    late.send(b"lost or refused")
    second = leader(cluster, first)
    eventually("it writes", lambda: produce(second, b"2") == 0)
    assert first.id not in cluster.in_sync("t")  # type: ignore[attr-defined]
    first.resume()
    error = late.answer()
    # The one that stood still had no session when it went on: it acknowledges nothing that others do not have.
    eventually("all are in sync", lambda: cluster.in_sync("t") == [1, 2, 3])
    assert states == [SessionState.EXPIRED, SessionState.CONNECTED]
    assert cluster.leader("t") is not first
    for broker in cluster:
        eventually("each has both", lambda broker=broker: values(broker)[:2] == [b"1", b"2"])  # type: ignore[misc]
    assert error != 0 or b"lost or refused" in values(second)


def test_a_short_pause_keeps_the_session() -> None:
    with ottla.Cluster(3, LONG) as cluster:
        cluster.create_topic("t")
        first = leader(cluster)
        tree = cluster._tree
        assert tree is not None
        path = znodes.broker_path(first.id)  # type: ignore[attr-defined]
        before = tree._read(path)
        late = Late(first)
        first.pause()
        late.send(b"1")
        first.resume()
        assert late.answer() == 0
        assert tree._read(path) == before is not None
        assert cluster.leader("t") is first


def test_a_paused_follower_does_not_fetch() -> None:
    """Its threads beside the loop fetch without Python: an acks=all waits for a follower that is in sync."""
    with ottla.Cluster(2, LONG) as cluster:
        cluster.create_topic("t", settings={"min.insync.replicas": 1})
        first = leader(cluster)
        (other,) = [broker for broker in cluster if broker is not first]
        assert produce(first, b"1") == 0
        eventually("it has it", lambda: values(other) == [b"1"])
        late = Late(first)
        other.pause()
        late.send(b"2")
        with client(first) as connection:
            connection.produce("t", batch(b"3"), acks=1)
        assert values(other) == [b"1"]
        assert not late.is_answered
        other.resume()
        assert late.answer() == 0
        eventually("it has all", lambda: sorted(values(other)) == [b"1", b"2", b"3"])


def test_the_controller_is_paused(cluster: ottla.Cluster) -> None:
    first = cluster.controller
    assert first is not None
    first.pause()
    eventually("another one controls", lambda: cluster.controller not in (None, first))
    cluster.create_topic("t", replicas=2)
    assert produce(leader(cluster, first), b"1") == 0
    first.resume()
    cluster.create_topic("u", replicas=3)
    eventually("all are in sync", lambda: cluster.in_sync("u") == [1, 2, 3])


@pytest.mark.parametrize("settings", [SHORT, LONG], ids=["without a session", "with its session"])
def test_a_cluster_ends_while_some_are_paused(settings: dict[str, object]) -> None:
    with ottla.Cluster(3, settings) as cluster:
        cluster.create_topic("t", 3)
        tree = cluster._tree
        assert tree is not None
        paused = cluster[1], cluster[2]
        for broker in paused:
            broker.pause()
        if settings is SHORT:
            eventually("their sessions are over", lambda: tree._read(znodes.broker_path(2)) is None)
    assert not any(broker.is_running for broker in cluster)


def test_all_are_paused(cluster: ottla.Cluster) -> None:
    cluster.create_topic("t")
    for broker in cluster:
        broker.pause()
    with pytest.raises(NotRunning, match="resume one"):
        cluster.create_topic("u")
    for broker in cluster:
        broker.resume()
    eventually("it writes", lambda: produce(leader(cluster), b"1") == 0)


def test_a_killed_one_was_paused(cluster: ottla.Cluster) -> None:
    cluster.create_topic("t")
    first = leader(cluster)
    assert produce(first, b"1") == 0
    first.pause()
    first.kill()
    second = leader(cluster, first)
    eventually("it writes", lambda: produce(second, b"2") == 0)
    first.start()
    eventually("all are in sync", lambda: cluster.in_sync("t") == [1, 2, 3])


def test_a_foreign_producer_loses_nothing(cluster: ottla.Cluster) -> None:
    ck = pytest.importorskip("confluent_kafka")
    cluster.create_topic("t")
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "enable.idempotence": True,
        "socket.timeout.ms": 1000,
        "request.timeout.ms": 900,
        "reconnect.backoff.max.ms": 100,
    }
    acknowledged: list[bytes] = []

    def delivered(error: object, message: object) -> None:
        assert error is None
        acknowledged.append(message.value())  # type: ignore[attr-defined]

    producer = ck.Producer(settings)
    sent = 0
    for _ in range(3):
        first = leader(cluster)
        for _ in range(50):
            producer.produce("t", str(sent).encode(), on_delivery=delivered)
            sent += 1
        producer.poll(0)
        first.pause()
        for _ in range(50):
            producer.produce("t", str(sent).encode(), on_delivery=delivered)
            sent += 1
        leader(cluster, first)
        assert producer.flush(PATIENCE_S) == 0
        first.resume()
        eventually("all are in sync", lambda: cluster.in_sync("t") == [1, 2, 3])
    wanted = [str(number).encode() for number in range(sent)]
    assert sorted(acknowledged) == sorted(wanted)
    for broker in cluster:
        eventually("each has all, once, in order", lambda broker=broker: values(broker) == wanted)  # type: ignore[misc]


def test_a_foreign_group_goes_on() -> None:
    ck = pytest.importorskip("confluent_kafka")
    with ottla.Broker() as broker:
        broker.create_topic("t")
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        consumer = ck.Consumer({**servers, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        producer = ck.Producer(servers)
        for number in range(3):
            producer.produce("t", str(number))
            assert producer.flush(PATIENCE_S) == 0
            (message,) = consumer.consume(1, PATIENCE_S)
            assert message.value() == str(number).encode()
            broker.pause()
            producer.produce("t", f"{number}, late")
            assert producer.flush(0) == 1
            broker.resume()
            assert producer.flush(PATIENCE_S) == 0
            (message,) = consumer.consume(1, PATIENCE_S)
            assert message.value() == f"{number}, late".encode()
        consumer.close()
