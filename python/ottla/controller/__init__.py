"""The controller, a broker's registration, and what any broker may do through the tree.

What a broker does with it, in this order, whatever keeps the tree (`EmbeddedTree.open(path)` or
`ZooKeeperTree.connect(servers)`):

    await prepare(tree)                                   # the nodes that a cluster always has
    cluster_id = await get_or_create_cluster_id(tree)     # must equal meta.properties
    # listen first: the controller connects as soon as it sees the registration
    registration = Registration(tree, broker_id, describe, on_epoch=...)   # describe() -> BrokerRegistration
    await registration.register()                         # the broker epoch; AlreadyRegistered if the id is taken
    controller = Controller(tree, broker_id, listener="PLAINTEXT", registration=registration)
    nursery.start_soon(controller.run)                    # elects itself, or waits until it can; and registers again
                                                          # after every expired session
    await nursery.start(watch_config_changes, tree, on_change, read_all)   # async on_change(type, name), read_all()
    ...
    await tree.aclose()                                   # before exit, so that the registration is gone

The controller then sends LeaderAndIsr 4, UpdateMetadata 6 and StopReplica 3 over a connection to the listener named, to
this broker as to any other. Refuse with STALE_CONTROLLER_EPOCH what has a smaller controller epoch than one seen
before, and with STALE_BROKER_EPOCH what has a smaller broker epoch than `registration.epoch`. StopReplica with a leader
epoch of -2 is for a topic that is being deleted, or was removed by hand (then without deletion); UpdateMetadata with
leader -2 removes a partition from the metadata.

Admin functions, for any broker: `create_topics`, `create_topic`, `delete_topics`, `create_partitions`,
`set_topic_config`, `set_config`, `get_config`, `broker_racks`; producer ids: `await ProducerIds(tree,
broker_id).next()`.

`Controller.is_active`, `.epoch` and `.active_id` tell who is the controller; a broker's clients are told what
UpdateMetadata said.
"""

from ottla.controller.assignment import Assignment, assign
from ottla.controller.config_changes import watch_config_changes
from ottla.controller.configs import get_config, notify_config_change, set_config, set_topic_config
from ottla.controller.controller import Controller
from ottla.controller.names import CollidingNames, check_name
from ottla.controller.producer_ids import ProducerIds
from ottla.controller.registration import AlreadyRegistered, Registration, get_or_create_cluster_id, prepare
from ottla.controller.topic_changes import (
    NewTopic,
    broker_racks,
    create_partitions,
    create_topic,
    create_topics,
    delete_topics,
)

__all__ = [
    "AlreadyRegistered",
    "Assignment",
    "CollidingNames",
    "Controller",
    "NewTopic",
    "ProducerIds",
    "Registration",
    "assign",
    "broker_racks",
    "check_name",
    "create_partitions",
    "create_topic",
    "create_topics",
    "delete_topics",
    "get_config",
    "get_or_create_cluster_id",
    "notify_config_change",
    "prepare",
    "set_config",
    "set_topic_config",
    "watch_config_changes",
]
