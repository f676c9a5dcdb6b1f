"""ElectLeaders: makes preferred, or since version 1 any, replicas leaders (KIP-460). Null asks for all partitions."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int8, Int16, Int32, Message, V


class TopicPartitions(Message):
    topic: str = ""
    partition_id: list[Int32] = []


class ElectLeadersRequest(Message):
    election_type: Annotated[Int8, V("1+")] = 0
    """0 preferred, 1 unclean."""
    topic_partitions: Annotated[list[TopicPartitions] | None, V(nullable="0+")] = []
    timeout_ms: Int32 = 60_000


class PartitionResult(Message):
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""


class ReplicaElectionResult(Message):
    topic: str = ""
    partition_result: list[PartitionResult] = []


class ElectLeadersResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, V("1+")] = 0
    replica_election_results: list[ReplicaElectionResult] = []


ELECT_LEADERS = Api(
    43,
    "ElectLeaders",
    "0-2",
    flexible=2,
    request=ElectLeadersRequest,
    response=ElectLeadersResponse,
    needs="ALTER on CLUSTER",
)
