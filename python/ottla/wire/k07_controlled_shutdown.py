"""ControlledShutdown: a broker asks the controller to move its leaderships away.

Version 0 has a request header without a client id.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class ControlledShutdownRequest(Message):
    """A broker that is about to stop."""

    #: The sender.
    broker_id: Int32 = 0
    #: The sender's life, as in LeaderAndIsr (KIP-380). -1, as in older versions, is not checked.
    broker_epoch: Annotated[Int64, V("2+", ignorable=True)] = -1


class RemainingPartition(Message):
    """A partition that the broker still leads."""

    topic_name: str = ""
    partition_index: Int32 = 0


class ControlledShutdownResponse(Message):
    """The partitions that are left."""

    #: Whoever is not the controller answers STALE_CONTROLLER_EPOCH, as Kafka does, and not NOT_CONTROLLER.
    error_code: Int16 = 0
    #: Those whose other replicas are not in sync. While there are any, the broker asks again,
    #: controlled.shutdown.max.retries times, and then stops nevertheless.
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
