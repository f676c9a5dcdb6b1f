"""Columns: the same records as one by one, in memory that pyarrow and numpy share."""

import gc

import pytest

from ottla import records
from ottla._core import marker_batch
from ottla.errors import CorruptMessage, InvalidTimestamp
from tests.peers.skips import module
from tests.records.samples import CODECS, NOW_MS, many, shapes

pa = module("arrow", "pyarrow")


def buffer_of(count: int, codec: str = "none", per_batch: int = 100) -> bytes:
    samples = many(count)
    starts = range(0, count, per_batch)
    parts = [
        records.encode_batch(samples[start : start + per_batch], compression=codec, base_offset=start)
        for start in starts
    ]
    return b"".join(parts)


def rows(columns: records.Columns) -> list[dict[str, object]]:
    return records.to_arrow(columns, timestamp_unit="ms").cast(PLAIN).to_pylist()


PLAIN = records.arrow_schema(timestamp_unit="ms")
PLAIN = PLAIN.set(1, pa.field("timestamp", pa.int64()))


@pytest.mark.parametrize("codec", CODECS)
def test_columns_are_the_records(codec: str) -> None:
    samples = shapes() + many(1_000)
    batch = records.encode_batch(samples, compression=codec, base_offset=50)
    [columns] = records.decode_columns(batch, timestamp_unit="ms")
    assert len(columns) == columns.rows == len(samples)
    wanted = [
        {
            "offset": 50 + index,
            "timestamp": timestamp_ms,
            "timestamp_type": 0,
            "key": key,
            "value": value,
            "headers": [{"name": name, "value": content} for name, content in headers] or None,
        }
        for index, (timestamp_ms, key, value, headers) in enumerate(samples)
    ]
    assert rows(columns) == wanted
    records.to_arrow(columns).validate(full=True)


def test_memory_is_shared_and_outlives_the_columns() -> None:
    [columns] = records.decode_columns(buffer_of(1_000))
    offset = columns.offset
    view = memoryview(offset)
    assert (view.format, view.itemsize, view.shape, view.readonly) == ("q", 8, (1_000,), True)
    assert view.tolist() == list(range(1_000))
    table = records.to_arrow(columns)
    assert table.column("offset").buffers()[1].address == pa.py_buffer(offset).address
    del columns, offset, view
    gc.collect()
    table.validate(full=True)
    assert table.column("value").to_pylist() == [value for _, _, value, _ in many(1_000)]


def test_numpy_shares_it_too() -> None:
    numpy = module("arrow", "numpy")
    [columns] = records.decode_columns(buffer_of(100), columns=["offset", "timestamp_type"])
    assert numpy.asarray(columns.offset).dtype == numpy.int64
    assert numpy.asarray(columns.timestamp_type).dtype == numpy.int32
    assert numpy.asarray(columns.offset).sum() == sum(range(100))


def test_no_validity_where_nothing_is_null() -> None:
    [columns] = records.decode_columns(records.encode_batch([(0, b"k", b"v", []), (0, None, b"v", [])]))
    assert columns.buffers("value")[0] is None
    assert columns.null_count("value") == 0
    assert columns.buffers("key")[0] is not None
    assert columns.null_count("key") == 1
    assert columns.null_count("headers") == 2
    assert columns.header_count == 0


def test_timestamps_that_microseconds_cannot_hold() -> None:
    nanoseconds, last = 1_700_000_000_123_456_789, (2**63 - 1) // 1000
    times = [1, nanoseconds, last, last + 1, 2**63 - 1, 2]
    batch = records.encode_batch([(time, None, b"x", []) for time in times], base_offset=10)
    with pytest.raises(InvalidTimestamp, match=rf"record 1 .*offset 11 has the timestamp {nanoseconds},"):
        records.decode_columns(batch)
    [columns] = records.decode_columns(batch, timestamps="null")
    assert columns.null_count("timestamp") == 3
    found = records.to_arrow(columns, ("timestamp",)).column(0)
    found.validate(full=True)
    held = [time * 1000 if time <= last else None for time in times]
    assert found.cast(pa.int64()).to_pylist() == held
    [columns] = records.decode_columns(batch, timestamp_unit="ms")
    assert [row["timestamp"] for row in rows(columns)] == times
    with pytest.raises(ValueError, match="error or null, not 'zero'"):
        records.decode_columns(batch, timestamps="zero")


def test_selected_columns_alone() -> None:
    [columns] = records.decode_columns(buffer_of(10), columns=["value", "offset"])
    assert records.to_arrow(columns, ["value", "offset"]).schema.names == ["value", "offset"]
    assert columns.timestamp is None
    for absent in ("key", "headers", "nonsense"):
        with pytest.raises(KeyError, match=absent):
            columns.buffers(absent)
    with pytest.raises(ValueError, match="no column 'topic'; there are offset, timestamp"):
        records.decode_columns(b"", columns=["topic"])


def test_chunks_have_the_rows_and_bytes_that_were_asked_for() -> None:
    buffer = buffer_of(1_000)
    chunks = records.decode_columns(buffer, rows_max=64)
    assert [len(chunk) for chunk in chunks] == [64] * 15 + [40]
    values = [value for _, _, value, _ in many(1_000)]
    chunks = records.decode_columns(buffer, bytes_max=4_000, columns=["value"])
    taken = [records.arrow_array(chunk, "value", pa.binary()).to_pylist() for chunk in chunks]
    assert [value for chunk in taken for value in chunk] == values
    assert all(sum(map(len, chunk)) <= 4_000 for chunk in taken)
    assert len(records.decode_columns(buffer, bytes_max=0)) == 1_000  # At least one row each.


def test_bounds_in_the_middle_of_batches() -> None:
    buffer = buffer_of(1_000, "lz4")
    [columns] = records.decode_columns(buffer, start_offset=150, end_offset=777)
    assert memoryview(columns.offset).tolist() == list(range(150, 777))


def test_a_decoder_is_fed_as_answers_come() -> None:
    buffer = buffer_of(1_000, "zstd")
    decoder = records.ColumnDecoder(rows_max=300, end_offset=950)
    seen: list[int] = []
    consumed = 0
    while not decoder.done:
        # A broker answers with whole batches and then a piece of one, from the batch that was asked for on.
        decoder.feed(memoryview(buffer)[consumed : consumed + 20_000])
        while (columns := decoder.next()) is not None:
            assert len(columns) == 300
            seen += memoryview(columns.offset).tolist()
        assert decoder.position > 0
        consumed += decoder.position
    columns = decoder.finish()
    assert columns is not None
    seen += memoryview(columns.offset).tolist()
    assert seen == list(range(950))
    assert (decoder.finish(), decoder.next(), decoder.next_offset) == (None, None, 950)


def test_a_buffer_is_fed_when_the_last_one_is_done() -> None:
    decoder = records.ColumnDecoder(rows_max=10)
    decoder.feed(buffer_of(100))
    with pytest.raises(ValueError, match="the last buffer has more"):
        decoder.feed(buffer_of(100))
    decoder.seek(1_000)
    decoder.feed(records.encode_batch(many(5), base_offset=1_000))
    assert decoder.next() is None
    columns = decoder.finish()
    assert columns is not None
    assert memoryview(columns.offset).tolist() == list(range(1_000, 1_005))


def test_buffers_that_follow_each_other() -> None:
    parts = [buffer_of(100), records.encode_batch(many(3), base_offset=100), b""]
    chunks = list(records.decode_buffers(parts, records.ColumnDecoder(rows_max=60)))
    assert [len(chunk) for chunk in chunks] == [60, 43]
    stopped = records.ColumnDecoder(end_offset=10)
    assert [len(chunk) for chunk in records.decode_buffers(iter([parts[0], b"never read"]), stopped)] == [10]


def test_aborted_transactions_are_left_out() -> None:
    def batch(base_offset: int, producer_id: int) -> bytes:
        builder = records.BatchBuilder(base_offset=base_offset, producer_id=producer_id, transactional=True)
        builder.append(NOW_MS, None, b"%d" % producer_id)
        return builder.finish()

    marker = records.stamp(marker_batch(7, 0, False, 0, NOW_MS), 2, 0)
    buffer = batch(0, 7) + batch(1, 8) + marker + batch(3, 7)
    [columns] = records.decode_columns(buffer, aborted=[(7, 0)])
    assert memoryview(columns.offset).tolist() == [1, 3]
    [columns] = records.decode_columns(buffer)
    assert memoryview(columns.offset).tolist() == [0, 1, 3]


def test_damage_is_found_after_the_rows_before_it() -> None:
    buffer = bytearray(buffer_of(200))
    buffer[-3] ^= 1
    decoder = records.ColumnDecoder()
    decoder.feed(buffer)
    columns = decoder.next()
    assert columns is not None
    assert len(columns) == 100
    for _ in range(2):
        with pytest.raises(CorruptMessage, match="crc at byte"):
            decoder.next()
    assert len(records.decode_columns(buffer, check_crc=False)[0]) == 200
    # Whoever knows where the next batch is may go on there.
    decoder.feed(buffer_of(200)[decoder.position :])
    assert decoder.next() is None
    assert decoder.next_offset == 200


def test_threads_decode_at_the_same_time_and_share_no_decoder() -> None:
    from concurrent.futures import ThreadPoolExecutor

    buffer = buffer_of(2_000, "zstd")

    def decode(seed: int) -> int:
        return sum(sum(memoryview(chunk.offset)) for chunk in records.decode_columns(buffer, rows_max=100 + seed))

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(decode, range(40))) == {sum(range(2_000))}
