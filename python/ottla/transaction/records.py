"""The records of `__transaction_state`, byte for byte as Apache Kafka 2.7 writes and reads them (TransactionLog).

    key    int16 version 0, string transactional id
    value  int16 version 0, int64 producer id, int16 epoch, int32 timeout in ms, int8 state,
           nullable array of (string topic, array of int32 partition), int64 updated ms, int64 started ms
           or no value: the id has expired

A string is its length in two bytes and UTF-8; an array its length in four bytes (-1 is null, and means Empty). Kafka
3.x reads and writes the same version 0; version 1 of 4.x (tagged fields, KIP-890) is refused by name.
"""

from __future__ import annotations

import struct

from ottla.errors import CorruptMessage
from ottla.kafka import NO_EPOCH, TopicPartition
from ottla.transaction.transaction import State, Transition

VERSION = 0
_HEAD = struct.Struct(">hqhib")
_TIMES = struct.Struct(">qq")
_STATES = {state.value: state for state in State}
_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")


def encode_key(transactional_id: str) -> bytes:
    """Raises struct.error for an id of 32 KiB and more, which no request can carry."""
    return _INT16.pack(VERSION) + _string(transactional_id)


def encode_value(transition: Transition) -> bytes:
    """The record that makes `transition` true once it is committed."""
    head = _HEAD.pack(VERSION, transition.producer_id, transition.epoch, transition.timeout_ms, transition.state)
    if transition.state is State.EMPTY:
        partitions = _INT32.pack(-1)
    else:
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(transition.partitions):
            by_topic.setdefault(topic, []).append(index)
        partitions = _INT32.pack(len(by_topic)) + b"".join(
            _string(topic) + struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)
            for topic, indexes in by_topic.items()
        )
    return head + partitions + _TIMES.pack(transition.updated_ms, transition.started_ms)


def decode_key(data: bytes | memoryview | None) -> str:
    """The transactional id. Raises CorruptMessage for anything that is not a key of this topic."""
    try:
        if data is None:
            raise ValueError("a record without a key")
        _check_version(_INT16.unpack_from(data)[0])
        return _read_string(data, 2)[0]
    except (ValueError, struct.error) as problem:
        raise CorruptMessage(f"the key of a transaction record: {problem}") from None


def decode_value(data: bytes | memoryview) -> Transition:
    """Raises CorruptMessage for anything that is not a value of this topic."""
    try:
        version, producer_id, epoch, timeout_ms, state = _HEAD.unpack_from(data)
        _check_version(version)
        if state not in _STATES:
            raise ValueError(f"state {state}")
        partitions, position = _read_partitions(data, _HEAD.size)
        updated_ms, started_ms = _TIMES.unpack_from(data, position)
    except (ValueError, struct.error) as problem:
        raise CorruptMessage(f"the value of a transaction record: {problem}") from None
    return Transition(
        _STATES[state], producer_id, epoch, timeout_ms, partitions, started_ms, updated_ms, last_epoch=NO_EPOCH
    )


def _read_partitions(data: bytes | memoryview, position: int) -> tuple[frozenset[TopicPartition], int]:
    (topics,) = _INT32.unpack_from(data, position)
    position += 4
    found: list[TopicPartition] = []
    for _ in range(topics):
        topic, position = _read_string(data, position)
        (count,) = _INT32.unpack_from(data, position)
        if not 0 <= count <= (len(data) - position) // 4:
            raise ValueError(f"{count} partitions")
        found += [TopicPartition(topic, index) for index in struct.unpack_from(f">{count}i", data, position + 4)]
        position += 4 + 4 * count
    return frozenset(found), position


def _check_version(version: int) -> None:
    if version != VERSION:
        raise ValueError(f"version {version}, and only version {VERSION} is known")


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _read_string(data: bytes | memoryview, position: int) -> tuple[str, int]:
    (length,) = _INT16.unpack_from(data, position)
    end = position + 2 + length
    if not position + 2 <= end <= len(data):
        raise ValueError(f"a string of {length} bytes where {len(data) - position - 2} are left")
    return str(data[position + 2 : end], "utf-8"), end
