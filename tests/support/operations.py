"""Requests of administrators to a broker, in one line each."""

from ottla.wire.k02_list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.k21_delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.support.client import Client

EARLIEST = -2


def delete(client: Client, topic: str, offset: int, *, partition: int = 0, version: int = 2) -> tuple[int, int]:
    """(error code, low watermark)"""
    rows = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=rows)], timeout_ms=60_000)
    ((row,),) = [topic.partitions for topic in client.call(DELETE_RECORDS, request, version).topics]
    return row.error_code, row.low_watermark


def list_offset(client: Client, topic: str, timestamp: int, **options: int) -> ListOffsetsPartitionResponse:
    version = options.pop("version", 5)
    replica_id = options.pop("replica_id", -1)
    row = ListOffsetsPartition(partition_index=0, timestamp=timestamp, **options)
    request = ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name=topic, partitions=[row])])
    return client.call(LIST_OFFSETS, request, version).topics[0].partitions[0]
