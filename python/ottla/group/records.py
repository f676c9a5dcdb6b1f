"""The records of `__consumer_offsets`, as Apache Kafka 2.7 writes them.

A key is a version and fields, and its version says what the record is about: 0 and 1 an offset, 2 a group. A value is a
version and fields; no value is a tombstone. Versions of the values, all of which are read:

| value | 0 | 1 | 2 | 3 (written) | 4 |
|---|---|---|---|---|---|
| offset | | expiry of its own | none again | leader epoch (KIP-320) | flexible (Kafka 4) |
| group | | rebalance timeout | since when in this state | static members (KIP-345) | flexible |

An offset whose commit asked for a retention of its own (OffsetCommit 2 to 4) is written in version 1, the only one that
can say it. Source: kafka.coordinator.group.GroupMetadataManager.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ottla import _core
from ottla.errors import ProtocolError
from ottla.wire.schema import Int32, Int64, Message, V, describe

OFFSET_VERSION = 3
OFFSET_VERSION_WITH_EXPIRY = 1
GROUP_VERSION = 3
NO_TIMESTAMP = -1

_VERSION_BYTES = 2
#: Kafka 4's versions only add fields with tags.
_FLEXIBLE_FROM = 4


class UnknownRecord(ProtocolError):
    """A record of a kind or version that is not known; a later release wrote it."""


class OffsetKey(Message):
    group: str = ""
    topic: str = ""
    partition: Int32 = 0


class GroupKey(Message):
    group: str = ""


class CommittedOffset(Message):
    """How far a group has read a partition; `expire_timestamp_ms` only if the commit asked for it."""

    offset: Int64 = -1
    leader_epoch: Annotated[Int32, V("3+", ignorable=True)] = -1
    metadata: str = ""
    commit_timestamp_ms: Int64 = NO_TIMESTAMP
    expire_timestamp_ms: Annotated[Int64, V("1", ignorable=True)] = NO_TIMESTAMP


class StoredMember(Message):
    member_id: str = ""
    group_instance_id: Annotated[str | None, V("3+", nullable="3+", ignorable=True)] = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: Annotated[Int32, V("1+", ignorable=True)] = -1
    session_timeout_ms: Int32 = 0
    subscription: bytes = b""
    assignment: bytes = b""


class StoredGroup(Message):
    """A generation of a group: who is in it, and who got what. Without members the group is empty."""

    protocol_type: str = ""
    generation: Int32 = 0
    protocol: Annotated[str | None, V(nullable="0+")] = None
    leader: Annotated[str | None, V(nullable="0+")] = None
    state_timestamp_ms: Annotated[Int64, V("2+", ignorable=True)] = NO_TIMESTAMP
    members: list[StoredMember] = msgspec.field(default_factory=list)


def _schema(cls: type[Message], last: int) -> _core.Schema:
    return _core.Schema(describe(cls), (0, last), _FLEXIBLE_FROM)


_OFFSET_KEY, _GROUP_KEY = _schema(OffsetKey, 2), _schema(GroupKey, 2)
_OFFSET, _GROUP = _schema(CommittedOffset, 4), _schema(StoredGroup, 4)
_PREFIXES = [version.to_bytes(_VERSION_BYTES, "big") for version in range(5)]


def offset_key(group: str, topic: str, partition: int) -> bytes:
    return _PREFIXES[1] + _OFFSET_KEY.encode(1, OffsetKey(group, topic, partition))


def group_key(group: str) -> bytes:
    return _PREFIXES[2] + _GROUP_KEY.encode(2, GroupKey(group))


def offset_value(committed: CommittedOffset) -> bytes:
    version = OFFSET_VERSION if committed.expire_timestamp_ms == NO_TIMESTAMP else OFFSET_VERSION_WITH_EXPIRY
    return _PREFIXES[version] + _OFFSET.encode(version, committed)


def group_value(group: StoredGroup) -> bytes:
    return _PREFIXES[GROUP_VERSION] + _GROUP.encode(GROUP_VERSION, group)


def read_key(key: bytes) -> OffsetKey | GroupKey:
    """Raises UnknownRecord for what is neither, and ProtocolError for bytes that are no key."""
    version = _version(key)
    if version in (0, 1):
        offset: OffsetKey = _OFFSET_KEY.decode(version, key, _VERSION_BYTES)
        return offset
    if version == 2:
        group: GroupKey = _GROUP_KEY.decode(version, key, _VERSION_BYTES)
        return group
    raise UnknownRecord(f"a key of version {version}, known are 0 to 2")


def read_offset(value: bytes) -> CommittedOffset:
    committed: CommittedOffset = _read(_OFFSET, value)
    return committed


def read_group(value: bytes) -> StoredGroup:
    group: StoredGroup = _read(_GROUP, value)
    for member in group.members:
        if member.rebalance_timeout_ms < 0:
            member.rebalance_timeout_ms = member.session_timeout_ms
    return group


def _read(schema: _core.Schema, value: bytes) -> Any:
    version = _version(value)
    if version not in range(_FLEXIBLE_FROM + 1):
        raise UnknownRecord(f"a value of version {version}, known are 0 to {_FLEXIBLE_FROM}")
    return schema.decode(version, value, _VERSION_BYTES)


def _version(data: bytes) -> int:
    if len(data) < _VERSION_BYTES:
        raise ProtocolError(f"{len(data)} bytes: too short for a version")
    return int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
