"""AlterIsr: a leader tells the controller the new in-sync replicas of its partitions (KIP-497)."""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class AlterIsrRequestPartition(Message):
    partition_index: Int32 = 0
    leader_epoch: Int32 = 0
    new_isr: list[Int32] = []
    current_isr_version: Int32 = 0


class AlterIsrRequestTopic(Message):
    name: str = ""
    partitions: list[AlterIsrRequestPartition] = []


class AlterIsrRequest(Message):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: list[AlterIsrRequestTopic] = []


class AlterIsrResponsePartition(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = []
    current_isr_version: Int32 = 0


class AlterIsrResponseTopic(Message):
    name: str = ""
    partitions: list[AlterIsrResponsePartition] = []


class AlterIsrResponse(Message):
    throttle_time_ms: Int32 = 0
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
