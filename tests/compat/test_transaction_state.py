"""`__transaction_state` between Apache Kafka and us: its tools read our records, and either takes over from the other.

Open transactions go on under the next coordinator with the producer that began them; what was decided is carried out
by whoever comes next. Kafka runs in ZooKeeper mode: 2.7.2, and 3.9.2 with the inter-broker protocol of 2.7.
"""

import re
from pathlib import Path

import pytest
from confluent_kafka import admin
from worker import eventually

from ottla.log import Log
from ottla.replication.internal_topic import partition_for
from ottla.transaction.records import decode_value, encode_key, encode_value
from ottla.transaction.transaction import State
from tests.peers.apache import Apache, Kafka, tool
from tests.peers.ottla import Broker, Brokers
from tests.support.confluent import create, producer, read, read_until, send
from tests.support.kafka_on_our_disk import MIGRATION, ZOOKEEPER_MODE, kill
from tests.support.lanes import judged_by
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.zookeeper, pytest.mark.clients]

SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "zookeeper.session.timeout.ms": 4000,
}
FORMATTER = "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter"


@pytest.mark.parametrize("version", judged_by(ZOOKEEPER_MODE, ZOOKEEPER_MODE[:1]))
def test_kafkas_formatter_prints_our_records(brokers: Brokers, version: str) -> None:
    broker = brokers(settings=SETTINGS)
    topic = create(broker)
    sender = producer(broker, "größe", transaction_timeout_ms=12_345)
    sender.begin_transaction()
    send(sender, topic, "a", "b")
    sender.commit_transaction(PATIENCE_S)
    read_until(broker, topic, ["a", "b"])
    producer(broker, "größe")
    where = ("--bootstrap-server", broker.bootstrap, "--topic", "__transaction_state", "--from-beginning")
    # Empty, Ongoing (once or twice: librdkafka adds partitions as it goes), PrepareCommit, CompleteCommit, Empty
    printed = tool(version, "console-consumer", *where, "--formatter", FORMATTER, "--max-messages", "5").splitlines()
    assert all(line.startswith("größe::TransactionMetadata(transactionalId=größe, producerId=0, ") for line in printed)
    states = [re.search(r"\bstate=(\w+)", line)[1] for line in printed]  # type: ignore[index]
    assert states in (
        ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit", "Empty"],
        ["Empty", "Ongoing", "Ongoing", "PrepareCommit", "CompleteCommit"],
    )
    assert "producerEpoch=0, txnTimeoutMs=12345" in printed[0]
    assert f"{topic}-0" in printed[-3]
    assert f"{topic}-1" in printed[-3]
    broker.stop()
    (log,) = (broker.data / "__transaction_state-0").glob("*.log")
    dumped = tool(version, "dump-log", "--transaction-log-decoder", "--deep-iteration", "--files", str(log))
    assert len(re.findall(r"key: transaction_metadata::transactionalId=größe payload: producerId:0,", dumped)) >= 5


class Cluster:
    """One data directory and its ZooKeeper, served by either broker; `port` stays, so that clients go on."""

    def __init__(self, brokers: Brokers, kafka: Apache, zookeeper: str, version: str, port: int) -> None:
        self.brokers, self.kafka, self.zookeeper, self.version, self.port = brokers, kafka, zookeeper, version, port
        self.data = kafka.directory / "data"

    def ours(self) -> Broker:
        return self.brokers(broker_id=1, zookeeper=self.zookeeper, settings=SETTINGS, data=self.data, port=self.port)

    def theirs(self) -> Kafka:
        settings = {"log.dirs": self.data, **SETTINGS, **(MIGRATION if self.version.startswith("3.") else {})}
        return self.kafka.broker(self.version, zookeeper=self.zookeeper, settings=settings, port=self.port)


@pytest.fixture(params=judged_by(ZOOKEEPER_MODE, ZOOKEEPER_MODE[:1]))
def cluster(request: pytest.FixtureRequest, brokers: Brokers, kafka: Apache, zookeeper: str, free_port: int) -> Cluster:
    return Cluster(brokers, kafka, zookeeper, request.param, free_port)


def test_open_transactions_go_on_under_the_other_broker(cluster: Cluster) -> None:
    """Each hand-over finds transactions that are open; they are committed, aborted and fenced on the other side."""
    broker: Broker | Kafka = cluster.ours()
    topic = create(broker)
    wanted: list[str] = []
    for turn, start in enumerate((cluster.theirs, cluster.ours)):
        commits, aborts, fenced = senders = [producer(broker, f"{name} {turn}") for name in ("c", "a", "f")]
        for sender, name in zip(senders, ("commit", "abort", "fence"), strict=True):
            sender.begin_transaction()
            send(sender, topic, f"{name} before {turn}")
        if turn == 0:
            broker.stop()
        else:
            kill(broker, cluster.zookeeper)
        broker = start()
        send(commits, topic, f"commit after {turn}")
        commits.commit_transaction(PATIENCE_S)
        aborts.abort_transaction(PATIENCE_S)
        newer = producer(broker, f"f {turn}")
        newer.begin_transaction()
        send(newer, topic, f"newer {turn}")
        newer.commit_transaction(PATIENCE_S)
        wanted += [f"commit before {turn}", f"commit after {turn}", f"newer {turn}"]
        read_until(broker, topic, wanted)
        del fenced
    assert len(read(broker, topic, committed=False)) == 10


def decide(data: Path, transactional_id: str, state: State) -> None:
    """Does what a coordinator does right before it dies: the decision is in the log, and nobody has heard of it."""
    with Log.open(data / "__transaction_state-0", mode="a") as log:
        latest = [record.value for record in log if record.key == encode_key(transactional_id)][-1]
        assert latest is not None
        ongoing = decode_value(latest)
        assert ongoing.state is State.ONGOING
        log.append(encode_value(ongoing._replace(state=state)), key=encode_key(transactional_id))


def test_what_was_decided_is_carried_out_by_the_other_broker(cluster: Cluster) -> None:
    """Prepared transactions get their markers from whoever comes next."""
    broker: Broker | Kafka = cluster.ours()
    topic = create(broker)
    wanted: list[str] = []
    for turn, start in enumerate((cluster.theirs, cluster.ours)):
        for name in ("commit", "abort"):
            sender = producer(broker, f"{name} {turn}")
            sender.begin_transaction()
            send(sender, topic, *(f"{name} {turn} {number}" for number in range(5)))
        broker.stop()
        decide(cluster.data, f"commit {turn}", State.PREPARE_COMMIT)
        decide(cluster.data, f"abort {turn}", State.PREPARE_ABORT)
        broker = start()
        wanted += [f"commit {turn} {number}" for number in range(5)]
        read_until(broker, topic, wanted)
        assert read(broker, topic) == sorted(wanted), "and nothing follows"
        again = producer(broker, f"commit {turn}")
        again.begin_transaction()
        send(again, topic, f"again {turn}")
        again.commit_transaction(PATIENCE_S)
        wanted.append(f"again {turn}")
        read_until(broker, topic, wanted)


@pytest.mark.parametrize("version", ZOOKEEPER_MODE[:1])
def test_transactions_across_a_mixed_cluster(brokers: Brokers, kafka: Apache, zookeeper: str, version: str) -> None:
    """One broker each: coordinators and leaders are on both sides, so markers go from each to each."""
    settings = SETTINGS | {"transaction.state.log.num.partitions": 2}
    ours = brokers(broker_id=2, zookeeper=zookeeper, settings=settings)
    theirs = kafka.broker(version, zookeeper=zookeeper, settings=settings)
    both = admin.AdminClient({"bootstrap.servers": f"{ours.bootstrap},{theirs.bootstrap}"})
    assert eventually(lambda: str(sorted(both.list_topics(timeout=PATIENCE_S).brokers)), "[1, 2]") == "[1, 2]"
    topic = create(ours)

    def leaders(name: str) -> str:
        # Whichever broker is asked may hear of a new topic a little later than the one that answered for it.
        return str(
            sorted(
                {each.leader for each in both.list_topics(name, timeout=PATIENCE_S).topics[name].partitions.values()}
            )
        )

    assert eventually(lambda: leaders(topic), "[1, 2]") == "[1, 2]"

    wanted: list[str] = []
    for turn in range(2):
        for name in ("a", "b", "c", "d"):
            values = [f"{turn} {name} {number}" for number in range(6)]
            sender = producer(theirs if turn else ours, name)
            sender.begin_transaction()
            send(sender, topic, *values)
            if name == "c":
                sender.abort_transaction(PATIENCE_S)
            else:
                sender.commit_transaction(PATIENCE_S)
                wanted += values
    read_until(ours, topic, wanted)
    assert eventually(lambda: leaders("__transaction_state"), "[1, 2]") == "[1, 2]"
    listed = {partition_for(name, 2) for name in ("a", "b", "c", "d")}
    assert listed == {0, 1}, "each coordinates some"
