"""DeleteTopics.

Only the controller does it. Version 3 knows TOPIC_DELETION_DISABLED, in place of which older ones get INVALID_REQUEST;
5 knows THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Message, V


class DeleteTopicsRequest(Message):
    """Topics to delete."""

    #: Their names.
    topic_names: list[str] = []
    #: How long the answer waits until they are gone. After that it is REQUEST_TIMED_OUT, but they are being deleted
    #: nevertheless.
    timeout_ms: Int32 = 0


class DeletableTopicResult(Message):
    """The result for one topic."""

    name: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None


class DeleteTopicsResponse(Message):
    """The results."""

    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    responses: list[DeletableTopicResult] = []


DELETE_TOPICS = Api(
    20,
    "DeleteTopics",
    "0-5",
    flexible=4,
    request=DeleteTopicsRequest,
    response=DeleteTopicsResponse,
    needs="DELETE on TOPIC",
)
