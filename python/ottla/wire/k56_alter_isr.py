"""AlterIsr: a leader tells the controller the new in-sync replicas of its partitions (KIP-497).

Before inter.broker.protocol.version 2.7 leaders write them into the coordination tree themselves.
"""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class AlterIsrRequestPartition(Message):
    """The in-sync replicas that one partition is to have."""

    partition_index: Int32 = 0
    #: A lower one than the controller knows is FENCED_LEADER_EPOCH.
    leader_epoch: Int32 = 0
    #: All of them, not the difference.
    new_isr: list[Int32] = []
    #: The version of the partition's node that the leader knows. Another one is INVALID_UPDATE_VERSION: somebody else
    #: has changed it.
    current_isr_version: Int32 = 0


class AlterIsrRequestTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[AlterIsrRequestPartition] = []


class AlterIsrRequest(Message):
    """Changes for partitions of one leader."""

    #: The leader, which is the sender.
    broker_id: Int32 = 0
    #: The sender's life, as in LeaderAndIsr (KIP-380). Another one than the controller knows is STALE_BROKER_EPOCH.
    broker_epoch: Int64 = -1
    topics: list[AlterIsrRequestTopic] = []


class AlterIsrResponsePartition(Message):
    """The state of one partition that holds now."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    #: 0 after an error, as the fields below.
    leader_id: Int32 = 0
    #: Unchanged by this request.
    leader_epoch: Int32 = 0
    #: The one that was asked for, unless a replica was refused.
    isr: list[Int32] = []
    #: The version that the node has now, for the next request.
    current_isr_version: Int32 = 0


class AlterIsrResponseTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[AlterIsrResponsePartition] = []


class AlterIsrResponse(Message):
    """The results."""

    throttle_time_ms: Int32 = 0
    #: NOT_CONTROLLER or STALE_BROKER_EPOCH, without rows.
    error_code: Int16 = 0
    topics: list[AlterIsrResponseTopic] = []


#: A row for each partition that a broker leads, and each of its replicas: enough for 40,000 with three replicas.
_ITEMS_MAX = 200_000

ALTER_ISR = Api(
    56,
    "AlterIsr",
    "0",
    flexible=0,
    request=AlterIsrRequest,
    response=AlterIsrResponse,
    items_max=_ITEMS_MAX,
    is_between_brokers=True,
    has_quotas=False,
    needs="CLUSTER_ACTION on CLUSTER",
)
