"""UpdateMetadata: from the controller, what every broker answers to clients' Metadata requests.

Version 1 brings endpoints, 3 listener names, 4 offline replicas, 5 grouping by topic and the broker's epoch.

One field is Ottla's own, a tagged one, which other receivers skip (KIP-482): `away_ms`.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import ITEMS_MAX, OWN_TAGS, Api, Int16, Int32, Int64, Message, V


class UpdateMetadataPartitionState(Message):
    topic_name: Annotated[str, V("0-4", ignorable=True)] = ""
    partition_index: Int32 = 0
    controller_epoch: Int32 = 0
    leader: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = []
    zk_version: Int32 = 0
    replicas: list[Int32] = []
    offline_replicas: Annotated[list[Int32], V("4+", ignorable=True)] = []


class UpdateMetadataTopicState(Message):
    topic_name: Annotated[str, V("5+")] = ""
    partition_states: Annotated[list[UpdateMetadataPartitionState], V("5+")] = []


class UpdateMetadataEndpoint(Message):
    port: Annotated[Int32, V("1+")] = 0
    host: Annotated[str, V("1+")] = ""
    listener: Annotated[str, V("3+", ignorable=True)] = ""
    security_protocol: Annotated[Int16, V("1+")] = 0


class UpdateMetadataBroker(Message):
    id: Int32 = 0
    v0_host: Annotated[str, V("0", ignorable=True)] = ""
    v0_port: Annotated[Int32, V("0", ignorable=True)] = 0
    endpoints: Annotated[list[UpdateMetadataEndpoint], V("1+", ignorable=True)] = []
    rack: Annotated[str | None, V("2+", nullable="0+", ignorable=True)] = ""
    #: For how long yet clients are told of the broker, which is gone; 0: it lives.
    away_ms: Annotated[Int32, V("6+", tag=OWN_TAGS, ignorable=True)] = 0


class UpdateMetadataRequest(Message):
    controller_id: Int32 = 0
    controller_epoch: Int32 = 0
    broker_epoch: Annotated[Int64, V("5+", ignorable=True)] = -1
    ungrouped_partition_states: Annotated[list[UpdateMetadataPartitionState], V("0-4")] = []
    topic_states: Annotated[list[UpdateMetadataTopicState], V("5+")] = []
    live_brokers: list[UpdateMetadataBroker] = []


class UpdateMetadataResponse(Message):
    error_code: Int16 = 0


UPDATE_METADATA = Api(
    6,
    "UpdateMetadata",
    "0-6",
    flexible=6,
    request=UpdateMetadataRequest,
    response=UpdateMetadataResponse,
    items_max=ITEMS_MAX,
    is_between_brokers=True,
    has_quotas=False,
    needs="CLUSTER_ACTION on CLUSTER",
)
