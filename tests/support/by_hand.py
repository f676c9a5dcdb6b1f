"""Changes that an operator makes to a cluster's tree by hand, and what clients see of a topic then."""

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient

from ottla.errors import UnknownTopicOrPartition
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic
from tests.support.client import Client, batch


@contextmanager
def shell(zookeeper: str) -> Iterator[KazooClient]:
    """A session of ZooKeeper whose paths begin at the chroot of `zookeeper`, which need not be there."""
    servers, _, chroot = zookeeper.partition("/")
    client = KazooClient(servers)
    client.start()
    client.chroot = f"/{chroot}"
    try:
        yield client
    finally:
        client.stop()
        client.close()


def exists(client: Client, topic: str) -> bool:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (row,) = client.call(METADATA, request).topics
    return row.error_code != UnknownTopicOrPartition.code


def produced(client: Client, topic: str, value: bytes) -> int:
    """The error code."""
    (row,) = client.produce(topic, batch(value)).responses[0].partitions
    return row.error_code
