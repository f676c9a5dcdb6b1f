"""Apache Kafka starts on a directory with notes beside logs and with logs that were put aside, and leaves them alone;
what was put aside is taken back after it.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.peers.apache import Apache
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client, batch, values
from tests.support.kafka_on_our_disk import start_kafka
from tests.support.lanes import judged_by
from tests.support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]
VERSIONS = ("2.7.2", "3.9.2")


def connected(port: int) -> Client:
    return Client.connect("127.0.0.1", port, "test")


def is_served(client: Client, topic: str) -> bool:
    ((answer,),) = [one.partition_responses for one in client.fetch(topic).responses]
    return answer.error_code == 0


def ottla(*arguments: str) -> str:
    command = [sys.executable, "-m", "ottla", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def topic_is_forgotten(zookeeper: str, topic: str) -> None:
    """By somebody's hand, while no broker runs: one that is made later is another topic."""
    tree = KazooClient(hosts=zookeeper)
    tree.start()
    tree.delete(f"/brokers/topics/{topic}", recursive=True)
    tree.stop()
    tree.close()


@pytest.mark.parametrize("version", judged_by(VERSIONS, VERSIONS[:1]))
def test_kafka_starts_beside_what_was_put_aside(
    kafka: Apache, brokers: Brokers, zookeeper: str, tmp_path: Path, version: str
) -> None:
    data = tmp_path / "data"

    def ours() -> Broker:
        return brokers(broker_id=1, zookeeper=zookeeper, data=data)

    broker = ours()
    with connected(broker.port) as client:
        for topic in ("again", "stays"):
            client.create(topic, 1)
            client.produce(topic, batch(b"old"))
    broker.stop()
    topic_is_forgotten(zookeeper, "again")
    broker = ours()
    with connected(broker.port) as client:
        client.create("again", 1)
        client.produce("again", batch(b"new"))
        assert values(client.fetch("again")) == [b"new"]
    broker.stop()
    aside = {path.name: path.read_bytes() for path in data.glob(".ottla-aside.*")}
    assert len(aside) > 3
    assert (data / "stays-0" / ".ottla_topic").exists()

    theirs = start_kafka(kafka, version, zookeeper, data)
    with connected(theirs.port) as client:
        for topic in ("again", "stays"):
            eventually(f"{topic} is served", lambda topic=topic: is_served(client, topic))  # type: ignore[misc]
        assert values(client.fetch("again")) == [b"new"]
        client.produce("again", batch(b"theirs"))
        assert values(client.fetch("stays")) == [b"old"]
    theirs.stop()
    assert {path.name: path.read_bytes() for path in data.glob(".ottla-aside.*")} == aside

    (row,) = map(json.loads, ottla("log", "aside", str(data), "--json").splitlines())
    assert (row["topic"], row["partition"], row["end_offset"]) == ("again", 0, 1)
    said = ottla("log", "take-back", str(data), row["id"], "--replace", "--yes")
    assert "again-0 has offsets 0 to 1" in said
    broker = ours()
    with connected(broker.port) as client:
        assert values(client.fetch("again")) == [b"old"]
        assert values(client.fetch("stays")) == [b"old"]
    broker.stop()
    (row,) = map(json.loads, ottla("log", "aside", str(data), "--json").splitlines())
    assert row["end_offset"] == 2
