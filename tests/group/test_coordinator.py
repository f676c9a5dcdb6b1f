"""The coordinator on a real log: what it keeps, what it forgets and when, and what becomes of those who wait."""

import math
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla import _core
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    IllegalGeneration,
    NotCoordinator,
    UnknownMemberId,
)
from ottla.group import coordinator
from ottla.group.coordinator import GroupCoordinator
from ottla.group.hosted import GroupSettings
from ottla.group.members import JoinRequest, JoinResult
from ottla.group.offsets import GroupOffsets
from ottla.group.records import (
    CommittedOffset,
    StoredGroup,
    StoredMember,
    group_key,
    group_value,
    offset_key,
    offset_value,
)
from ottla.group.state import EMPTY, GENERATION_MAX, STABLE, Limits
from ottla.kafka import TopicPartition
from ottla.replication.internal_topic import LoadedBatch, partition_for
from ottla.replication.roles import PartitionState
from tests.replication.internal import ME, NAME, Opened, opened
from tests.support.waiting import comes_true

DAY_MS = 86_400_000
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"
T0 = ("t", 0)


@dataclass
class Hosting:
    here: Opened
    groups: GroupCoordinator
    wall: list[int]
    errors: list[int] = field(default_factory=list)

    async def lead(self, group: str, epoch: int = 0) -> int:
        index = self.groups.topic.partition_for(group)
        await self.here.apply(index, epoch)
        await comes_true("the end of loading", lambda: not self.groups.is_loading)
        return index

    async def lose(self, group: str, epoch: int) -> None:
        await self.here.apply(self.groups.topic.partition_for(group), epoch, leader=2)

    async def finished(self, start: Callable[[Callable[[int], None]], None]) -> int:
        """The error that `done` is called with."""
        done, errors = trio.Event(), []

        def called(error: int) -> None:
            errors.append(error)
            done.set()

        start(called)
        await done.wait()
        return errors[0]

    async def commit(self, group: str, offset: int, *, generation: int = -1, member: str = "") -> int:
        commits = {T0: CommittedOffset(offset, -1, "", self.wall[0])}
        return await self.finished(lambda done: self.groups.commit(group, member, None, generation, commits, done))

    async def commit_in_transaction(self, group: str, producer_id: int, offset: int) -> int:
        commits = {T0: CommittedOffset(offset, -1, "", self.wall[0])}
        producer = (producer_id, 0)
        return await self.finished(
            lambda done: self.groups.commit_in_transaction(group, producer, "", None, -1, commits, done)
        )

    async def marker(self, group: str, producer_id: int, *, is_commit: bool) -> None:
        index = self.groups.topic.partition_for(group)
        partition = self.here.replicas.partitions[NAME, index]
        batch = _core.marker_batch(producer_id, 0, is_commit, 0, 1)
        partition.log.append_bytes(batch, partition.leader_epoch, origin="coordinator")
        self.groups.marker_written(index, producer_id, is_commit)

    async def join(self, group: str, member_id: str = "") -> JoinResult:
        answer: list[JoinResult] = []
        done = trio.Event()

        def joined(result: JoinResult) -> None:
            answer.append(result)
            done.set()

        request = JoinRequest(member_id, None, "c", "/h", 10_000, 20_000, "consumer", [("range", SUBSCRIPTION)])
        self.groups.join(group, request, joined)
        await done.wait()
        return answer[0]

    async def settle(self, group: str) -> str:
        """A stable group of one member, whose id is returned."""
        joined = await self.join(group)
        assert joined.error == 0
        error = await self.finished(
            lambda done: self.groups.sync(
                group, joined.member_id, None, joined.generation, None, None, {}, lambda result: done(result.error)
            )
        )
        assert error == 0
        return joined.member_id

    def offset(self, group: str) -> int | None:
        hosted = self.groups.groups.get(group)
        committed = hosted.group.offsets.get(T0) if hosted is not None else None
        return committed.offset if committed is not None else None


@asynccontextmanager
async def hosting(path: Path) -> AsyncIterator[Hosting]:
    async with opened(path) as here, trio.open_nursery() as nursery:
        wall = [1_700_000_000_000]
        settings = GroupSettings(retention_ms=7 * DAY_MS, limits=Limits(initial_rebalance_delay_ms=0))
        groups = GroupCoordinator(here.topic, here.deadlines, settings, wall_ms=lambda: wall[0])
        await nursery.start(groups.run)
        yield Hosting(here, groups, wall)
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_groups_are_served_where_their_partition_is_led(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        assert await host.commit("g", 1) == NotCoordinator.code
        await host.lead("g")
        assert await host.commit("g", 1) == 0
        await host.lose("g", 1)
        assert host.groups.groups == {}
        assert await host.commit("g", 2) == NotCoordinator.code
        assert (await host.join("g")).error == NotCoordinator.code
        await host.lead("g", 2)
        assert host.offset("g") == 1


@pytest.mark.trio
async def test_a_new_coordinator_knows_the_group(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        await host.lead("g")
        member = await host.settle("g")
        assert await host.commit("g", 5, generation=1, member=member) == 0
        await host.lead("g", 1)  # another epoch, the same leader
        group = host.groups.groups["g"].group
        assert (group.state, group.generation, list(group.members)) == (STABLE, 1, [member])
        assert host.offset("g") == 5
        assert host.groups.heartbeat("g", member, None, 1) == 0
        assert host.groups.heartbeat("g", member, None, 0) == IllegalGeneration.code


@pytest.mark.trio
@pytest.mark.parametrize("members", [0, 1])
async def test_after_the_largest_generation_they_begin_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, members: int
) -> None:
    """No larger one can be told, nor stored. A member that the log has is given up at once."""
    stored_members = [StoredMember("gone", None, "c", "/h", 1, 1, SUBSCRIPTION)] * members
    stored = StoredGroup("consumer", GENERATION_MAX, "range" if members else None, None, 1, stored_members)
    async with hosting(tmp_path) as host:
        index = await host.lead("g")
        await host.here.topic.append(index, 0, [(group_key("g"), group_value(stored))])
        await host.lose("g", 1)
        await host.lead("g", 2)
        if members:
            await comes_true("the end of a member", lambda: host.groups.groups["g"].group.state is EMPTY)
        member = await host.settle("g")
        assert await host.commit("g", 5, generation=1 + members, member=member) == 0
        await host.lose("g", 3)
        await host.lead("g", 4)
        assert host.groups.heartbeat("g", member, None, 1 + members) == 0
    assert "Traceback" not in caplog.text


@pytest.mark.trio
async def test_while_it_loads_nobody_is_turned_away_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Least of all when the log cannot be read: an empty answer would let consumers begin anew."""
    monkeypatch.setattr(coordinator, "RELOAD_SECONDS", 0.01)
    async with hosting(tmp_path) as host:
        index = await host.lead("g")
        assert await host.commit("g", 1) == 0
        await host.lose("g", 1)
        (file,) = (tmp_path / f"{NAME}-{index}").glob("*.log")
        sound = file.read_bytes()
        file.write_bytes(sound[:-1] + b"?")
        await host.here.apply(index, 2)
        await comes_true("a third try", lambda: caplog.text.count("cannot be read, it is tried again") >= 3)
        assert host.groups.missing("g") == CoordinatorLoadInProgress.code
        assert host.groups.heartbeat("g", "m", None, 1) == 0
        file.write_bytes(sound)
        await host.lead("g", 3)
        assert host.offset("g") == 1


@pytest.mark.trio
async def test_transactions_count_when_they_commit(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        await host.lead("g")
        assert await host.commit("g", 1) == 0
        assert await host.commit_in_transaction("g", 7, 5) == 0
        assert host.offset("g") == 1
        assert host.groups.groups["g"].group.offsets.is_unstable(T0)
        await host.marker("g", 7, is_commit=True)
        assert host.offset("g") == 5
        assert await host.commit_in_transaction("g", 8, 9) == 0
        await host.marker("g", 8, is_commit=False)
        assert host.offset("g") == 5
        assert await host.commit_in_transaction("g", 9, 11) == 0
        await host.lead("g", 1)
        assert host.offset("g") == 5
        await host.marker("g", 9, is_commit=True)
        assert host.offset("g") == 11
        await host.lead("g", 2)
        assert host.offset("g") == 11
        host.groups.marker_written(0, 12345, True)  # of somebody who committed nothing here


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("is_read", [True, False], ids=["the marker is read, too", "the marker comes too late"])
@pytest.mark.trio
async def test_a_transaction_that_ends_while_its_group_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_commit: bool, is_read: bool
) -> None:
    async with hosting(tmp_path) as host:
        await host.lead("g")
        assert await host.commit("g", 1) == 0
        assert await host.commit_in_transaction("g", 7, 5) == 0
        index = host.groups.topic.partition_for("g")
        load, is_here, may_go_on = host.groups.topic.load, trio.Event(), trio.Event()

        async def slow(which: int) -> AsyncIterator[LoadedBatch]:
            # The end that is read up to is fixed when the first batch is asked for.
            batches = [] if is_read else [batch async for batch in load(which)]
            is_here.set()
            await may_go_on.wait()
            for batch in batches or [batch async for batch in load(which)]:
                yield batch

        monkeypatch.setattr(host.groups.topic, "load", slow)
        await host.lose("g", 1)
        await host.here.apply(index, 2)
        await comes_true("the beginning of loading", is_here.is_set)
        await host.marker("g", 7, is_commit=is_commit)
        may_go_on.set()
        await comes_true("the end of loading", lambda: not host.groups.is_loading)
        assert not host.groups.groups["g"].group.offsets.is_unstable(T0)
        assert host.offset("g") == (5 if is_commit else 1)
        # What the next transaction commits is not ended with it.
        assert await host.commit_in_transaction("g", 7, 9) == 0
        assert host.groups.groups["g"].group.offsets.is_unstable(T0)


@pytest.mark.trio
async def test_offsets_expire_counted_from_when_the_group_became_empty(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        await host.lead("g")
        member = await host.settle("g")
        assert await host.commit("g", 5, generation=1, member=member) == 0
        host.wall[0] += 30 * DAY_MS
        await host.groups.removal.expire_offsets()
        assert host.offset("g") == 5, "a member reads the topic"
        host.groups.leave("g", [(member, None)])
        assert host.groups.groups["g"].group.state is EMPTY
        for epoch in (1, 2):  # the time is kept in the log
            host.wall[0] += 3 * DAY_MS
            await host.lead("g", epoch)
            await host.groups.removal.expire_offsets()
            assert host.offset("g") == 5
        host.wall[0] += DAY_MS
        await host.groups.removal.expire_offsets()
        assert "g" not in host.groups.groups
        await host.lead("g", 3)
        assert "g" not in host.groups.groups, "tombstones"


@pytest.mark.trio
async def test_offsets_of_who_only_keeps_them_here_expire_from_each_commit(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        await host.lead("g")
        assert await host.commit("g", 5) == 0
        host.wall[0] += 7 * DAY_MS - 1
        await host.groups.removal.expire_offsets()
        assert host.offset("g") == 5
        host.wall[0] += 1
        await host.groups.removal.expire_offsets()
        assert "g" not in host.groups.groups


@pytest.mark.trio
async def test_what_kafka_wrote_long_ago_is_read(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        index = host.groups.topic.partition_for("g")
        await host.here.apply(index, 0)
        key = offset_key("g", "t", 0)
        value = b"\x00\x01" + (42).to_bytes(8, "big") + b"\x00\x00" + (5).to_bytes(8, "big") + (9).to_bytes(8, "big")
        await host.here.topic.append(index, 0, [(b"\x00\x00" + key[2:], value), (b"\x00\x07later", b"?")])
        await host.lead("g", 1)
        assert host.offset("g") == 42
        await host.groups.removal.expire_offsets()
        assert "g" not in host.groups.groups, "its own expiry was in 1970"


def message(key: bytes, value: bytes) -> bytes:
    """As Kafka 0.10 wrote it: format 1, at offset 0."""
    content = b"\x01\x00" + (5).to_bytes(8, "big")
    content += b"".join(len(part).to_bytes(4, "big") + part for part in (key, value))
    return bytes(8) + (4 + len(content)).to_bytes(4, "big") + zlib.crc32(content).to_bytes(4, "big") + content


@pytest.mark.trio
async def test_messages_of_old_formats_are_read(tmp_path: Path) -> None:
    folder = tmp_path / f"{NAME}-{partition_for('g', 50)}"
    folder.mkdir()
    old = b"\x00\x00" + (42).to_bytes(8, "big") + b"\x00\x00" + (5).to_bytes(8, "big")
    (folder / "00000000000000000000.log").write_bytes(message(offset_key("g", "t", 0), old))
    async with hosting(tmp_path) as host:
        await host.lead("g")
        assert host.offset("g") == 42


@pytest.mark.trio
async def test_who_waits_is_answered_when_the_partition_is_lost(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        await host.lead("g")
        member = await host.settle("g")
        answers: list[JoinResult] = []
        request = JoinRequest("", None, "c", "/h", 10_000, 20_000, "consumer", [("range", SUBSCRIPTION)])
        host.groups.join("g", request, answers.append)
        assert answers == []
        await host.lose("g", 1)
        assert [answer.error for answer in answers] == [NotCoordinator.code]
        assert host.groups.heartbeat("g", member, None, 1) == NotCoordinator.code


@pytest.mark.trio
async def test_members_are_given_up_in_time(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    # While the disk is waited for the clock stands still.
    autojump_clock.autojump_threshold = math.inf
    async with hosting(tmp_path) as host:
        groups = GroupCoordinator(
            host.here.topic,
            host.here.deadlines,
            host.groups.settings,
            now_ms=lambda: int(trio.current_time() * 1000),
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(groups.run)
            host.groups = groups
            await host.lead("g")
            member = await host.settle("g")
            autojump_clock.autojump_threshold = 0.05
            for _ in range(5):
                await trio.sleep(9.9)
                assert groups.heartbeat("g", member, None, 1) == 0
            await trio.sleep(10.2)
            assert groups.heartbeat("g", member, None, 1) == UnknownMemberId.code
            nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_a_commit_that_is_not_safe_is_not_visible(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        index = await host.lead("g")
        assert await host.commit("g", 1) == 0
        host.here.replicas.partitions[NAME, index].change(min_insync_replicas=2)
        assert await host.commit("g", 2) == CoordinatorNotAvailable.code
        assert host.offset("g") == 1
        assert not host.groups.groups["g"].group.offsets.is_unstable(T0)


@pytest.mark.trio
async def test_a_commit_is_not_answered_while_another_replica_lacks_it(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host, trio.open_nursery() as nursery:
        index = await host.lead("g")
        assert await host.commit("g", 1) == 0
        partition = host.here.replicas.partitions[NAME, index]
        await host.here.replicas.apply(NAME, {index: PartitionState(1, ME, 1, (ME, 2), (ME, 2), 0)})
        await comes_true("the end of loading", lambda: not host.groups.is_loading)
        answers: list[int] = []

        async def commit() -> None:
            answers.append(await host.commit("g", 2))

        nursery.start_soon(commit)
        await comes_true("an answer or a wait for the disk", lambda: answers or partition.waiting_produces)
        assert answers == []
        assert host.offset("g") == 1
        await host.lose("g", 2)
    assert answers == [NotCoordinator.code]


def test_a_value_has_the_version_that_kafka_2_7_writes() -> None:
    assert offset_value(CommittedOffset(1))[:2] == b"\x00\x03"


@pytest.mark.trio
async def test_a_group_that_fails_keeps_no_other_from_expiring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with hosting(tmp_path) as host:
        for group in ("bad", "good"):
            await host.lead(group)
            assert await host.commit(group, 5) == 0
        host.wall[0] += 7 * DAY_MS
        bad, expired = host.groups.groups["bad"].group.offsets, GroupOffsets.expired

        def fails_for_one(offsets: GroupOffsets, *args: Any, **more: Any) -> list[TopicPartition]:
            if offsets is bad:
                raise RuntimeError("a mistake")
            return expired(offsets, *args, **more)

        monkeypatch.setattr(GroupOffsets, "expired", fails_for_one)
        await host.groups.removal.expire_offsets()
        assert set(host.groups.groups) == {"bad"}
        assert "the expiry of offsets of group bad failed" in caplog.text
