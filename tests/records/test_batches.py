"""Batches and records through Python, judged by other people's code: crc32c, the codecs' own packages, kafka-python."""

import contextlib
import gzip
import struct
import warnings
from collections.abc import Callable

import crc32c as crc32c_package
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import records
from ottla._core import marker_batch
from ottla.errors import (
    CorruptMessage,
    InvalidRecord,
    KafkaError,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from tests.peers.skips import require
from tests.records.samples import CODECS, NOW_MS, Sample, many, shapes

try:
    import lz4.frame as lz4_package
    import snappy as snappy_package
    import zstandard as zstandard_package

    with warnings.catch_warnings():  # kafka-python reads its schemas by an old way of importlib.
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
except ImportError as problem:
    require("clients", f"{problem.name} is not installed (the extra `test`)")

HEADER_BYTES = 61
CODEC_IDS = {name: number for number, name in enumerate(CODECS)}


def plain(batch: bytes) -> list[Sample]:
    return [(one.timestamp_ms, one.key, one.value, one.headers) for one in records.RecordReader(batch)]


def with_payload(batch: bytes, codec: str, payload: bytes) -> bytes:
    """The batch with other records: length, codec and checksum made right with struct and the package crc32c alone."""
    changed = bytearray(batch[:HEADER_BYTES] + payload)
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    struct.pack_into(">h", changed, 21, CODEC_IDS[codec])
    struct.pack_into(">I", changed, 17, crc32c_package.crc32c(bytes(changed[21:])))
    return bytes(changed)


def test_the_readme_of_the_module_is_true() -> None:
    import doctest

    assert doctest.testmod(records, extraglobs={"__name__": "ottla.records"}).failed == 0


@given(st.binary(max_size=3000))
def test_crc_is_that_of_the_package(data: bytes) -> None:
    assert records.crc32c(data) == crc32c_package.crc32c(data)


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_written_reads_back(codec: str) -> None:
    for samples in (shapes(), many(3_000)):
        batch = records.encode_batch(samples, compression=codec, base_offset=1_000)
        assert plain(batch) == samples
        info = records.validate(batch)
        assert (info.base_offset, info.last_offset, info.record_count) == (1_000, 999 + len(samples), len(samples))
        assert (info.compression, info.size_bytes) == (codec, len(batch))
        assert info.max_timestamp_ms == max(timestamp for timestamp, *_ in samples)
        assert info.crc == crc32c_package.crc32c(batch[21:])


PACKAGES: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "gzip": (gzip.compress, gzip.decompress),
    "zstd": (zstandard_package.compress, zstandard_package.decompress),
    "lz4": (lambda data: lz4_package.compress(data, block_linked=False), lz4_package.decompress),
}


@pytest.mark.parametrize("codec", PACKAGES)
def test_codecs_agree_with_their_packages(codec: str) -> None:
    uncompressed = records.encode_batch(many(2_000))
    compress, decompress = PACKAGES[codec]
    ours = records.encode_batch(many(2_000), compression=codec)
    assert decompress(ours[HEADER_BYTES:]) == uncompressed[HEADER_BYTES:]
    theirs = with_payload(uncompressed, codec, compress(uncompressed[HEADER_BYTES:]))
    assert plain(theirs) == many(2_000)
    records.validate(theirs)


def test_streams_without_sizes_and_in_several_frames_are_read() -> None:
    batch = records.encode_batch(many(2_000))
    payload = batch[HEADER_BYTES:]
    half = len(payload) // 2
    stream = zstandard_package.ZstdCompressor(write_content_size=False, write_checksum=True)
    frames = stream.compress(payload[:half]) + stream.compress(payload[half:])
    options = {"block_linked": False, "store_size": True, "content_checksum": True, "block_checksum": True}
    for codec, packed in (
        ("zstd", frames),
        ("gzip", gzip.compress(payload[:half]) + gzip.compress(payload[half:], compresslevel=1)),
        ("lz4", lz4_package.compress(payload, **options)),
        ("snappy", snappy_package.compress(payload)),
    ):
        assert plain(with_payload(batch, codec, packed)) == many(2_000), codec


def test_lz4_blocks_that_depend_on_each_other_are_refused() -> None:
    batch = records.encode_batch(many(2_000))
    linked = with_payload(batch, "lz4", lz4_package.compress(batch[HEADER_BYTES:], block_linked=True))
    with pytest.raises(InvalidRecord, match="depend on each other"):
        records.validate(linked)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("samples", [shapes(), many(500)], ids=["shapes", "many"])
def test_kafka_python_reads_ours_and_we_read_theirs(codec: str, samples: list[Sample]) -> None:
    options = {"producer_id": 77, "producer_epoch": 3, "base_sequence": 12, "transactional": True}
    builder = records.BatchBuilder(compression=codec, **options)
    for timestamp_ms, key, value, headers in samples:
        builder.append(timestamp_ms, key, value, headers)
    theirs = DefaultRecordBatch(builder.finish())
    assert theirs.validate_crc()
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (77, 3, 12)
    assert theirs.is_transactional
    assert not theirs.is_control_batch
    assert [(one.timestamp, one.key, one.value, one.headers) for one in theirs] == samples

    builder = DefaultRecordBatchBuilder(2, CODEC_IDS[codec], True, 77, 3, 12, 1 << 20)
    for offset, (timestamp_ms, key, value, headers) in enumerate(samples):
        builder.append(offset, timestamp_ms, key, value, headers)
    batch = bytes(builder.build())
    info = records.validate(batch)
    assert (info.producer_id, info.producer_epoch, info.base_sequence) == (77, 3, 12)
    assert info.is_transactional
    assert info.record_count == len(samples)
    assert plain(batch) == samples


def test_several_batches_and_a_cut_one() -> None:
    first, second = records.encode_batch(many(10)), records.encode_batch(many(5), base_offset=10, compression="zstd")
    buffer = first + second + first[:100]
    assert [info.base_offset for info in records.read_batches(buffer)] == [0, 10]
    assert [info.position for info in records.read_batches(buffer)] == [0, len(first)]
    reader = records.RecordReader(buffer, start_offset=7)
    assert [record.offset for record in reader] == list(range(7, 15))
    assert reader.position == len(first) + len(second)
    assert records.read_batches(b"") == []


def test_markers_and_stamps() -> None:
    marker = marker_batch(42, 7, True, 3, NOW_MS)
    stamped = records.stamp(marker, 500, 9)
    info = records.validate(stamped)
    assert (info.base_offset, info.leader_epoch, info.is_control, info.is_transactional) == (500, 9, True, True)
    assert info.crc == records.validate(marker).crc
    assert list(records.RecordReader(stamped)) == []
    [record] = records.RecordReader(stamped, with_control=True)
    assert (record.key, record.value) == (bytes.fromhex("00000001"), bytes.fromhex("000000000003"))
    appended = records.validate(records.stamp(records.encode_batch(many(3)), 0, 1, append_time_ms=NOW_MS + 99))
    assert appended.is_log_append_time
    assert appended.max_timestamp_ms == NOW_MS + 99


def test_errors_say_field_and_place() -> None:
    batch = records.encode_batch(many(3))

    def changed(at: int, *values: int) -> bytes:
        payload = bytearray(batch)
        payload[at : at + len(values)] = values
        return bytes(payload)

    cases: list[tuple[bytes, type[KafkaError], str]] = [
        (changed(80, 0xFF), CorruptMessage, "crc at byte 17: the stored checksum is 0x"),
        (changed(16, 3), CorruptMessage, "magic at byte 16: 3 is not a format"),
        (changed(16, 1), CorruptMessage, "crc at byte 12: "),
        (changed(8, 0, 0, 0, 9), CorruptMessage, "batch_length at byte 8: 9 is less"),
        (batch[:-1], CorruptMessage, "needs|are there"),
        (with_payload(batch, "zstd", b"nonsense"), InvalidRecord, "records at byte 61: zstd"),
        (with_payload(batch, "none", b"\x06"), InvalidRecord, "record_count at byte 57: 3 records cannot be in 1"),
        (with_payload(batch, "none", b"\xff" * 40), InvalidRecord, "length of record 0 at byte 61"),
    ]
    for hostile, error, text in cases:
        with pytest.raises(error, match=text):
            records.validate(hostile)
    unknown = bytearray(batch)
    unknown[22] = 6
    struct.pack_into(">I", unknown, 17, crc32c_package.crc32c(bytes(unknown[21:])))
    with pytest.raises(UnsupportedCompressionType, match="codec 6"):
        records.validate(unknown)
    with pytest.raises(MessageTooLarge, match="the limit is 100"):
        records.validate(batch, batch_bytes_max=100)
    bomb = records.encode_batch([(0, None, bytes(1 << 24), [])], compression="zstd")
    assert len(bomb) < 2_000
    with pytest.raises(MessageTooLarge, match="decompress to more than the limit of 1000000 bytes"):
        records.validate(bomb, decompressed_bytes_max=1_000_000)


def test_arguments_that_make_no_batch() -> None:
    with pytest.raises(ValueError, match="there are none, gzip, snappy, lz4, zstd"):
        records.BatchBuilder(compression="brotli")
    with pytest.raises(InvalidRecord, match="no record"):
        records.encode_batch([])
    with pytest.raises(KafkaError, match="before 1970"):
        records.encode_batch([(-5, None, None, [])])
    with pytest.raises(TypeError):
        records.encode_batch([(0, "text", None, [])])  # type: ignore[list-item]


@given(st.binary(max_size=300), st.integers(0, 63))
def test_any_bytes_are_records_or_an_error(payload: bytes, attributes: int) -> None:
    batch = bytearray(with_payload(records.encode_batch(many(1)), "none", payload))
    struct.pack_into(">h", batch, 21, attributes)
    for data in (payload, bytes(batch)):
        with contextlib.suppress(KafkaError):
            list(records.RecordReader(data, check_crc=False, with_control=True))
        with contextlib.suppress(KafkaError):
            records.decode_columns(data, check_crc=False)
