"""WriteTxnMarkers: from a transaction coordinator, the ends of transactions to write into partitions.

Version 1 is flexible, and later than 2.7: newer tools abort hanging transactions with it.
"""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class WritableTxnMarkerTopic(Message):
    name: str = ""
    partition_indexes: list[Int32] = []


class WritableTxnMarker(Message):
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: bool = False
    """True commits, False aborts."""
    topics: list[WritableTxnMarkerTopic] = []
    coordinator_epoch: Int32 = 0


class WriteTxnMarkersRequest(Message):
    markers: list[WritableTxnMarker] = []


class WritableTxnMarkerPartitionResult(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(Message):
    name: str = ""
    partitions: list[WritableTxnMarkerPartitionResult] = []


class WritableTxnMarkerResult(Message):
    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = []


class WriteTxnMarkersResponse(Message):
    markers: list[WritableTxnMarkerResult] = []


WRITE_TXN_MARKERS = Api(
    27,
    "WriteTxnMarkers",
    "0-1",
    flexible=1,
    request=WriteTxnMarkersRequest,
    response=WriteTxnMarkersResponse,
    has_quotas=False,
    needs="CLUSTER_ACTION on CLUSTER",
)
