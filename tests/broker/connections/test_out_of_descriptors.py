"""A topic that is made while no descriptors are left is there as soon as there are some."""

import resource
from pathlib import Path

from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic
from tests.peers.ottla import Brokers
from tests.support.client import Client, batch, connect, values
from tests.support.waiting import eventually

PARTITIONS = 20


def led(client: Client, topic: str) -> list[bool]:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    return [row.leader_id >= 0 for row in client.call(METADATA, asked).topics[0].partitions]


def test_a_topic_gets_its_leaders_when_there_are_descriptors_again(brokers: Brokers) -> None:
    broker = brokers()
    pid = broker.process.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with connect(broker) as client:
        client.create("before")
        # No more than are open. Numbers below the highest may be free: fewer than the topic needs.
        highest = max(int(found.name) for found in Path(f"/proc/{pid}/fd").iterdir())
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1, limits[1]))
        client.create("t", PARTITIONS)
        eventually("logs cannot be made", lambda: "cannot use the log of" in broker.output())
        eventually("no leaders", lambda: not all(led(client, "t")))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        eventually("leaders", lambda: led(client, "t") == [True] * PARTITIONS)
        for partition in range(PARTITIONS):
            answer = client.produce("t", batch(b"v"), partition=partition)
            assert answer.responses[0].partitions[0].error_code == 0
            assert values(client.fetch("t", partition=partition)) == [b"v"]
        assert values(client.fetch("before")) == []
    assert "Traceback" not in broker.output()
