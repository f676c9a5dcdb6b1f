"""WriteTxnMarkers: from a transaction coordinator, the ends of transactions to write into partitions.

Version 1 is flexible, and later than 2.7: newer tools abort hanging transactions with it.
"""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class WritableTxnMarkerTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    partition_indexes: list[Int32] = []


class WritableTxnMarker(Message):
    """The end of one transaction."""

    #: Whose transaction ends.
    producer_id: Int64 = 0
    #: A lower one than the partition has seen is INVALID_PRODUCER_EPOCH. The marker raises the partition's, and so
    #: fences the producer that a coordinator gave up.
    producer_epoch: Int16 = 0
    #: True commits, False aborts.
    transaction_result: bool = False
    #: All partitions of the transaction that the receiver leads.
    topics: list[WritableTxnMarkerTopic] = []
    #: The leader epoch of the coordinator's partition of __transaction_state. A lower one than the partition has seen
    #: is TRANSACTION_COORDINATOR_FENCED.
    coordinator_epoch: Int32 = 0


class WriteTxnMarkersRequest(Message):
    """Ends of transactions for one broker's partitions."""

    #: Of any number of producers.
    markers: list[WritableTxnMarker] = []


class WritableTxnMarkerPartitionResult(Message):
    """The result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[WritableTxnMarkerPartitionResult] = []


class WritableTxnMarkerResult(Message):
    """The results of one producer."""

    #: As in the request.
    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = []


class WriteTxnMarkersResponse(Message):
    """The results, when all markers are safe."""

    #: One for each producer id, even if the request has several markers of it.
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
