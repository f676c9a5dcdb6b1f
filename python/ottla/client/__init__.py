"""A client of Kafka's protocol: for brokers among themselves, for the command line, for Spark, and for whoever likes
trio.

| class                | what                                                                                     |
|----------------------|------------------------------------------------------------------------------------------|
| `Connection`         | one broker under trio: `await connection.call(METADATA, MetadataRequest(...))`           |
| `BlockingConnection` | the same over a blocking socket                                                          |
| `Cluster`            | a bootstrap list, metadata, a connection per broker, retries                             |
| `Admin`              | topics and their settings                                                                |

Both connections drive `protocol.Protocol`, which has the state and no I/O.
"""

from ottla.client.admin import Admin, Partition, Setting, Topic
from ottla.client.blocking import BlockingConnection
from ottla.client.cluster import Address, Cluster, TopicPartition
from ottla.client.connection import Connection
from ottla.client.errors import ConnectionLost

__all__ = [
    "Address",
    "Admin",
    "BlockingConnection",
    "Cluster",
    "Connection",
    "ConnectionLost",
    "Partition",
    "Setting",
    "Topic",
    "TopicPartition",
]
