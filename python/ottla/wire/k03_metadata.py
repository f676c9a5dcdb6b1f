"""Metadata: brokers, the controller, and the partitions of topics.

Any broker answers, with what it last heard from the controller. Since version 6 a leader that has no address on the
client's listener is LISTENER_NOT_FOUND instead of LEADER_NOT_AVAILABLE.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Message, V

OPERATIONS_UNKNOWN = -(2**31)
"""The bit field of allowed operations when it was not asked for."""


class MetadataRequestTopic(Message):
    """A topic that is asked for."""

    name: str = ""


class MetadataRequest(Message):
    """Topics that are asked for. Brokers and the controller are always answered."""

    #: Null asks for all, an empty list for none. In version 0 an empty list asks for all.
    topics: Annotated[list[MetadataRequestTopic] | None, V(nullable="1+")] = []
    #: If true, and so in older versions, missing topics are made where auto.create.topics.enable is true, too; internal
    #: ones in any case. The client is answered LEADER_NOT_AVAILABLE, and asks again.
    allow_auto_topic_creation: Annotated[bool, V("4+")] = True
    #: Asks for the bits below, which take time to find out (KIP-430).
    include_cluster_authorized_operations: Annotated[bool, V("8+")] = False
    #: The same for each topic (KIP-430).
    include_topic_authorized_operations: Annotated[bool, V("8+")] = False


class MetadataResponseBroker(Message):
    """A broker's address on the listener through which the request came."""

    #: Its broker.id.
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    #: Its broker.rack; null without one (KIP-36).
    rack: Annotated[str | None, V("1+", nullable="1+", ignorable=True)] = None


class MetadataResponsePartition(Message):
    """A partition and its replicas."""

    #: LEADER_NOT_AVAILABLE and LISTENER_NOT_FOUND still come with the replicas.
    error_code: Int16 = 0
    partition_index: Int32 = 0
    #: -1 without a leader, or if this listener does not lead to it.
    leader_id: Int32 = 0
    #: Rises with each change of the leader. Clients refuse to go back to older metadata by it (KIP-320). -1: not known.
    leader_epoch: Annotated[Int32, V("7+", ignorable=True)] = -1
    #: Those that are assigned, the preferred leader first. Version 0 leaves out whoever is not alive.
    replica_nodes: list[Int32] = []
    #: Replicas that have all that the leader has committed.
    isr_nodes: list[Int32] = []
    #: Replicas on brokers that are down or on broken disks (KIP-112).
    offline_replicas: Annotated[list[Int32], V("5+", ignorable=True)] = []


class MetadataResponseTopic(Message):
    """A topic and its partitions."""

    #: UNKNOWN_TOPIC_OR_PARTITION comes without partitions, and so do errors of a creation that was tried.
    error_code: Int16 = 0
    name: str = ""
    #: True for __consumer_offsets and __transaction_state.
    is_internal: Annotated[bool, V("1+", ignorable=True)] = False
    #: In no order that clients may rely on.
    partitions: list[MetadataResponsePartition] = []
    #: One bit for each AclOperation, at the place of its number. `OPERATIONS_UNKNOWN` if it was not asked for.
    topic_authorized_operations: Annotated[Int32, V("8+")] = OPERATIONS_UNKNOWN


class MetadataResponse(Message):
    """The cluster as one broker sees it."""

    throttle_time_ms: Annotated[Int32, V("3+", ignorable=True)] = 0
    #: Those that are alive, and of Ottla's for a while those that have just gone (`away_ms` in UpdateMetadata). A
    #: broker without this listener is left out.
    brokers: list[MetadataResponseBroker] = []
    #: 22 characters, made once with the cluster (KIP-78). Clients use it to notice that they are elsewhere.
    cluster_id: Annotated[str | None, V("2+", nullable="2+", ignorable=True)] = None
    #: -1 if this broker knows none. Administrators send to it what only the controller does.
    controller_id: Annotated[Int32, V("1+", ignorable=True)] = -1
    #: Where all were asked for, topics that the client may not describe are left out without an error.
    topics: list[MetadataResponseTopic] = []
    #: The same bits for the cluster. Newer clients find them through DescribeCluster.
    cluster_authorized_operations: Annotated[Int32, V("8+")] = OPERATIONS_UNKNOWN


METADATA = Api(
    3,
    "Metadata",
    "0-9",
    flexible=9,
    request=MetadataRequest,
    response=MetadataResponse,
    # The second is for a topic that does not exist, and is made if it may be.
    needs="DESCRIBE on TOPIC, CREATE on CLUSTER or CREATE on TOPIC",
)
