"""LeaderAndIsr: from the controller, which replicas of a broker lead or follow whom.

Since version 2 partitions are grouped by topic.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import ITEMS_MAX, Api, Int16, Int32, Int64, Message, V


class LeaderAndIsrPartitionState(Message):
    """The role of one replica, with what is known of its partition."""

    #: Since version 2 it is in `LeaderAndIsrTopicState`.
    topic_name: Annotated[str, V("0-1", ignorable=True)] = ""
    partition_index: Int32 = 0
    #: Of the controller that made this state, which may be an earlier one than the sender.
    controller_epoch: Int32 = 0
    #: -1: there is none.
    leader: Int32 = 0
    #: Only a higher one than the broker knows has an effect; otherwise the answer is STALE_CONTROLLER_EPOCH.
    leader_epoch: Int32 = 0
    #: The in-sync replicas, from which the leader goes on.
    isr: list[Int32] = []
    #: The version of the partition's node in the coordination tree. The ISR is changed on condition of it.
    zk_version: Int32 = 0
    #: All that are assigned, those of a move included. A broker that is not among them answers
    #: UNKNOWN_TOPIC_OR_PARTITION.
    replicas: list[Int32] = []
    #: Those of `replicas` that are to be in sync before a move ends (KIP-455).
    adding_replicas: Annotated[list[Int32], V("3+", ignorable=True)] = []
    #: Those of `replicas` that go when a move ends (KIP-455).
    removing_replicas: Annotated[list[Int32], V("3+", ignorable=True)] = []
    #: True in a partition's first request. Kafka makes a log without it, too, but not while a log directory is offline,
    #: where it may be already.
    is_new: Annotated[bool, V("1+", ignorable=True)] = False


class LeaderAndIsrTopicState(Message):
    """Partitions of one topic."""

    topic_name: Annotated[str, V("2+")] = ""
    #: One for each partition in which this broker has a part to play.
    partition_states: Annotated[list[LeaderAndIsrPartitionState], V("2+")] = []


class LeaderAndIsrLiveLeader(Message):
    """The address of a leader, on the listener between brokers."""

    #: One of the leaders above.
    broker_id: Int32 = 0
    #: Not used by anybody, see `live_leaders`.
    host_name: str = ""
    port: Int32 = 0


class LeaderAndIsrRequest(Message):
    """New roles for one broker's replicas."""

    #: The sender. From now on the receiver takes it for the controller.
    controller_id: Int32 = 0
    #: Rises with each election of a controller. The answer to a former one is STALE_CONTROLLER_EPOCH.
    controller_epoch: Int32 = 0
    #: The life of the receiver that is meant: the czxid of its node under /brokers/ids (KIP-380). One of an earlier
    #: life is STALE_BROKER_EPOCH; -1, as in older versions, is not checked.
    broker_epoch: Annotated[Int64, V("2+", ignorable=True)] = -1
    #: Versions 0 and 1; then `topic_states`.
    ungrouped_partition_states: Annotated[list[LeaderAndIsrPartitionState], V("0-1")] = []
    #: Only what has changed, but all replicas of the broker if it or the controller is new.
    topic_states: Annotated[list[LeaderAndIsrTopicState], V("2+")] = []
    #: Still sent, and no longer read: followers know addresses from UpdateMetadata.
    live_leaders: list[LeaderAndIsrLiveLeader] = []


class LeaderAndIsrPartitionError(Message):
    """The result for one partition."""

    topic_name: str = ""
    partition_index: Int32 = 0
    error_code: Int16 = 0


class LeaderAndIsrResponse(Message):
    """The results; an error for all is without rows."""

    error_code: Int16 = 0
    #: One row for each partition of the request, with error code 0 if all is well.
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
