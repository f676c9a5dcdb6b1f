"""Metadata: brokers, the controller, and the partitions of topics.

Version 1 asks for all topics with null (0 with an empty list), 4 says whether missing topics may be created, 7 brings
leader epochs, 8 the allowed operations (KIP-430).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Message, V

OPERATIONS_UNKNOWN = -(2**31)
"""The bit field of allowed operations when it was not asked for."""


class MetadataRequestTopic(Message):
    name: str = ""


class MetadataRequest(Message):
    topics: Annotated[list[MetadataRequestTopic] | None, V(nullable="1+")] = []
    allow_auto_topic_creation: Annotated[bool, V("4+")] = True
    include_cluster_authorized_operations: Annotated[bool, V("8+")] = False
    include_topic_authorized_operations: Annotated[bool, V("8+")] = False


class MetadataResponseBroker(Message):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, V("1+", nullable="1+", ignorable=True)] = None


class MetadataResponsePartition(Message):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, V("7+", ignorable=True)] = -1
    replica_nodes: list[Int32] = []
    isr_nodes: list[Int32] = []
    offline_replicas: Annotated[list[Int32], V("5+", ignorable=True)] = []


class MetadataResponseTopic(Message):
    error_code: Int16 = 0
    name: str = ""
    is_internal: Annotated[bool, V("1+", ignorable=True)] = False
    partitions: list[MetadataResponsePartition] = []
    topic_authorized_operations: Annotated[Int32, V("8+")] = OPERATIONS_UNKNOWN


class MetadataResponse(Message):
    throttle_time_ms: Annotated[Int32, V("3+", ignorable=True)] = 0
    brokers: list[MetadataResponseBroker] = []
    cluster_id: Annotated[str | None, V("2+", nullable="2+", ignorable=True)] = None
    controller_id: Annotated[Int32, V("1+", ignorable=True)] = -1
    topics: list[MetadataResponseTopic] = []
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
