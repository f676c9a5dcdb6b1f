"""Internal topics on real logs: what coordinators append is safe when they hear of it, and read back as it was."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from ottla import _core
from ottla.errors import NotEnoughReplicas, NotLeaderOrFollower, UnknownTopicOrPartition
from ottla.replication.internal_topic import partition_for
from ottla.replication.roles import PartitionState
from tests.replication.internal import ME, NAME, opened
from tests.support.waiting import comes_true


@dataclass
class Roles:
    seen: list[tuple[object, ...]] = field(default_factory=list)

    def elected(self, index: int, leader_epoch: int) -> None:
        self.seen.append(("elected", index, leader_epoch))

    def resigned(self, index: int) -> None:
        self.seen.append(("resigned", index))


@pytest.mark.trio
async def test_what_is_appended_is_on_disk_and_loads_as_it_was(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        await here.apply(3, 0)
        assert await here.topic.append(3, 0, [(b"k1", b"v1"), (b"k2", None)]) == 1
        assert await here.topic.append(3, 0, [(b"k1", b"v2")], producer=(7, 2)) == 2
        log = here.replicas.partitions[NAME, 3].log
        assert log.flushed_offset == log.high_watermark == 3
        log.append_bytes(_core.marker_batch(7, 2, True, 0, 1), 0, origin="coordinator")
        log.append_bytes(_core.marker_batch(8, 0, False, 0, 1), 0, origin="coordinator")
        batches = await here.everything(3)
        assert [batch.records for batch in batches[:2]] == [
            [(0, b"k1", b"v1"), (1, b"k2", None)],
            [(2, b"k1", b"v2")],
        ]
        assert [(batch.info.producer_id, batch.info.is_transactional) for batch in batches[:2]] == [
            (-1, False),
            (7, True),
        ]
        assert [(batch.info.producer_id, batch.is_commit, batch.records) for batch in batches[2:]] == [
            (7, True, []),
            (8, False, []),
        ]


@pytest.mark.trio
async def test_a_large_partition_loads_in_pieces(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        await here.apply(0, 0)
        for start in range(0, 5_000, 500):
            await here.topic.append(0, 0, [(b"%d" % number, bytes(200)) for number in range(start, start + 500)])
        batches = await here.everything(0)
        assert [record[1] for batch in batches for record in batch.records] == [b"%d" % n for n in range(5_000)]


@pytest.mark.trio
async def test_no_more_is_read_at_once_than_is_allowed_but_for_one_batch(tmp_path: Path) -> None:
    async with opened(tmp_path, load_bytes=1_000) as here:
        await here.apply(0, 0)
        for start in range(0, 60, 20):
            await here.topic.append(0, 0, [(b"%d" % number, bytes(200)) for number in range(start, start + 20)])
        for number in range(60, 70):
            await here.topic.append(0, 0, [(b"%d" % number, bytes(200))])
        loading = here.topic.load(0)
        held = [(batch.info.base_offset, len(loading._batches)) async for batch in loading]
        assert held[:3] == [(0, 0), (20, 0), (40, 0)], "each was larger, and came alone"
        assert max(more for _, more in held) == 2, "the others came by threes"
        assert held[-1][0] == 69


@pytest.mark.trio
@pytest.mark.parametrize(("acks", "is_waited_for"), [(-1, True), (0, False), (1, False)])
async def test_an_append_waits_for_as_many_acks_as_are_required(tmp_path: Path, acks: int, is_waited_for: bool) -> None:
    async with opened(tmp_path, required_acks=acks) as here:
        await here.apply(0, 0)
        here.replicas.partitions[NAME, 0].change(min_insync_replicas=2)
        if is_waited_for:
            with pytest.raises(NotEnoughReplicas):
                await here.topic.append(0, 0, [(b"k", b"v")])
        else:
            await here.topic.append(0, 0, [(b"k", b"v")])
            assert here.replicas.partitions[NAME, 0].log.end_offset == 1


@pytest.mark.trio
@pytest.mark.parametrize(("acks", "is_waited_for"), [(-1, True), (0, False), (1, False)])
async def test_an_append_waits_for_the_other_replicas(tmp_path: Path, acks: int, is_waited_for: bool) -> None:
    async with opened(tmp_path, required_acks=acks) as here:
        await here.replicas.apply(NAME, {0: PartitionState(1, ME, 0, (ME, 2), (ME, 2), 0)})
        partition = here.replicas.partitions[NAME, 0]
        outcomes: list[tuple[int, int]] = []
        here.topic.append_then(0, 0, [(b"k", b"v")], lambda *outcome: outcomes.append(outcome))
        # Another thread may be writing it.
        await comes_true("an outcome, or a wait for the others", lambda: bool(outcomes or partition.waiting_produces))
        assert outcomes == ([] if is_waited_for else [(0, 0)])


@pytest.mark.trio
async def test_what_is_safe_at_once_is_flushed_as_often_as_settings_say(tmp_path: Path) -> None:
    async with opened(tmp_path, required_acks=1, **{"log.flush.interval.messages": "1"}) as here:
        await here.apply(0, 0)
        assert await here.topic.append(0, 0, [(b"k", b"v")]) == 0
        log = here.replicas.partitions[NAME, 0].log
        await comes_true("the flush", lambda: log.flushed_offset == 1)


@pytest.mark.trio
async def test_appends_of_another_epoch_are_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        with pytest.raises(UnknownTopicOrPartition):
            await here.topic.append(0, 0, [(b"k", b"v")])
        await here.apply(0, 4)
        with pytest.raises(NotLeaderOrFollower):
            await here.topic.append(0, 3, [(b"k", b"v")])
        await here.apply(0, 5, leader=2)
        with pytest.raises(NotLeaderOrFollower):
            await here.topic.append(0, 5, [(b"k", b"v")])
        assert here.topic.term(0) is None
        assert here.replicas.partitions[NAME, 0].log.end_offset == 0


@pytest.mark.trio
async def test_a_role_change_fails_appends_that_wait(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        await here.apply(0, 0)
        partition = here.replicas.partitions[NAME, 0]
        outcomes: list[tuple[int, int]] = []
        here.topic.append_then(0, 0, [(b"k", b"v")], lambda *outcome: outcomes.append(outcome))
        assert outcomes == []  # it waits for the disk
        partition.apply(PartitionState(1, 2, 1, (2,), (1, 2), 0))
        assert outcomes == [(NotLeaderOrFollower.code, 0)]
        await here.apply(0, 2)
        partition.change(min_insync_replicas=2)
        with pytest.raises(NotEnoughReplicas):
            await here.topic.append(0, 2, [(b"k", b"v")])


@pytest.mark.trio
async def test_the_appends_of_a_turn_are_one_batch(tmp_path: Path) -> None:
    async with opened(tmp_path, in_turns=True) as here:
        await here.apply(0, 0)
        log = here.replicas.partitions[NAME, 0].log
        answers: dict[str, tuple[int, int]] = {}
        safe = trio.Event()

        def append(name: str, *records: bytes) -> None:
            def appended(error: int, last_offset: int) -> None:
                answers[name] = (error, last_offset)
                if len(answers) == 3:
                    safe.set()

            here.topic.append_shared(0, 0, [(key, b"v") for key in records], appended)

        append("a", b"1", b"2")
        append("b", b"3")
        assert log.end_offset == 0
        # What does not share a batch keeps its place all the same.
        here.topic.append_then(0, 0, [(b"4", None)], lambda error, _: None)
        append("c", b"5")
        here.turn.end()
        await safe.wait()
        here.turn.is_open = True
        append("refused", b"6")
        await here.apply(0, 2)
        here.turn.end()
        assert answers == {"a": (0, 1), "b": (0, 2), "c": (0, 4), "refused": (NotLeaderOrFollower.code, -1)}
        batches = await here.everything(0)
        assert [[key for _, key, _ in batch.records] for batch in batches] == [[b"1", b"2", b"3"], [b"4"], [b"5"]]


@pytest.mark.trio
async def test_loading_stops_when_the_role_changes(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        await here.apply(0, 0)
        await here.topic.append(0, 0, [(b"k", b"v")])
        loading = here.topic.load(0)
        await here.apply(0, 2)
        with pytest.raises(NotLeaderOrFollower):
            await anext(loading)


@pytest.mark.trio
async def test_a_listener_hears_of_every_role(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        roles = Roles()
        await here.apply(1, 0)
        here.topic.subscribe(roles)
        assert roles.seen == [("elected", 1, 0)]
        roles.seen.clear()
        await here.apply(1, 0)
        await here.apply(2, 7, leader=2)
        assert roles.seen == []
        await here.apply(1, 3)
        await here.apply(1, 4, leader=2)
        await here.apply(1, 5)
        await here.replicas.stop(NAME, 1, delete=False)
        assert roles.seen == [
            ("resigned", 1),
            ("elected", 1, 3),
            ("resigned", 1),
            ("elected", 1, 5),
            ("resigned", 1),
        ]


def test_keys_belong_to_the_partitions_that_java_gives_them() -> None:
    # "polygenelubricants".hashCode() is -2**31, whose absolute value is no int; the others by Java's formula.
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("", 50) == 0
    assert partition_for("a", 50) == 97 % 50
    assert partition_for("hello", 1000) == 99162322 % 1000
    assert partition_for("\U0001f600", 1 << 31) == 0xD83D * 31 + 0xDE00
