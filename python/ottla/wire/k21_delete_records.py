"""DeleteRecords: moves the log start offset up to an offset; -1 is the high watermark."""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class DeleteRecordsPartition(Message):
    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(Message):
    name: str = ""
    partitions: list[DeleteRecordsPartition] = []


class DeleteRecordsRequest(Message):
    topics: list[DeleteRecordsTopic] = []
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(Message):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Message):
    name: str = ""
    partitions: list[DeleteRecordsPartitionResult] = []


class DeleteRecordsResponse(Message):
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
