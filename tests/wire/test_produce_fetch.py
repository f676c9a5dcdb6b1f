"""The hand-written Produce and Fetch of clients against the declared messages: the same bytes, the same values.

The broker's side of the same code is held against the clients' side in rust/wire/tests.
"""

from __future__ import annotations

import random

import pytest

from ottla import _core
from ottla.errors import LocalProtocolError, RemoteProtocolError
from ottla.wire.k00_produce import PRODUCE, ProduceRequest, ProduceResponse
from ottla.wire.k01_fetch import FETCH, FetchRequest, FetchResponse
from tests.wire.instances import instance

ROUNDS = range(40)


@pytest.mark.parametrize("version", PRODUCE.versions)
def test_produce_requests(version: int) -> None:
    rng = random.Random(f"produce {version}")
    for _ in ROUNDS:
        message = instance(ProduceRequest, version, rng)
        assert isinstance(message, ProduceRequest)
        for number, topic in enumerate(message.topics):
            topic.name += str(number)
        message.topics = [topic for topic in message.topics if topic.partitions]
        rows = [
            (topic.name, each.partition_index, each.records) for topic in message.topics for each in topic.partitions
        ]
        transactional_id = message.transactional_id if version >= 3 else None
        encoded = _core.encode_produce_request(version, transactional_id, message.acks, message.timeout_ms, rows)
        assert encoded == PRODUCE.encode_request(version, message)


@pytest.mark.parametrize("version", PRODUCE.versions)
def test_produce_responses(version: int) -> None:
    rng = random.Random(f"produce response {version}")
    for _ in ROUNDS:
        message = instance(ProduceResponse, version, rng)
        assert isinstance(message, ProduceResponse)
        encoded = PRODUCE.encode_response(version, message)
        decoded = _core.decode_produce_response(b"HEADER" + encoded, version, 6)
        assert decoded.throttle_time_ms == message.throttle_time_ms
        rows = [(topic.name, each) for topic in message.responses for each in topic.partitions]
        assert len(decoded.partitions) == len(rows)
        for ours, (name, declared) in zip(decoded.partitions, rows, strict=True):
            assert (ours.topic, ours.partition) == (name, declared.partition_index)
            assert ours.error_code == declared.error_code
            assert ours.base_offset == declared.base_offset
            assert ours.log_append_time_ms == declared.log_append_time_ms
            assert ours.log_start_offset == declared.log_start_offset
            assert ours.error_message == declared.error_message
            assert ours.record_errors == [
                (each.batch_index, each.batch_index_error_message) for each in declared.record_errors
            ]


@pytest.mark.parametrize("version", FETCH.versions)
def test_fetch_requests(version: int) -> None:
    rng = random.Random(f"fetch {version}")
    for _ in ROUNDS:
        message = instance(FetchRequest, version, rng)
        assert isinstance(message, FetchRequest)
        for number, topic in enumerate(message.topics):
            topic.topic += str(number)
        message.topics = [topic for topic in message.topics if topic.partitions]
        for number, forgotten in enumerate(message.forgotten_topics_data):
            forgotten.topic += str(number)
        message.forgotten_topics_data = [topic for topic in message.forgotten_topics_data if topic.partitions]
        encoded = _core.encode_fetch_request(
            version,
            [
                (
                    topic.topic,
                    each.partition,
                    each.fetch_offset,
                    each.partition_max_bytes,
                    each.current_leader_epoch,
                    each.last_fetched_epoch,
                    each.log_start_offset,
                )
                for topic in message.topics
                for each in topic.partitions
            ],
            max_wait_ms=message.max_wait_ms,
            min_bytes=message.min_bytes,
            max_bytes=message.max_bytes,
            isolation_level=message.isolation_level,
            session_id=message.session_id,
            session_epoch=message.session_epoch,
            forgotten=[(topic.topic, each) for topic in message.forgotten_topics_data for each in topic.partitions],
            replica_id=message.replica_id,
            rack_id=message.rack_id,
            cluster_id=message.cluster_id,
        )
        assert encoded == FETCH.encode_request(version, message)


@pytest.mark.parametrize("version", FETCH.versions)
def test_fetch_responses(version: int) -> None:
    rng = random.Random(f"fetch response {version}")
    for _ in ROUNDS:
        message = instance(FetchResponse, version, rng)
        assert isinstance(message, FetchResponse)
        decoded = _core.decode_fetch_response(b"HEADER" + FETCH.encode_response(version, message), version, 6)
        assert decoded.throttle_time_ms == message.throttle_time_ms
        assert (decoded.error_code, decoded.session_id) == (message.error_code, message.session_id)
        rows = [(topic.topic, each) for topic in message.responses for each in topic.partition_responses]
        assert len(decoded.partitions) == len(rows)
        for ours, (name, declared) in zip(decoded.partitions, rows, strict=True):
            assert (ours.topic, ours.partition, ours.error_code) == (name, declared.partition, declared.error_code)
            assert ours.high_watermark == declared.high_watermark
            assert ours.last_stable_offset == declared.last_stable_offset
            assert ours.log_start_offset == declared.log_start_offset
            assert ours.preferred_read_replica == declared.preferred_read_replica
            diverging, leader = declared.diverging_epoch, declared.current_leader
            assert (ours.diverging_epoch or (-1, -1)) == (diverging.epoch, diverging.end_offset)
            assert (ours.current_leader or (-1, -1)) == (leader.leader_id, leader.leader_epoch)
            aborted = declared.aborted_transactions if version >= 4 else None
            pairs = None if aborted is None else [(each.producer_id, each.first_offset) for each in aborted]
            assert ours.aborted_transactions == pairs
            assert (None if ours.records is None else bytes(ours.records)) == declared.record_set


def test_records_are_views_of_the_response() -> None:
    message = FETCH.decode_response(4, bytes(8))
    assert message == FetchResponse()
    data = bytearray(bytes.fromhex("00000000 00000001 0001 74 00000001 00000007 0000"))
    data += bytes(16) + bytes.fromhex("ffffffff 00000003") + b"abc"
    (partition,) = _core.decode_fetch_response(data, 4).partitions
    assert isinstance(partition.records, memoryview)
    assert partition.records.obj is data
    assert bytes(partition.records) == b"abc"
    with pytest.raises(BufferError):
        data.clear()  # the view holds the response's memory


def test_what_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="version 9 of Produce is not known"):
        _core.encode_produce_request(9, None, 1, 0, [])
    with pytest.raises(LocalProtocolError, match="forgotten_topics_data: version 6 lacks this field"):
        _core.encode_fetch_request(6, [], max_wait_ms=0, min_bytes=0, max_bytes=0, forgotten=[("t", 1)])
    with pytest.raises(RemoteProtocolError, match="responses at byte 0: 4 bytes are needed, 0 are left"):
        _core.decode_fetch_response(b"", 0)
    with pytest.raises(ValueError, match="start lies beyond the buffer"):
        _core.decode_fetch_response(b"", 0, 1)
