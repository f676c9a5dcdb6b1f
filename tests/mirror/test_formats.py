"""The records of a mirror's own topics. The bytes are those of MirrorMaker 2's schemas."""

import pytest

from ottla.errors import CorruptMessage
from ottla.kafka import TopicPartition
from ottla.mirror.formats import Checkpoint, Heartbeat, OffsetSync


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (Heartbeat("A", "B", 258), b"\0\1A\0\1B", b"\0\0" + b"\0\0\0\0\0\0\1\2"),
        (
            OffsetSync(TopicPartition("t", 3), 7, 5),
            b"\0\1t\0\0\0\3",
            b"\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0\5",
        ),
        (
            Checkpoint("g", TopicPartition("A.t", 3), 7, 5, "m"),
            b"\0\1g\0\3A.t\0\0\0\3",
            b"\0\0" + b"\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0\5" + b"\0\1m",
        ),
    ],
)
def test_the_bytes(record: Heartbeat | OffsetSync | Checkpoint, key: bytes, value: bytes) -> None:
    assert (record.key(), record.value()) == (key, value)
    assert type(record).decode(key, value) == record
    for short in range(len(value)):
        with pytest.raises(CorruptMessage, match="ends after"):
            type(record).decode(key, value[:short])
    for short in range(len(key)):
        with pytest.raises(CorruptMessage, match="ends after"):
            type(record).decode(key[:short], value)


def test_another_version_is_refused() -> None:
    with pytest.raises(CorruptMessage, match="a heartbeat: version 1 is not known"):
        Heartbeat.decode(b"\0\1A\0\1B", b"\0\1" + bytes(8))
    with pytest.raises(CorruptMessage, match="the key of a heartbeat: 'utf-8' codec"):
        Heartbeat.decode(b"\0\1\xff\0\1B", b"\0\0" + bytes(8))
    with pytest.raises(CorruptMessage, match="a checkpoint: it ends after 0 bytes"):
        Checkpoint.decode(b"\0\1g", None)
