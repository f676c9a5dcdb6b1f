"""UpdateMetadata: from the controller, what every broker answers to clients' Metadata requests.

Since version 5 partitions are grouped by topic. One field is Ottla's own, a tagged one, which other receivers skip
(KIP-482): `away_ms`.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import ITEMS_MAX, OWN_TAGS, Api, Int16, Int32, Int64, Message, V


class UpdateMetadataPartitionState(Message):
    """A partition as clients are to be told of it."""

    #: Since version 5 it is in `UpdateMetadataTopicState`.
    topic_name: Annotated[str, V("0-4", ignorable=True)] = ""
    partition_index: Int32 = 0
    #: Of the controller that made this state.
    controller_epoch: Int32 = 0
    #: -1: there is none. -2: the topic is being deleted, and the receiver forgets the partition.
    leader: Int32 = 0
    #: Clients are told of it since Metadata 7 (KIP-320).
    leader_epoch: Int32 = 0
    #: The in-sync replicas.
    isr: list[Int32] = []
    #: As in LeaderAndIsr. Kafka keeps it with the rest and asks nothing of it.
    zk_version: Int32 = 0
    #: All that are assigned, the preferred leader first.
    replicas: list[Int32] = []
    #: Those on brokers that are down or on broken disks (KIP-112).
    offline_replicas: Annotated[list[Int32], V("4+", ignorable=True)] = []


class UpdateMetadataTopicState(Message):
    """Partitions of one topic."""

    topic_name: Annotated[str, V("5+")] = ""
    #: One for each partition that has changed.
    partition_states: Annotated[list[UpdateMetadataPartitionState], V("5+")] = []


class UpdateMetadataEndpoint(Message):
    """A broker's address on one listener."""

    port: Annotated[Int32, V("1+")] = 0
    host: Annotated[str, V("1+")] = ""
    #: The listener's name (KIP-103). In versions 1 and 2 it is called as its security protocol.
    listener: Annotated[str, V("3+", ignorable=True)] = ""
    #: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
    security_protocol: Annotated[Int16, V("1+")] = 0


class UpdateMetadataBroker(Message):
    """A broker and its addresses."""

    #: Its broker.id.
    id: Int32 = 0
    #: Version 0 knows one listener only, with PLAINTEXT.
    v0_host: Annotated[str, V("0", ignorable=True)] = ""
    #: Of the same listener.
    v0_port: Annotated[Int32, V("0", ignorable=True)] = 0
    #: One for each listener. A client is told of the listener that it came through.
    endpoints: Annotated[list[UpdateMetadataEndpoint], V("1+", ignorable=True)] = []
    #: Its broker.rack; null without one (KIP-36).
    rack: Annotated[str | None, V("2+", nullable="0+", ignorable=True)] = ""
    #: For how long yet clients are told of the broker, which is gone; 0: it lives.
    away_ms: Annotated[Int32, V("6+", tag=OWN_TAGS, ignorable=True)] = 0


class UpdateMetadataRequest(Message):
    """The brokers, and news of partitions."""

    #: The sender, whom clients are told of as the controller.
    controller_id: Int32 = 0
    #: As in LeaderAndIsr.
    controller_epoch: Int32 = 0
    #: As in LeaderAndIsr (KIP-380).
    broker_epoch: Annotated[Int64, V("5+", ignorable=True)] = -1
    #: Versions 0 to 4; then `topic_states`.
    ungrouped_partition_states: Annotated[list[UpdateMetadataPartitionState], V("0-4")] = []
    #: Only what has changed; empty if no more than the brokers has. What is not named stays as it was.
    topic_states: Annotated[list[UpdateMetadataTopicState], V("5+")] = []
    #: Always all of them: whoever is missing is down.
    live_brokers: list[UpdateMetadataBroker] = []


class UpdateMetadataResponse(Message):
    """The receiver has taken it in, or why not."""

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
