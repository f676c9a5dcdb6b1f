"""ElectLeaders: makes preferred replicas leaders, or since version 1 any (KIP-460).

Only the controller does it. Version 0 was called ElectPreferredLeaders (KIP-183).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int8, Int16, Int32, Message, V


class TopicPartitions(Message):
    """Partitions of one topic."""

    topic: str = ""
    #: Several, despite its name.
    partition_id: list[Int32] = []


class ElectLeadersRequest(Message):
    """Partitions that are to have other leaders."""

    #: 0, preferred: the first replica, if it is in sync. 1, unclean: where there is no leader a replica that is in
    #: sync, or else the first that is alive, whatever records it lacks. Version 0 means 0.
    election_type: Annotated[Int8, V("1+")] = 0
    #: Null asks for all partitions.
    topic_partitions: Annotated[list[TopicPartitions] | None, V(nullable="0+")] = []
    #: How long the answer waits until the new leaders are known. After that it is REQUEST_TIMED_OUT.
    timeout_ms: Int32 = 60_000


class PartitionResult(Message):
    """The result for one partition."""

    partition_id: Int32 = 0
    #: ELECTION_NOT_NEEDED where all is well already, PREFERRED_LEADER_NOT_AVAILABLE or ELIGIBLE_LEADERS_NOT_AVAILABLE
    #: where nobody can lead.
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""


class ReplicaElectionResult(Message):
    """Partitions of one topic."""

    topic: str = ""
    #: Several, despite its name.
    partition_result: list[PartitionResult] = []


class ElectLeadersResponse(Message):
    """The results."""

    throttle_time_ms: Int32 = 0
    #: Of the request; version 0 has it in each row.
    error_code: Annotated[Int16, V("1+")] = 0
    #: Where all were asked for, partitions that need no election are left out.
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
