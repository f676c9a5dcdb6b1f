"""The error codes of an answer, as they are counted."""

from ottla.wire.error_codes import error_codes
from ottla.wire.k03_metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from ottla.wire.k09_offset_fetch import OffsetFetchResponse, OffsetFetchResponsePartition, OffsetFetchResponseTopic
from ottla.wire.k12_heartbeat import HeartbeatResponse
from ottla.wire.k57_update_features import UpdateFeaturesResponse


def test_of_the_answer_and_of_its_rows() -> None:
    rows = [
        OffsetFetchResponsePartition(partition_index=index, error_code=code) for index, code in enumerate((0, 3, 0))
    ]
    topics = [OffsetFetchResponseTopic(name="a", partitions=rows[:2]), OffsetFetchResponseTopic("b", rows[2:])]
    assert sorted(error_codes(OffsetFetchResponse(error_code=15, topics=topics))) == [0, 0, 3, 15]
    assert list(error_codes(HeartbeatResponse(error_code=27))) == [27]
    assert list(error_codes(UpdateFeaturesResponse())) == [0]


def test_of_metadata_only_the_topics() -> None:
    topic = MetadataResponseTopic(error_code=5, partitions=[MetadataResponsePartition(error_code=9)] * 3)
    assert list(error_codes(MetadataResponse(topics=[topic]))) == [5]
