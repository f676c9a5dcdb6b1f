"""StopReplica: from the controller, which replicas to stop, and whether to delete them.

Version 0 lists partitions, 1 groups them by topic and carries the broker's epoch, 3 says per partition the leader
epoch and whether to delete (KIP-570).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import ITEMS_MAX, Api, Int16, Int32, Int64, Message, V


class StopReplicaPartitionV0(Message):
    topic_name: Annotated[str, V("0")] = ""
    partition_index: Annotated[Int32, V("0")] = 0


class StopReplicaTopicV1(Message):
    name: Annotated[str, V("1-2")] = ""
    partition_indexes: Annotated[list[Int32], V("1-2")] = []


class StopReplicaPartitionState(Message):
    partition_index: Annotated[Int32, V("3+")] = 0
    leader_epoch: Annotated[Int32, V("3+")] = -1
    delete_partition: Annotated[bool, V("3+")] = False


class StopReplicaTopicState(Message):
    topic_name: Annotated[str, V("3+")] = ""
    partition_states: Annotated[list[StopReplicaPartitionState], V("3+")] = []


class StopReplicaRequest(Message):
    controller_id: Int32 = 0
    controller_epoch: Int32 = 0
    broker_epoch: Annotated[Int64, V("1+", ignorable=True)] = -1
    delete_partitions: Annotated[bool, V("0-2")] = False
    ungrouped_partitions: Annotated[list[StopReplicaPartitionV0], V("0")] = []
    topics: Annotated[list[StopReplicaTopicV1], V("1-2")] = []
    topic_states: Annotated[list[StopReplicaTopicState], V("3+")] = []


class StopReplicaPartitionError(Message):
    topic_name: str = ""
    partition_index: Int32 = 0
    error_code: Int16 = 0


class StopReplicaResponse(Message):
    error_code: Int16 = 0
    partition_errors: list[StopReplicaPartitionError] = []


STOP_REPLICA = Api(
    5,
    "StopReplica",
    "0-3",
    flexible=2,
    request=StopReplicaRequest,
    response=StopReplicaResponse,
    items_max=ITEMS_MAX,
    is_between_brokers=True,
    has_quotas=False,
    needs="CLUSTER_ACTION on CLUSTER",
)
