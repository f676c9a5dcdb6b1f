"""ControlledShutdown: a broker asks the controller to move its leaderships away.

Version 0 has a request header without a client id, 2 carries the broker's epoch (KIP-380).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class ControlledShutdownRequest(Message):
    broker_id: Int32 = 0
    broker_epoch: Annotated[Int64, V("2+", ignorable=True)] = -1


class RemainingPartition(Message):
    topic_name: str = ""
    partition_index: Int32 = 0


class ControlledShutdownResponse(Message):
    error_code: Int16 = 0
    remaining_partitions: list[RemainingPartition] = []


CONTROLLED_SHUTDOWN = Api(
    7,
    "ControlledShutdown",
    "0-3",
    flexible=3,
    request=ControlledShutdownRequest,
    response=ControlledShutdownResponse,
    is_between_brokers=True,
    has_quotas=False,
    needs="CLUSTER_ACTION on CLUSTER",
)
