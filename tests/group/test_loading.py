"""From records back to groups: the last word counts, and transactions when their marker comes."""

import pytest

from ottla.group.loading import LoadedGroup, Replay, restore
from ottla.group.records import (
    CommittedOffset,
    StoredGroup,
    StoredMember,
    group_key,
    group_value,
    offset_key,
    offset_value,
)
from ottla.group.state import EMPTY, STABLE, Group, Limits

Record = tuple[bytes, bytes | None]


def commit(offset: int, group: str = "g", partition: int = 0) -> Record:
    return offset_key(group, "t", partition), offset_value(CommittedOffset(offset, -1, "", 5))


class Log:
    """Batches one after the other, as they would be in a partition."""

    def __init__(self) -> None:
        self.replay = Replay("test")
        self.end = 0

    def batch(self, *records: Record, producer_id: int = -1) -> "Log":
        numbered = [(self.end + number, key, value) for number, (key, value) in enumerate(records)]
        self.end += len(records)
        self.replay.take(producer_id, producer_id >= 0, None, numbered)
        return self

    def marker(self, producer_id: int, *, is_commit: bool) -> "Log":
        self.end += 1
        self.replay.take(producer_id, True, is_commit, [])
        return self

    def groups(self) -> dict[str, LoadedGroup]:
        for _ in self.replay.decode():
            pass
        return self.replay.groups

    def offset(self, partition: int = 0) -> int | None:
        group = self.groups().get("g")
        committed = group.offsets.get(("t", partition)) if group is not None else None
        return committed.offset if committed is not None else None


def test_the_last_commit_counts() -> None:
    assert Log().batch(commit(1), commit(2, partition=1)).batch(commit(3)).offset() == 3
    assert Log().batch(commit(1)).batch((offset_key("g", "t", 0), None)).groups() == {}


def test_keys_of_both_versions_are_the_same_partition() -> None:
    key, value = commit(9)
    assert Log().batch(commit(1)).batch((b"\x00\x00" + key[2:], value)).offset() == 9
    assert Log().batch((b"\x00\x00" + key[2:], value)).batch(commit(1)).offset() == 1


def test_a_transaction_counts_when_it_commits() -> None:
    assert Log().batch(commit(1)).batch(commit(5), producer_id=7).offset() == 1
    assert Log().batch(commit(1)).batch(commit(5), producer_id=7).marker(7, is_commit=True).offset() == 5
    assert Log().batch(commit(1)).batch(commit(5), producer_id=7).marker(7, is_commit=False).offset() == 1
    assert Log().batch(commit(5), producer_id=7).marker(8, is_commit=True).offset() is None


def test_a_commit_after_the_transactions_is_younger_than_it() -> None:
    log = Log().batch(commit(5), producer_id=7).batch(commit(9)).marker(7, is_commit=True)
    assert log.offset() == 9


def test_what_is_open_at_the_end_stays_open() -> None:
    group = Log().batch(commit(1)).batch(commit(5), producer_id=7).groups()["g"]
    assert group.offsets.is_unstable(("t", 0))
    group.offsets.end_transaction(7, is_commit=True)
    assert group.offsets.committed["t", 0] == (1, CommittedOffset(5, -1, "", 5))


def test_a_group_comes_back_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    members = [StoredMember("m", "i", "c", "/h", 30_000, 10_000, b"s", b"a"), StoredMember("n", None, "c", "/h", 1, 2)]
    stored = StoredGroup("consumer", 3, "range", "m", 99, members)
    log = Log().batch((group_key("g"), group_value(stored))).batch(commit(4))
    log.batch((b"\x00\x09unknown", b""), (group_key("gone"), group_value(stored))).batch((group_key("gone"), None))
    groups = log.groups()
    assert groups.keys() == {"g"}
    assert "version 9" in caplog.text
    group = Group("g", Limits(), lambda: "id")
    restore(group, groups["g"])
    assert (group.state, group.generation, group.protocol, group.leader) == (STABLE, 3, "range", "m")
    assert group.static_members == {"i": "m"}
    assert group.members["m"].assignment == b"a"
    committed = group.offsets.get(("t", 0))
    assert committed is not None
    assert committed.offset == 4


def test_a_group_without_members_is_empty() -> None:
    group = Group("g", Limits(), lambda: "id")
    stored = StoredGroup("consumer", 4, None, None, 99, [])
    restore(group, Log().batch((group_key("g"), group_value(stored))).groups()["g"])
    assert (group.state, group.generation, group.protocol_type, group.leader) == (EMPTY, 4, "consumer", None)
