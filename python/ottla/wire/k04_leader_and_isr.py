"""LeaderAndIsr: from the controller, which replicas of a broker lead or follow whom.

Version 1 marks new replicas, 2 groups partitions by topic and carries the broker's epoch, 3 the replicas that a
reassignment adds and removes (KIP-455).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import ITEMS_MAX, Api, Int16, Int32, Int64, Message, V


class LeaderAndIsrPartitionState(Message):
    topic_name: Annotated[str, V("0-1", ignorable=True)] = ""
    partition_index: Int32 = 0
    controller_epoch: Int32 = 0
    leader: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = []
    zk_version: Int32 = 0
    replicas: list[Int32] = []
    adding_replicas: Annotated[list[Int32], V("3+", ignorable=True)] = []
    removing_replicas: Annotated[list[Int32], V("3+", ignorable=True)] = []
    is_new: Annotated[bool, V("1+", ignorable=True)] = False


class LeaderAndIsrTopicState(Message):
    topic_name: Annotated[str, V("2+")] = ""
    partition_states: Annotated[list[LeaderAndIsrPartitionState], V("2+")] = []


class LeaderAndIsrLiveLeader(Message):
    broker_id: Int32 = 0
    host_name: str = ""
    port: Int32 = 0


class LeaderAndIsrRequest(Message):
    controller_id: Int32 = 0
    controller_epoch: Int32 = 0
    broker_epoch: Annotated[Int64, V("2+", ignorable=True)] = -1
    ungrouped_partition_states: Annotated[list[LeaderAndIsrPartitionState], V("0-1")] = []
    topic_states: Annotated[list[LeaderAndIsrTopicState], V("2+")] = []
    live_leaders: list[LeaderAndIsrLiveLeader] = []


class LeaderAndIsrPartitionError(Message):
    topic_name: str = ""
    partition_index: Int32 = 0
    error_code: Int16 = 0


class LeaderAndIsrResponse(Message):
    error_code: Int16 = 0
    partition_errors: list[LeaderAndIsrPartitionError] = []


LEADER_AND_ISR = Api(
    4,
    "LeaderAndIsr",
    "0-4",
    flexible=4,
    request=LeaderAndIsrRequest,
    response=LeaderAndIsrResponse,
    items_max=ITEMS_MAX,
    is_between_brokers=True,
    has_quotas=False,
    needs="CLUSTER_ACTION on CLUSTER",
)
