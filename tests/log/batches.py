"""Record batches written by hand (format v2, uncompressed): tests must not depend on the code that they test."""

import struct

import crc32c


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value & ~0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def batch(
    *values: bytes,
    timestamp_ms: int = 1_000,
    key: bytes | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    offset: int = 0,
    epoch: int = -1,
    attributes: int = 0,
) -> bytes:
    """A batch of one record per value. `producer`: id, epoch, first sequence number."""
    records = b""
    for at, value in enumerate(values):
        keyed = varint(-1) if key is None else varint(len(key)) + key
        body = b"\0" + varint(0) + varint(at) + keyed + varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    checked = struct.pack(">hiqqqhii", attributes, len(values) - 1, timestamp_ms, timestamp_ms, *producer, len(values))
    checked += records
    head = struct.pack(">iBI", epoch, 2, crc32c.crc32c(checked))
    return struct.pack(">qi", offset, len(head) + len(checked)) + head + checked
