"""OffsetFetch: how far a group has read, as committed.

Version 0 reads the coordination tree, all others what is in __consumer_offsets.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class OffsetFetchRequestTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    partition_indexes: list[Int32] = []


class OffsetFetchRequest(Message):
    """Partitions whose offsets are asked for."""

    group_id: str = ""
    #: Null asks for all that the group has committed.
    topics: Annotated[list[OffsetFetchRequestTopic] | None, V(nullable="2+")] = []
    #: While a transaction has offsets pending, their partition is answered UNSTABLE_OFFSET_COMMIT, and the client asks
    #: again (KIP-447). Otherwise the offset of before is told.
    require_stable: Annotated[bool, V("7+")] = False


class OffsetFetchResponsePartition(Message):
    """The committed offset of one partition."""

    partition_index: Int32 = 0
    #: -1: there is none. That is no error, except in version 0 (UNKNOWN_TOPIC_OR_PARTITION).
    committed_offset: Int64 = 0
    #: As it was committed, -1 for none (KIP-320).
    committed_leader_epoch: Annotated[Int32, V("5+", ignorable=True)] = -1
    #: As it was committed; "" where there was none.
    metadata: Annotated[str | None, V(nullable="0+")] = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[OffsetFetchResponsePartition] = []


class OffsetFetchResponse(Message):
    """The committed offsets."""

    throttle_time_ms: Annotated[Int32, V("3+", ignorable=True)] = 0
    topics: list[OffsetFetchResponseTopic] = []
    #: An error of the group, without rows. Versions 0 and 1 have it in each row.
    error_code: Annotated[Int16, V("2+", ignorable=True)] = 0


OFFSET_FETCH = Api(
    9,
    "OffsetFetch",
    "0-7",
    flexible=6,
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
    needs="DESCRIBE on GROUP, DESCRIBE on TOPIC",
)
