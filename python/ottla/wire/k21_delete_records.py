"""DeleteRecords: moves the log start offset of partitions up, so that nothing before it is read again (KIP-107)."""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class DeleteRecordsPartition(Message):
    """A partition, and from where on its records stay."""

    partition_index: Int32 = 0
    #: The first offset that stays; -1 for the high watermark, which deletes all that can be read. Beyond it is
    #: OFFSET_OUT_OF_RANGE.
    offset: Int64 = 0


class DeleteRecordsTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[DeleteRecordsPartition] = []


class DeleteRecordsRequest(Message):
    """Partitions whose oldest records are to go."""

    topics: list[DeleteRecordsTopic] = []
    #: How long the answer waits for the replicas that are alive. After that it is REQUEST_TIMED_OUT, but the leader has
    #: moved its start.
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(Message):
    """The result for one partition."""

    partition_index: Int32 = 0
    #: The lowest log start offset of the replicas that are alive; -1 after an error.
    low_watermark: Int64 = 0
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[DeleteRecordsPartitionResult] = []


class DeleteRecordsResponse(Message):
    """The results."""

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = []


DELETE_RECORDS = Api(
    21,
    "DeleteRecords",
    "0-2",
    flexible=2,
    request=DeleteRecordsRequest,
    response=DeleteRecordsResponse,
    needs="DELETE on TOPIC",
)
