"""A client of Kafka's protocol: for brokers among themselves, for the command line, for Spark, and for whoever likes
trio.

| class                   | what                                                                                     |
|-------------------------|------------------------------------------------------------------------------------------|
| `Connection`            | one broker under trio: `await connection.call(METADATA, MetadataRequest(...))`           |
| `BlockingConnection`    | the same over a blocking socket                                                          |
| `Cluster`               | a bootstrap list, metadata, a connection per broker, retries                             |
| `Admin`                 | topics, records, settings, quotas; brokers, groups, transactions, users, rules from there |
| `ClusterAdmin`          | brokers and replicas: where they are, moving them, elections                             |
| `TransactionAdmin`      | transactions: who has which open, and ending one that hangs                              |
| `UserAdmin`             | users with SCRAM credentials: who there is, setting passwords, removing them             |
| `AclAdmin`              | access rules: which there are, adding and removing them                                  |
| `Producer`              | records out: batches, compression, Java's partitioner, each record once                  |
| `TransactionalProducer` | the same in transactions, also with other processes' decisions                           |
| `Consumer`              | records in, as a member of a group, or from partitions and places that are named         |
| `Security`              | TLS and SASL of the connections, by the names of the Java client's settings              |

`ottla.client.aio` has `Cluster`, `Admin`, both producers and `Consumer` for asyncio, and `ottla.client.sync` without
await.

Both connections drive `protocol.Protocol`, which has the state and no I/O.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ottla.kafka import EARLIEST, LATEST, TopicPartition

if TYPE_CHECKING:
    from ottla.client.acl_admin import AclAdmin
    from ottla.client.admin import Admin, Partition, Setting, Topic
    from ottla.client.batches import Delivered, Receipt
    from ottla.client.blocking import BlockingConnection
    from ottla.client.cluster import Address, Cluster
    from ottla.client.cluster_admin import ClusterAdmin
    from ottla.client.connection import Connection
    from ottla.client.consumer import ArrowBatch, At, Consumer, RebalanceListener, Record
    from ottla.client.errors import ConnectionLost, NotABroker, TlsFailed, UnknownHost
    from ottla.client.groups import Committed
    from ottla.client.membership import GroupMetadata
    from ottla.client.producer import Producer
    from ottla.client.security import Security
    from ottla.client.transaction_admin import TransactionAdmin
    from ottla.client.transactional import Prepared, TransactionalProducer, end_transaction
    from ottla.client.user_admin import UserAdmin

__all__ = [
    "EARLIEST",
    "LATEST",
    "AclAdmin",
    "Address",
    "Admin",
    "ArrowBatch",
    "At",
    "BlockingConnection",
    "Cluster",
    "ClusterAdmin",
    "Committed",
    "Connection",
    "ConnectionLost",
    "Consumer",
    "Delivered",
    "GroupMetadata",
    "NotABroker",
    "Partition",
    "Prepared",
    "Producer",
    "RebalanceListener",
    "Receipt",
    "Record",
    "Security",
    "Setting",
    "TlsFailed",
    "Topic",
    "TopicPartition",
    "TransactionAdmin",
    "TransactionalProducer",
    "UnknownHost",
    "UserAdmin",
    "end_transaction",
]

# Imported when first used: a broker needs nothing but connections, and its start is budgeted.
_FILES = {
    "AclAdmin": "acl_admin",
    "Address": "cluster",
    "Admin": "admin",
    "ArrowBatch": "consumer",
    "At": "consumer",
    "BlockingConnection": "blocking",
    "Cluster": "cluster",
    "ClusterAdmin": "cluster_admin",
    "Committed": "groups",
    "Connection": "connection",
    "ConnectionLost": "errors",
    "Consumer": "consumer",
    "Delivered": "batches",
    "GroupMetadata": "membership",
    "NotABroker": "errors",
    "Partition": "admin",
    "Prepared": "transactional",
    "Producer": "producer",
    "RebalanceListener": "consumer",
    "Receipt": "batches",
    "Record": "consumer",
    "Security": "security",
    "Setting": "admin",
    "TlsFailed": "errors",
    "Topic": "admin",
    "TransactionAdmin": "transaction_admin",
    "UserAdmin": "user_admin",
    "TransactionalProducer": "transactional",
    "UnknownHost": "errors",
    "end_transaction": "transactional",
}


def __getattr__(name: str) -> object:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"ottla.client.{_FILES[name]}"), name)
    globals()[name] = value
    return value
