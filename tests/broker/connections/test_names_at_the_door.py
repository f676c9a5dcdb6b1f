"""Names and numbers that no folder has, in requests of whoever says to be the controller."""

from pathlib import Path

import pytest

from ottla._core import LogConfig, LogDirectory
from ottla.broker.between import PARTITIONS_MAX
from ottla.client.errors import ConnectionLost
from ottla.controller.asked import REPLICAS_MAX
from ottla.errors import InvalidTopic, StorageError
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from ottla.wire.k04_leader_and_isr import (
    LEADER_AND_ISR,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.wire.k05_stop_replica import (
    STOP_REPLICA,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.wire.k06_update_metadata import (
    UPDATE_METADATA,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.support.client import Client, batch, connect, values
from tests.support.waiting import eventually

BAD = ["sub/evil", "../evil", "/tmp/evil", "x" * 5_000, "", ".", "..", "a b", "a\nb", "a\0b", "snow\u2603"]
#: Of the first controller of a new cluster.
EPOCH = 1


def lead(client: Client, broker: Broker, *partitions: tuple[str, int]) -> dict[tuple[str, int], int]:
    """LeaderAndIsr for new partitions; the error of each."""
    topics = [
        LeaderAndIsrTopicState(
            topic_name=topic,
            partition_states=[
                LeaderAndIsrPartitionState(
                    partition_index=index,
                    controller_epoch=EPOCH,
                    leader=broker.id,
                    leader_epoch=7,
                    isr=[broker.id],
                    replicas=[broker.id],
                    is_new=True,
                )
            ],
        )
        for topic, index in partitions
    ]
    request = LeaderAndIsrRequest(controller_id=broker.id, controller_epoch=EPOCH, broker_epoch=-1, topic_states=topics)
    answer = client.call(LEADER_AND_ISR, request, 4)
    assert answer.error_code == 0
    return {(row.topic_name, row.partition_index): row.error_code for row in answer.partition_errors}


def tree(data: Path) -> set[str]:
    return {str(path.relative_to(data.parent)) for path in data.parent.rglob("*") if path.is_dir()}


def test_no_partition_of_such_a_name_is_made(brokers: Brokers) -> None:
    broker = brokers()
    with connect(broker) as client:
        client.create("honest")
        before = tree(broker.data)
        rows = [*((name, 0) for name in BAD), ("ok", -1), ("ok", PARTITIONS_MAX), ("honest-0/x", 0), ("good", 0)]
        errors = lead(client, broker, *rows)
        assert errors.pop(("good", 0)) == 0
        assert set(errors.values()) == {InvalidTopic.code}
        assert len(errors) == len(rows) - 1
        assert tree(broker.data) - before == {"data/good-0"}
        assert client.produce("honest", batch(b"x"), acks=1).responses[0].partitions[0].error_code == 0
        assert client.produce("good", batch(b"x"), acks=1).responses[0].partitions[0].error_code == 0
    told = "a controller names a partition that cannot be"
    eventually("a line for each", lambda: broker.output().count(told) == len(rows) - 1, facts=broker.output)
    assert "Traceback" not in broker.output()


def test_none_is_deleted(brokers: Brokers) -> None:
    broker = brokers()
    (broker.data.parent / "kept-0").mkdir()
    with connect(broker) as client:
        client.create("honest")
        names = [*BAD, "../kept"]
        topics = [
            StopReplicaTopicState(
                topic_name=name,
                partition_states=[StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)],
            )
            for name in [*names, "honest"]
        ]
        request = StopReplicaRequest(
            controller_id=broker.id, controller_epoch=EPOCH, broker_epoch=-1, topic_states=topics
        )
        answer = client.call(STOP_REPLICA, request, 3)
        found = {row.topic_name: row.error_code for row in answer.partition_errors}
        assert found.pop("honest") == 0
        assert set(found.values()) == {InvalidTopic.code}
        eventually("the end of the partition", lambda: not (broker.data / "honest-0").exists())
    assert (broker.data.parent / "kept-0").is_dir()


def test_none_is_told_to_clients(brokers: Brokers) -> None:
    broker = brokers()
    with connect(broker) as client:
        row = UpdateMetadataPartitionState(controller_epoch=EPOCH, leader=broker.id, replicas=[broker.id])
        topics = [UpdateMetadataTopicState(topic_name=name, partition_states=[row]) for name in [*BAD, "invented"]]
        known = client.call(METADATA, MetadataRequest(topics=None), 8).topics
        request = UpdateMetadataRequest(
            controller_id=broker.id, controller_epoch=EPOCH, broker_epoch=-1, topic_states=topics
        )
        assert client.call(UPDATE_METADATA, request, 6).error_code == 0
        told = client.call(METADATA, MetadataRequest(topics=None), 8).topics
        assert {topic.name for topic in told} - {topic.name for topic in known} == {"invented"}


@pytest.mark.parametrize("version", range(7))
def test_each_version_tells_clients_who_is_there(brokers: Brokers, version: int) -> None:
    """Before version 5 each state names its topic, before 3 a listener is called as its protocol, 0 knows one each."""
    broker = brokers()
    with connect(broker) as client:
        states = [
            UpdateMetadataPartitionState(
                topic_name=name if version < 5 else "", controller_epoch=EPOCH, leader=7, isr=[7], replicas=[7, 8]
            )
            for name in ("invented", "a b")
        ]
        topics = [
            UpdateMetadataTopicState(topic_name=name, partition_states=[state])
            for name, state in zip(("invented", "a b"), states, strict=True)
        ]
        listener = "PLAINTEXT" if version >= 3 else ""
        request = UpdateMetadataRequest(
            controller_id=7,
            controller_epoch=EPOCH,
            ungrouped_partition_states=states if version < 5 else [],
            topic_states=topics if version >= 5 else [],
            live_brokers=[
                UpdateMetadataBroker(id=number, v0_host=f"host-{number}", v0_port=number)
                if version == 0
                else UpdateMetadataBroker(
                    id=number, endpoints=[UpdateMetadataEndpoint(number, f"host-{number}", listener)], rack="r"
                )
                for number in (7, 8)
            ],
        )
        assert client.call(UPDATE_METADATA, request, version).error_code == 0
        told = client.call(METADATA, MetadataRequest(topics=None), 8)
        assert {(row.node_id, row.host, row.port) for row in told.brokers} == {(7, "host-7", 7), (8, "host-8", 8)}
        assert {row.rack for row in told.brokers} == {"r" if version >= 2 else ""}
        assert told.controller_id == 7
        (topic,) = [topic for topic in told.topics if topic.name in ("invented", "a b")]
        assert [(row.partition_index, row.leader_id, row.replica_nodes) for row in topic.partitions] == [(0, 7, [7, 8])]


def test_controllers_are_heard_where_brokers_are(brokers: Brokers) -> None:
    """With a listener of their own, clients cannot say that they are one."""
    clients, inside = free_port(), free_port()
    listeners = f"CLIENTS://127.0.0.1:{clients},INSIDE://127.0.0.1:{inside}"
    broker = brokers(
        port=clients,
        settings={
            "listeners": listeners,
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,INSIDE:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
        },
    )
    with connect(broker) as client:
        client.create("honest")
        client.produce("honest", batch(b"x"))
    for call in (
        lambda client: lead(client, broker, ("x", 0)),
        lambda client: client.call(STOP_REPLICA, StopReplicaRequest(controller_epoch=EPOCH, broker_epoch=-1), 3),
        lambda client: client.call(UPDATE_METADATA, UpdateMetadataRequest(controller_epoch=EPOCH, broker_epoch=-1), 6),
    ):
        with connect(broker) as client, pytest.raises((ConnectionLost, OSError)):
            call(client)
    told = "is for brokers, and taken on INSIDE only"
    eventually("a line says why", lambda: told in broker.output(), facts=broker.output)
    with Client.connect("127.0.0.1", inside, "broker") as client:
        assert lead(client, broker, ("x", 0)) == {("x", 0): 0}
    with connect(broker) as client:
        assert values(client.fetch("honest")) == [b"x"]


def test_controllers_are_heard_on_the_control_planes_listener(brokers: Brokers) -> None:
    ports = {"CLIENTS": free_port(), "INSIDE": free_port(), "CONTROL": free_port()}
    broker = brokers(
        port=ports["CLIENTS"],
        settings={
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in [*ports, "PLAINTEXT"]),
            "inter.broker.listener.name": "INSIDE",
            "control.plane.listener.name": "CONTROL",
        },
    )
    for name in ("CONTROL", "INSIDE"):
        with Client.connect("127.0.0.1", ports[name], "controller") as client:
            assert lead(client, broker, (name, 0)) == {(name, 0): 0}
    with connect(broker) as client, pytest.raises((ConnectionLost, OSError)):
        lead(client, broker, ("x", 0))
    told = "taken on CONTROL and INSIDE only"
    eventually("a line says why", lambda: told in broker.output(), facts=broker.output)


@pytest.mark.parametrize(("topic", "partition"), [("a/b", 0), ("..", 0), ("", 0), ("x" * 250, 0), ("a", -1)])
def test_the_log_directory_refuses_them_too(tmp_path: Path, topic: str, partition: int) -> None:
    """Below the door there is nothing that would let a name out of the directory."""
    (tmp_path / "data").mkdir()
    directory = LogDirectory.open(str(tmp_path / "data"))
    config = LogConfig()
    for act in (
        lambda: directory.create(topic, [partition], config),
        lambda: directory.create_future(topic, partition, config),
        lambda: directory.load(topic, partition, config),
        lambda: directory.begin_epochs({(topic, partition): 1}),
        lambda: directory.delete(topic, partition),
    ):
        with pytest.raises(InvalidTopic, match="there can be no partition"):
            act()
    assert directory.failure is None


def test_a_name_in_the_way_fails_one_request(tmp_path: Path) -> None:
    """The folder of a partition cannot be made: that says nothing about the disk."""
    (tmp_path / "data").mkdir()
    directory = LogDirectory.open(str(tmp_path / "data"))
    (tmp_path / "data" / "t-0").write_text("no folder")
    with pytest.raises(StorageError, match="t-0"):
        directory.create("t", [0], LogConfig())
    long = "y" * 249
    with pytest.raises(StorageError, match="File name too long"):
        directory.create(long, [1_234_567_890], LogConfig())
    assert directory.failure is None
    assert directory.create("u", [0], LogConfig())


def test_a_name_that_is_too_long_with_its_number_fails_alone(brokers: Brokers) -> None:
    """A topic's name may have 249 characters, and a folder's 255: partition 100,000 of such a topic has no folder."""
    broker, topic = brokers(), "x" * 249
    with connect(broker) as client:
        errors = lead(client, broker, (topic, 100_000), (topic, 99_999))
        assert errors == {(topic, 100_000): InvalidTopic.code, (topic, 99_999): 0}
        assert client.produce(topic, batch(b"v"), partition=99_999).responses[0].partitions[0].error_code == 0


def test_a_partition_has_so_many_replicas(brokers: Brokers) -> None:
    broker = brokers()
    many = [broker.id] * (REPLICAS_MAX + 1)
    state = UpdateMetadataPartitionState(partition_index=0, controller_epoch=EPOCH, replicas=many)
    topics = [UpdateMetadataTopicState(topic_name="t", partition_states=[state])]
    told = UpdateMetadataRequest(controller_id=broker.id, controller_epoch=EPOCH, broker_epoch=-1, topic_states=topics)
    with connect(broker) as client, pytest.raises((ConnectionLost, OSError)):
        client.call(UPDATE_METADATA, told, 6)
    led = LeaderAndIsrPartitionState(partition_index=0, controller_epoch=EPOCH, replicas=many)
    topics_led = [LeaderAndIsrTopicState(topic_name="t", partition_states=[led])]
    ordered = LeaderAndIsrRequest(
        controller_id=broker.id, controller_epoch=EPOCH, broker_epoch=-1, topic_states=topics_led
    )
    with connect(broker) as client, pytest.raises((ConnectionLost, OSError)):
        client.call(LEADER_AND_ISR, ordered, 4)
    assert "replicas of one partition are more than" in broker.output_tail()
