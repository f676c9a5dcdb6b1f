"""`ottla.client` for programs without an event loop: the same classes and methods, without await.

    from ottla.client.sync import Cluster, Producer

    with Cluster("127.0.0.1:9092") as cluster, Producer(cluster) as producer:
        producer.send("greetings", b"hello")

One thread with one trio loop is behind all of it; `facade` says how. Objects may be used by several threads as far as
those of trio may be used by several tasks: producers and administrators yes, a consumer by one at a time. After a fork
the child makes its own. What callbacks are given runs in the thread that waits for the call.

`sync.pyi` has the signatures: `python -m ottla.client.sync_stub` writes it.
"""

from ottla.client import (
    acl_admin,
    admin,
    batches,
    cluster,
    cluster_admin,
    consumer,
    groups,
    producer,
    transaction_admin,
    transactional,
    user_admin,
)
from ottla.client.facade import facade

Cluster = facade(cluster.Cluster, opens_at_once=True)
Receipt = facade(batches.Receipt)
Producer = facade(producer.Producer)
TransactionalProducer = facade(transactional.TransactionalProducer)
Consumer = facade(consumer.Consumer)
ClusterAdmin = facade(cluster_admin.ClusterAdmin)
Groups = facade(groups.Groups)
TransactionAdmin = facade(transaction_admin.TransactionAdmin)
AclAdmin = facade(acl_admin.AclAdmin)
UserAdmin = facade(user_admin.UserAdmin)
Admin = facade(admin.Admin)

__all__ = [
    "AclAdmin",
    "Admin",
    "Cluster",
    "ClusterAdmin",
    "Consumer",
    "Groups",
    "Producer",
    "Receipt",
    "TransactionAdmin",
    "TransactionalProducer",
    "UserAdmin",
]
