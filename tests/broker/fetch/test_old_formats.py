"""Message sets (formats v0 and v1): produced by old clients, stored as the topic says, fetched by old and new ones.

The sets are written and read by kafka-python's own code for the old formats.
"""

import gzip
import warnings
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from ottla import _core
from ottla.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
    UnsupportedVersion,
)
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.peers.ottla import Broker
from tests.support.client import Client, batch, connect, data, values
from tests.support.message_sets import message_set
from tests.support.transactions import add, describe, end, find, init
from tests.support.waiting import eventually

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its own files by a deprecated function
    import kafka.codec
    from kafka.record import MemoryRecords


class Xxh32:
    """The part of the package xxhash that kafka-python wants: the checksum of a few bytes."""

    def __init__(self, data: bytes) -> None:
        def rotated(number: int, bits: int) -> int:
            number &= 0xFFFFFFFF
            return (number << bits | number >> 32 - bits) & 0xFFFFFFFF

        number = 374761393 + len(data)
        whole = len(data) // 4 * 4
        assert len(data) < 16, "longer ones are summed up in another way"
        for at in range(0, whole, 4):
            number = rotated(number + int.from_bytes(data[at : at + 4], "little") * 3266489917, 17) * 668265263
        for byte in data[whole:]:
            number = rotated(number + byte * 374761393, 11) * 2654435761
        for bits, factor in ((15, 2246822519), (13, 3266489917), (16, 1)):
            number &= 0xFFFFFFFF
            number = (number ^ number >> bits) * factor
        self._number = number & 0xFFFFFFFF

    def digest(self) -> bytes:
        return self._number.to_bytes(4, "big")


@pytest.fixture(scope="module", autouse=True)
def _lz4_of_format_0() -> Iterator[None]:
    kafka.codec.xxhash, before = SimpleNamespace(xxh32=Xxh32), kafka.codec.xxhash
    yield
    kafka.codec.xxhash = before


CODECS = ["none", "gzip", "snappy", "lz4"]
#: The versions that a topic may be told to store, each with its format.
STORED = [("0.9.0.1", 0), ("0.10.2", 1), ("2.7", 2)]
FORMATS = {magic: version for version, magic in STORED}

Seen = tuple[int, int | None, bytes | None, bytes | None]


def read(buffer: bytes | None) -> list[Seen]:
    """Offset, timestamp, key and value, as kafka-python's consumer reads them."""
    records = MemoryRecords(buffer or b"")
    seen: list[Seen] = []
    while (some := records.next_batch()) is not None:
        assert some.validate_crc()
        seen += [(one.offset, one.timestamp, one.key, one.value) for one in some]
    return seen


def record_set(client: Client, topic: str, offset: int = 0, version: int = 11) -> bytes:
    ((row,),) = [one.partition_responses for one in client.fetch(topic, offset, version=version).responses]
    assert row.error_code == 0
    return row.record_set or b""


def everything(client: Client, topic: str, version: int) -> bytes:
    """All that is stored, answer by answer: what is converted may grow, and then comes in parts."""
    parts, offset = [], 0
    while part := record_set(client, topic, offset, version):
        parts.append(part)
        offset = read(part)[-1][0] + 1
    return b"".join(parts)


def produced(client: Client, topic: str, records: bytes, version: int = 2) -> tuple[int, int]:
    """Error code and base offset."""
    ((row,),) = [one.partitions for one in client.produce(topic, records, version=version, acks=1).responses]
    return row.error_code, row.base_offset


def magics(buffer: bytes) -> set[int]:
    return {one.magic for one in _core.read_batches(buffer)}


#: Long enough for kafka-python to find that packing pays.
RECORDS = [(1_000, b"k", b"one" * 100), (3_000, None, b"two" * 100), (2_000, b"k", None)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("format_version", "stored"), STORED)
@pytest.mark.parametrize("sent", [0, 1, 2])
def test_every_format_becomes_the_topics(
    client: Client, shared_broker: Broker, format_version: str, stored: int, sent: int, codec: str
) -> None:
    topic = f"from-{sent}-to-{stored}-{codec}"
    client.create(topic, message_format_version=format_version)
    records = message_set(sent, codec, *RECORDS)
    version = 2 if sent < 2 else 8
    assert produced(client, topic, records, version) == (0, 0)
    assert produced(client, topic, records, version) == (0, 3)
    # A version that carried another format may carry this one too.
    if sent < 2:
        assert produced(client, topic, records, sent) == (0, 6)

    times = [None if 0 in (sent, stored) and stored < 1 else -1 if sent == 0 else time for time, _, _ in RECORDS]
    expected = [(offset, *rest) for offset, rest in enumerate(zip(times, *zip(*RECORDS, strict=True), strict=True))]
    expected = [(offset, time, key, value) for offset, time, _, key, value in expected]
    kept = record_set(client, topic)
    assert magics(kept) == {stored}
    assert {one.compression for one in _core.read_batches(kept)} == {codec}
    assert read(kept)[:3] == expected
    assert [one[0] for one in read(kept)] == list(range(9 if sent < 2 else 6))
    file = data(shared_broker.data, topic).read_bytes()
    assert file.startswith(kept)
    # Ottla's own readers see the same.
    assert [(one.offset, one.key, one.value) for one in _core.RecordReader(kept)] == [
        (offset, key, value) for offset, _, key, value in read(kept)
    ]

    for fetch_version in range(12):
        readable = 0 if fetch_version < 2 else 1 if fetch_version < 4 else 2
        seen = everything(client, topic, fetch_version)
        assert magics(seen) == {min(stored, readable)}, fetch_version
        assert [(offset, key, value) for offset, _, key, value in read(seen)] == [
            (offset, key, value) for offset, _, key, value in read(kept)
        ]
    middle = record_set(client, topic, 4, version=3)
    assert read(middle)[0][0] == (4 if codec == "none" else 3)


def test_what_is_stored_is_byte_for_byte_what_was_sent(client: Client) -> None:
    """But for offsets, where the format is the topic's: neither copied nor packed anew."""
    client.create("bytes", message_format_version="0.10.0")
    plain = message_set(1, "none", *RECORDS)
    packed = message_set(1, "gzip", *RECORDS)
    produced(client, "bytes", plain)
    produced(client, "bytes", packed)
    kept = record_set(client, "bytes")
    first = _core.read_batches(kept)
    assert [one.base_offset for one in first] == [0, 1, 2, 5]
    assert kept[: first[1].position][8:] == plain[: first[1].position][8:]
    # Its own timestamp is the greatest of its messages'; kafka-python leaves that to the broker.
    assert kept[first[3].position :][26:] == packed[26:]
    assert first[3].max_timestamp_ms == 3_000


@pytest.mark.parametrize("stored", [1, 2])
def test_append_time(client: Client, stored: int) -> None:
    topic = f"append-time-{stored}"
    client.create(topic, message_format_version=FORMATS[stored], message_timestamp_type="LogAppendTime")
    for codec in CODECS:
        answer = client.produce(topic, message_set(1, codec, *RECORDS), version=2).responses[0].partitions[0]
        assert answer.error_code == 0
        assert answer.log_append_time_ms > 1_600_000_000_000
        records = record_set(client, topic, answer.base_offset)
        assert {one[1] for one in read(records)} == {answer.log_append_time_ms}
        assert {one[1] for one in read(record_set(client, topic, answer.base_offset, version=2))} == {
            answer.log_append_time_ms
        }
        assert all(one.is_log_append_time for one in _core.read_batches(records))


@pytest.mark.parametrize("sent", [0, 1, 2])
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_the_topics_codec(client: Client, target: str, sent: int) -> None:
    topic = f"codec-{target}-{sent}"
    client.create(topic, compression_type=target)
    expected = []
    for codec in CODECS:
        error, base = produced(client, topic, message_set(sent, codec, *RECORDS), 2 if sent < 2 else 8)
        assert error == 0
        expected += [(base + at, key, value) for at, (_, key, value) in enumerate(RECORDS)]
    kept = record_set(client, topic)
    assert {one.compression for one in _core.read_batches(kept)} == {target.replace("uncompressed", "none")}
    assert [(one.offset, one.key, one.value) for one in _core.RecordReader(kept)] == expected
    if target == "zstd":
        assert client.fetch(topic, version=9).responses[0].partition_responses[0].error_code == (
            UnsupportedCompressionType.code
        )


def test_a_batch_that_is_packed_anew_keeps_its_producer(client: Client) -> None:
    client.create("idempotent", compression_type="gzip")
    records = batch(b"a", b"b", producer_id=77, producer_epoch=1, base_sequence=0)
    assert produced(client, "idempotent", records, 8) == (0, 0)
    assert produced(client, "idempotent", records, 8) == (0, 0)
    (kept,) = _core.read_batches(record_set(client, "idempotent"))
    assert (kept.producer_id, kept.producer_epoch, kept.base_sequence, kept.compression) == (77, 1, 0, "gzip")


def test_numbers_in_a_compressed_set_are_corrected(client: Client) -> None:
    """Some clients of format 1 could not count: Kafka rewrites what they send (KAFKA-5490)."""
    client.create("numbers", message_format_version="0.10.0")
    inner = b"".join(_core.encode_messages([(1, None, b"x")], magic=1, base_offset=7) for _ in range(3))
    outer = bytearray(_core.encode_messages([(1, None, gzip.compress(inner))], magic=1))
    outer[17] = 1
    outer[12:16] = zlib.crc32(bytes(outer[16:])).to_bytes(4, "big")
    assert produced(client, "numbers", bytes(outer)) == (0, 0)
    assert [one[0] for one in read(record_set(client, "numbers"))] == [0, 1, 2]


def test_what_a_producer_may_not_send(client: Client) -> None:
    client.create("refusals")
    client.create("refusals-old", message_format_version="0.10.0")
    client.create("refusals-keys", cleanup_policy="compact", message_timestamp_difference_max_ms="1000")
    one = message_set(1, "none", RECORDS[0])
    packed = message_set(1, "gzip", *RECORDS)
    damaged = bytearray(one)
    damaged[-1] ^= 1
    mixed = one + message_set(0, "none", RECORDS[0])
    assert produced(client, "refusals", bytes(damaged))[0] == CorruptMessage.code
    assert produced(client, "refusals", mixed)[0] == InvalidRecord.code
    assert produced(client, "refusals", packed + packed)[0] == InvalidRecord.code
    assert produced(client, "refusals", one, 3)[0] == InvalidRecord.code
    assert produced(client, "refusals", batch(b"x", compression="zstd"), 6)[0] == UnsupportedCompressionType.code
    # Nothing whole in it: accepted, and nothing appended.
    assert produced(client, "refusals", b"") == (0, -1)
    assert produced(client, "refusals", one + one[:20]) == (0, 0)
    assert produced(client, "refusals", one) == (0, 1)
    # What format 1 has no place for.
    with_headers = _core.encode_batch([(1, None, b"x", [("name", b"value")])])
    idempotent = batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0)
    for records in (with_headers, idempotent):
        assert produced(client, "refusals-old", records, 8)[0] == UnsupportedForMessageFormat.code
    # Every record that is at fault is named (KIP-467).
    row = client.produce("refusals-keys", message_set(1, "gzip", *RECORDS), version=2).responses[0].partitions[0]
    assert row.error_code == InvalidTimestamp.code
    row = client.produce("refusals-keys", message_set(2, "gzip", *RECORDS)).responses[0].partitions[0]
    assert row.error_code == InvalidTimestamp.code
    assert [one.batch_index for one in row.record_errors] == [0, 1, 2]
    assert "timestamp 1000 " in str(row.record_errors[0].batch_index_error_message)
    assert "key" in str(row.record_errors[1].batch_index_error_message)


def test_conversion_may_be_forbidden_and_needs_a_codec_that_old_formats_have(client: Client) -> None:
    client.create("forbidden", message_downconversion_enable="false")
    produced(client, "forbidden", message_set(2, "none", *RECORDS), 8)

    def error(topic: str, offset: int, version: int) -> int:
        return client.fetch(topic, offset, version=version).responses[0].partition_responses[0].error_code

    assert error("forbidden", 0, 3) == UnsupportedVersion.code
    assert error("forbidden", 0, 4) == 0
    client.create("zstd-later")
    produced(client, "zstd-later", message_set(2, "gzip", *RECORDS), 8)
    produced(client, "zstd-later", batch(b"x", compression="zstd"), 8)
    assert [one[0] for one in read(record_set(client, "zstd-later", 0, 3))] == [0, 1, 2]
    assert error("zstd-later", 3, 3) == UnsupportedCompressionType.code
    assert values(client.fetch("zstd-later", 3)) == [b"x"]


def test_a_long_log_is_converted_in_parts(client: Client) -> None:
    """An old consumer gets all of it, however it asks."""
    client.create("long")
    sent = []
    for number in range(40):
        some = [b"%d-%d" % (number, at) * 30 for at in range(300)]
        sent += some
        produced(client, "long", batch(*some, compression=CODECS[number % 4]), 8)
    for version, bytes_max in ((0, 1), (3, 20_000), (3, 1 << 20)):
        seen: list[bytes | None] = []
        offset = answers = 0
        while offset < len(sent):
            limit = {"max_bytes": bytes_max} if version == 3 else {}
            response = client.fetch("long", offset, version=version, **limit)
            records = read(response.responses[0].partition_responses[0].record_set)
            some = [(at, value) for at, _, _, value in records if at >= offset]
            assert some[0][0] == offset
            seen += [value for _, value in some]
            offset = some[-1][0] + 1
            answers += 1
        assert seen == sent
        assert answers > 1


def test_an_old_consumer_waits_like_any_other(client: Client, shared_broker: Broker) -> None:
    client.create("waiting")
    with connect(shared_broker) as other, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.fetch, "waiting", version=2, max_wait_ms=300_000, min_bytes=1)
        other.produce("waiting", batch(b"later"))
        assert [one[3] for one in read(waiting.result().responses[0].partition_responses[0].record_set)] == [b"later"]


#: So that a batch and a marker, and nothing more, fit into a segment: their times are years apart.
SEGMENTS = {"segment_bytes": "300", "segment_ms": str(1 << 62)}


def transaction(client: Client, topic: str, *values: bytes, partition: int = 0) -> None:
    """A batch of these values, or none, and the marker behind it."""
    find(client, topic)
    producer = init(client, topic)
    assert set(add(client, topic, producer, partition, topic=topic)) == {0}
    if values:
        kept = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        records = batch(*values, base_sequence=0, transactional=True, **kept)
        answer = client.produce(topic, records, partition=partition, transactional_id=topic)
        assert answer.responses[0].partitions[0].error_code == 0
    assert end(client, topic, producer) == 0
    eventually("the end of the transaction", lambda: describe(client, topic).transaction_state == "CompleteCommit")


@pytest.mark.parametrize("version", range(4))
def test_what_follows_the_marker_that_ends_a_segment_is_reached(
    client: Client, shared_broker: Broker, version: int
) -> None:
    """A consumer that has all before the marker asks for the marker's offset, again and again."""
    topic = f"marked-{version}"
    client.create(topic, **SEGMENTS)
    transaction(client, topic, b"x" * 100)
    produced(client, topic, batch(b"y" * 100), 8)
    segments = sorted(int(file.stem) for file in data(shared_broker.data, topic).parent.glob("*.log"))
    assert segments == [0, 2]
    assert [one.is_control for one in _core.read_batches(record_set(client, topic))] == [False, True]
    response = client.fetch(topic, 1, version=version, max_wait_ms=300_000, min_bytes=1)
    ((row,),) = [one.partition_responses for one in response.responses]
    assert read(row.record_set) == [(2, None if version < 2 else 1_700_000_000_000, None, b"y" * 100)]


def test_segments_of_nothing_but_markers_are_passed(client: Client, shared_broker: Broker) -> None:
    """However little the consumer takes at once."""
    client.create("markers", **SEGMENTS)
    for _ in range(8):
        transaction(client, "markers")
    produced(client, "markers", batch(b"after"), 8)
    assert len(list(data(shared_broker.data, "markers").parent.glob("*.log"))) > 2
    for version, limits in ((0, {}), (3, {"max_bytes": 1}), (3, {})):
        response = client.fetch("markers", version=version, max_wait_ms=300_000, min_bytes=1, **limits)
        assert [one[3] for one in read(response.responses[0].partition_responses[0].record_set)] == [b"after"]


def test_what_follows_markers_keeps_to_the_limit_of_the_answer(client: Client) -> None:
    """The first records come whole, however large. Those of the next partition are left for another answer."""
    client.create("limited", 2)
    for partition in range(2):
        transaction(client, "limited", partition=partition)
        client.produce("limited", batch(b"x" * 3_000), partition=partition)
    rows = [FetchPartition(partition=one, fetch_offset=0, partition_max_bytes=78) for one in range(2)]
    request = FetchRequest(replica_id=-1, max_bytes=1_000, topics=[FetchTopic(topic="limited", partitions=rows)])
    first, second = client.call(FETCH, request, 3).responses[0].partition_responses
    assert [one[3] for one in read(first.record_set)] == [b"x" * 3_000]
    assert (second.error_code, second.record_set or b"") == (0, b"")


def listed(client: Client, topic: str, timestamp: int, most: int) -> Sequence[int]:
    row = ListOffsetsPartition(timestamp=timestamp, max_num_offsets=most)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[row])])
    answer = client.call(LIST_OFFSETS, request, 0).topics[0].partitions[0]
    assert answer.error_code == 0
    return answer.old_style_offsets


def test_offsets_of_segments_before_a_time(client: Client) -> None:
    client.create("segments", segment_bytes="300")
    assert listed(client, "segments", -1, 10) == [0]
    for _ in range(6):
        produced(client, "segments", batch(b"x" * 100), 8)
    # Two batches of 168 bytes do not fit into a segment.
    assert listed(client, "segments", -1, 10) == [6, 5, 4, 3, 2, 1, 0]
    assert listed(client, "segments", -1, 2) == [6, 5]
    assert listed(client, "segments", -2, 10) == [0]
    assert listed(client, "segments", 1_000, 10) == []
    assert listed(client, "segments", 4_000_000_000_000, 10) == listed(client, "segments", -1, 10)


def test_offsets_by_time_in_old_formats(client: Client) -> None:
    def find(topic: str, timestamp: int) -> tuple[int, int, int]:
        row = ListOffsetsPartition(timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[row])])
        answer = client.call(LIST_OFFSETS, request, 1).topics[0].partitions[0]
        return answer.error_code, answer.offset, answer.timestamp

    for codec in CODECS:
        topic = f"times-{codec}"
        client.create(topic, message_format_version="0.10.0")
        produced(client, topic, message_set(1, codec, *RECORDS))
        produced(client, topic, message_set(1, codec, (5_000, None, b"x")))
        assert [find(topic, time) for time in (0, 1_001, 3_001, 5_001)] == [
            (0, 0, 1_000),
            (0, 1, 3_000),
            (0, 3, 5_000),
            (0, -1, -1),
        ]
    client.create("times-none-at-all", message_format_version="0.8.2")
    produced(client, "times-none-at-all", message_set(0, "none", *RECORDS))
    assert find("times-none-at-all", 1_000)[0] == UnsupportedForMessageFormat.code
    assert find("times-none-at-all", -2)[:2] == (0, 0)


@pytest.fixture(scope="module", autouse=True)
def _no_leftovers(shared_broker: Broker) -> Iterator[None]:
    """The directory that all of this left is sound."""
    yield
    for folder in sorted(shared_broker.data.glob("*-0")):
        assert _core.verify_log(folder).damage == []
