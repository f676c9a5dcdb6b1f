"""OffsetFetch: how far a group has read, as committed.

Version 2 asks for all topics with null, 5 brings leader epochs, 7 can insist on settled transactions (KIP-447).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class OffsetFetchRequestTopic(Message):
    name: str = ""
    partition_indexes: list[Int32] = []


class OffsetFetchRequest(Message):
    group_id: str = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, V(nullable="2+")] = []
    require_stable: Annotated[bool, V("7+")] = False


class OffsetFetchResponsePartition(Message):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, V("5+", ignorable=True)] = -1
    metadata: Annotated[str | None, V(nullable="0+")] = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopic(Message):
    name: str = ""
    partitions: list[OffsetFetchResponsePartition] = []


class OffsetFetchResponse(Message):
    throttle_time_ms: Annotated[Int32, V("3+", ignorable=True)] = 0
    topics: list[OffsetFetchResponseTopic] = []
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
