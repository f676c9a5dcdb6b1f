"""StopReplica: from the controller, which replicas to stop, and whether to delete them.

Version 1 groups partitions by topic; 3 tells of each by itself (KIP-570).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import ITEMS_MAX, Api, Int16, Int32, Int64, Message, V


class StopReplicaPartitionV0(Message):
    """A replica that is to stop."""

    #: Version 0 repeats it in each row.
    topic_name: Annotated[str, V("0")] = ""
    partition_index: Annotated[Int32, V("0")] = 0


class StopReplicaTopicV1(Message):
    """Replicas that are to stop, of one topic."""

    name: Annotated[str, V("1-2")] = ""
    partition_indexes: Annotated[list[Int32], V("1-2")] = []


class StopReplicaPartitionState(Message):
    """A replica that is to stop."""

    partition_index: Annotated[Int32, V("3+")] = 0
    #: Has to be higher than the broker knows, or the answer is FENCED_LEADER_EPOCH, so that a late request stops no
    #: replica that is wanted again (KIP-570). -2, of a topic that is deleted, always holds; -1 is not checked. Here the
    #: same epoch stops a follower of a broker that is leaving.
    leader_epoch: Annotated[Int32, V("3+")] = -1
    #: True: its files go, too.
    delete_partition: Annotated[bool, V("3+")] = False


class StopReplicaTopicState(Message):
    """Replicas that are to stop, of one topic."""

    topic_name: Annotated[str, V("3+")] = ""
    #: One for each partition.
    partition_states: Annotated[list[StopReplicaPartitionState], V("3+")] = []


class StopReplicaRequest(Message):
    """Replicas of one broker that are to stop."""

    #: As in LeaderAndIsr.
    controller_id: Int32 = 0
    #: As in LeaderAndIsr.
    controller_epoch: Int32 = 0
    #: As in LeaderAndIsr (KIP-380).
    broker_epoch: Annotated[Int64, V("1+", ignorable=True)] = -1
    #: For all of them; since version 3 each has `delete_partition`, and one request may do both.
    delete_partitions: Annotated[bool, V("0-2")] = False
    #: Version 0; then `topics`.
    ungrouped_partitions: Annotated[list[StopReplicaPartitionV0], V("0")] = []
    #: Versions 1 and 2; then `topic_states`.
    topics: Annotated[list[StopReplicaTopicV1], V("1-2")] = []
    #: Since version 3, where each partition is told of by itself.
    topic_states: Annotated[list[StopReplicaTopicState], V("3+")] = []


class StopReplicaPartitionError(Message):
    """The result for one partition."""

    topic_name: str = ""
    partition_index: Int32 = 0
    error_code: Int16 = 0


class StopReplicaResponse(Message):
    """The results; an error for all is without rows."""

    error_code: Int16 = 0
    #: One row for each partition, with error code 0 if all is well.
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
