"""Records of `__consumer_offsets`: the bytes, all versions, and what is no record."""

import pytest

from ottla.errors import ProtocolError
from ottla.group.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    StoredGroup,
    StoredMember,
    UnknownRecord,
    group_key,
    group_value,
    offset_key,
    offset_value,
    read_group,
    read_key,
    read_offset,
)

OFFSET = CommittedOffset(42, 7, "note", 1_700_000_000_000)
MEMBER = StoredMember("m-1", "instance", "client", "/127.0.0.1", 60_000, 10_000, b"topics", b"parts")
GROUP = StoredGroup("consumer", 3, "range", "m-1", 1_700_000_000_000, [MEMBER])


def test_an_offset_has_the_bytes_that_kafka_writes() -> None:
    assert offset_key("g", "topic", 5) == b"\x00\x01\x00\x01g\x00\x05topic\x00\x00\x00\x05"
    assert offset_value(OFFSET) == (
        b"\x00\x03"
        + (42).to_bytes(8, "big")
        + (7).to_bytes(4, "big")
        + b"\x00\x04note"
        + (1_700_000_000_000).to_bytes(8, "big")
    )


def test_a_group_has_the_bytes_that_kafka_writes() -> None:
    assert group_key("g") == b"\x00\x02\x00\x01g"
    assert group_value(GROUP) == (
        b"\x00\x03\x00\x08consumer\x00\x00\x00\x03\x00\x05range\x00\x03m-1"
        + (1_700_000_000_000).to_bytes(8, "big")
        + b"\x00\x00\x00\x01\x00\x03m-1\x00\x08instance\x00\x06client\x00\x0a/127.0.0.1"
        + (60_000).to_bytes(4, "big")
        + (10_000).to_bytes(4, "big")
        + b"\x00\x00\x00\x06topics\x00\x00\x00\x05parts"
    )


def test_what_is_written_is_read() -> None:
    assert read_key(offset_key("g", "t", 1)) == OffsetKey("g", "t", 1)
    assert read_key(group_key("ünï")) == GroupKey("ünï")
    assert read_offset(offset_value(OFFSET)) == OFFSET
    assert read_group(group_value(GROUP)) == GROUP
    empty = StoredGroup("consumer", 4, None, None, -1, [])
    assert read_group(group_value(empty)) == empty


def test_an_expiry_of_its_own_is_kept_in_version_1() -> None:
    value = offset_value(CommittedOffset(42, 7, "", 5, expire_timestamp_ms=9))
    assert value[:2] == b"\x00\x01"
    assert read_offset(value) == CommittedOffset(42, -1, "", 5, 9)  # which knows no leader epoch


def test_earlier_versions_are_read() -> None:
    number = (42).to_bytes(8, "big")
    when = (5).to_bytes(8, "big")
    assert read_offset(b"\x00\x00" + number + b"\x00\x00" + when) == CommittedOffset(42, -1, "", 5)
    assert read_offset(b"\x00\x01" + number + b"\x00\x00" + when + b"\xff" * 8) == CommittedOffset(42, -1, "", 5)
    assert read_offset(b"\x00\x02" + number + b"\x00\x01x" + when) == CommittedOffset(42, -1, "x", 5)
    member = b"\x00\x01m\x00\x01c\x00\x01h" + (10_000).to_bytes(4, "big") + b"\x00\x00\x00\x00" * 2
    group = b"\x00\x00\x00\x01p\x00\x00\x00\x03\xff\xff\xff\xff\x00\x00\x00\x01" + member
    # Before version 1 a member's rebalance timeout was its session timeout.
    assert read_group(group) == StoredGroup("p", 3, None, None, -1, [StoredMember("m", None, "c", "h", 10_000, 10_000)])


@pytest.mark.parametrize("key", [b"\x00\x03\x00\x01g", b"\xff\xff"])
def test_keys_of_a_later_release_are_told_apart(key: bytes) -> None:
    with pytest.raises(UnknownRecord):
        read_key(key)
    with pytest.raises(UnknownRecord):
        read_offset(b"\x00\x05")


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x01", b"\x00\x01\x00\x09g", b"\x00\x02\xff\xff"])
def test_bytes_that_are_no_record_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_key(data)
