"""Message sets of the formats before record batches."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its own files by a deprecated function
    from kafka.record.memory_records import MemoryRecordsBuilder

NUMBERS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}


def message_set(magic: int, codec: str, *records: tuple[int, bytes | None, bytes | None]) -> bytes:
    """As kafka-python's producer sends it."""
    builder = MemoryRecordsBuilder(magic, NUMBERS[codec], 1 << 20)
    for timestamp_ms, key, value in records:
        assert builder.append(timestamp_ms, key, value)
    builder.close()
    return bytes(builder.buffer())
