"""Arrow's memory as the encoder in Rust reads it: every kind of column that Spark may hand over, and slices."""

import pyarrow as pa
import pytest

from ottla import _core
from ottla.records import RecordReader
from ottla.spark.sink import rows
from ottla.spark.sink.options import parse

TEXTS = ["a", None, "", "ddd"]
BYTES = [None, b"1", b"22", b""]
HEADERS = [[{"key": "h", "value": b"v"}], None, [{"key": "i", "value": None}, {"key": "", "value": b""}], []]


def encoded(batch: pa.RecordBatch, **options: str) -> list[tuple[object, ...]]:
    """The records that a broker would be sent: timestamp, key, value, headers."""
    encoder = _core.RowEncoder(batch_bytes=1_000, record_bytes_max=1_000, memory_bytes=1_000)
    encoder.add_topic("t", 1)
    columns = rows.columns(batch, parse({"kafka.bootstrap.servers": "127.0.0.1:9092", **options}))
    assert encoder.append(batch.num_rows, 0, now_ms=7, **columns) == (batch.num_rows, None)
    encoder.flush()
    return [
        (record.timestamp_ms, record.key, record.value, record.headers)
        for _, _, _, data in encoder.take()
        for record in RecordReader(data)
    ]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("start", range(4))
def test_kinds_of_columns(large: bool, start: int) -> None:
    text, data = (pa.large_string(), pa.large_binary()) if large else (pa.string(), pa.binary())
    headers = (pa.large_list if large else pa.list_)(pa.struct([("key", text), ("value", data)]))
    batch = pa.record_batch(
        {
            "key": pa.array(TEXTS, text),
            "value": pa.array(BYTES, data),
            "topic": pa.array(["t"] * 4, text),
            "partition": pa.array([0, None, 0, None], pa.int32()),
            "headers": pa.array(HEADERS, headers),
            "timestamp": pa.array([5_999, None, 0, 1_000], pa.timestamp("us", tz="UTC")),
        }
    )
    wanted = [
        (
            (5, 7, 0, 1)[row],
            None if (text := TEXTS[row]) is None else text.encode(),
            BYTES[row],
            [(each["key"], each["value"]) for each in HEADERS[row] or ()],
        )
        for row in range(4)
    ]
    assert encoded(batch.slice(start), includeTimestamp="true") == wanted[start:]
    without = [(7, *row[1:]) for row in wanted[start:]]
    assert encoded(batch.slice(start), topic="t") == without


def test_memory_is_not_copied() -> None:
    batch = pa.record_batch({"value": pa.array(["x" * 100] * 10)})
    columns = rows.columns(batch, parse({"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "t"}))
    data = columns["value"][2]
    assert pa.py_buffer(data).address == batch.column(0).buffers()[2].address
