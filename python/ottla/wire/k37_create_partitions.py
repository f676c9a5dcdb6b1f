"""CreatePartitions: more partitions for a topic (KIP-195).

Only the controller does it. Records stay where they are, so that keys map to other partitions from then on. Version 3
knows THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import ASSIGNMENT_ITEMS_MAX, Api, Int16, Int32, Message, V


class CreatePartitionsAssignment(Message):
    """The brokers of one new partition, chosen by hand."""

    #: The first is the preferred leader.
    broker_ids: list[Int32] = []


class CreatePartitionsTopic(Message):
    """A topic that is to grow."""

    name: str = ""
    #: How many partitions it is to have in all. Not more than it has is INVALID_PARTITIONS.
    count: Int32 = 0
    #: One for each new partition, in order. Null: the controller chooses.
    assignments: Annotated[list[CreatePartitionsAssignment] | None, V(nullable="0+")] = []


class CreatePartitionsRequest(Message):
    """Topics that are to grow."""

    #: A topic that is named twice is refused; the others grow.
    topics: list[CreatePartitionsTopic] = []
    #: How long the answer waits until all partitions have leaders. After that it is REQUEST_TIMED_OUT, but they are
    #: being made nevertheless.
    timeout_ms: Int32 = 0
    #: True: everything is checked, and nothing made.
    validate_only: bool = False


class CreatePartitionsTopicResult(Message):
    """The result for one topic."""

    name: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None


class CreatePartitionsResponse(Message):
    """The results."""

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = []


CREATE_PARTITIONS = Api(
    37,
    "CreatePartitions",
    "0-3",
    flexible=2,
    request=CreatePartitionsRequest,
    response=CreatePartitionsResponse,
    items_max=ASSIGNMENT_ITEMS_MAX,
    needs="ALTER on TOPIC",
)
