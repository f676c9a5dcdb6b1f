"""The copying of a flow while the clusters on either side change under it: one partition, broker or batch stops no
other. The same rows as for the clients of `ottla.client`, for the source and for the target.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
import trio

from ottla.client import Cluster, TopicPartition
from ottla.mirror.config import read
from ottla.mirror.copying import Copying
from ottla.mirror.figures import Figures
from ottla.mirror.notes import Notes
from ottla.mirror.syncs import Syncs
from ottla.wire.k26_end_txn import END_TXN
from tests.client.scripted_cluster import World
from tests.support.conversations import ROWS, Row
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio
HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)
MIRRORS = TopicPartition("A.t", 0), TopicPartition("A.t", 1)


class Sides:
    """Two scripted clusters of two brokers; t of the one is mirrored as A.t in the other."""

    def __init__(self) -> None:
        self.source, self.target = World(1, 2), World(1, 2)
        self.source.topic("t", 1, 2)
        self.target.topic("A.t", 1, 2)
        # What befalls is told of t.
        self.target.topics["t"] = self.target.topics["A.t"]
        self.source.coordinator = self.target.coordinator = 2

    def add(self, partition: TopicPartition, *values: bytes) -> None:
        self.source[partition].add(*values)
        self.source.change()

    async def hold(self, here: Iterable[bytes] | None, there: Iterable[bytes]) -> None:
        """Waits until the mirrors have these records; None: whatever they have."""
        for partition, wanted in zip(MIRRORS, (here, there), strict=True):
            if wanted is not None:
                with trio.fail_after(PATIENCE_S):
                    while self.values(partition) != list(wanted):
                        await trio.lowlevel.checkpoint()

    def values(self, partition: TopicPartition) -> list[bytes]:
        part = self.target[partition]
        return [value for offset, (_, value) in enumerate(part.records) if offset not in part.aborted]

    async def committed_there(self, offset: int) -> None:
        with trio.fail_after(PATIENCE_S):
            while self.target.committed.get(MIRRORS[1]) != offset:
                await trio.lowlevel.checkpoint()

    async def committed(self, *offsets: int) -> None:
        wanted = dict(zip(MIRRORS, offsets, strict=True))
        with trio.fail_after(PATIENCE_S):
            while self.target.committed != wanted:
                await trio.lowlevel.checkpoint()


class Topics:
    """What a flow knows of its topics."""

    def __init__(self) -> None:
        self.mirrored = {"t": 2}
        self.looks = 0

    async def refresh(self) -> None:
        self.looks += 1


@asynccontextmanager
async def copying(sides: Sides, *, exactly_once: bool) -> AsyncIterator[Figures]:
    settings = {
        "clusters": "A, B",
        "A.bootstrap.servers": f"127.0.0.1:{sides.source.brokers[2].port}",
        "B.bootstrap.servers": f"127.0.0.1:{sides.target.brokers[2].port}",
        "A->B.enabled": "true",
        "A->B.emit.offset-syncs.enabled": "false",
        "A->B.exactly.once.source.support": "enabled" if exactly_once else "disabled",
    }
    (flow,) = read(settings, "a test").flows
    figures = Figures()
    async with (
        Cluster(settings["A.bootstrap.servers"], timeout_ms=math.inf) as source,
        Cluster(settings["B.bootstrap.servers"], timeout_ms=math.inf) as target,
        Notes(flow, source, target) as notes,
        trio.open_nursery() as nursery,
    ):
        made = Copying(flow, source, target, Topics(), Syncs(100), notes, figures)  # type: ignore[arg-type]
        nursery.start_soon(made.run)
        yield figures
        nursery.cancel_scope.cancel()


@pytest.fixture
async def sides() -> AsyncIterator[Sides]:
    made = Sides()
    async with made.source.serving(), made.target.serving():
        yield made


PLAYED = [
    pytest.param(side, exactly_once, row, id=f"{side}-{'exactly' if exactly_once else 'at least'} once-{name}")
    for side in ("source", "target")
    for exactly_once in (False, True)
    for name, row in ROWS.items()
    # A broker of the target that stands still, and still leads as brokers say, holds up a transaction.
    if not (side == "target" and exactly_once and name == "stands still")
]


@pytest.mark.parametrize(("side", "exactly_once", "row"), PLAYED)
async def test_others_are_copied_on(sides: Sides, side: str, exactly_once: bool, row: Row) -> None:
    world: World = getattr(sides, side)
    sides.add(HERE, b"a")
    sides.add(THERE, b"b")
    async with copying(sides, exactly_once=exactly_once):
        await sides.hold([b"a"], [b"b"])
        await sides.committed(1, 1)
        await row.befalls(world)
        sides.add(HERE, b"late")
        there = [b"b"]
        for number, value in enumerate((b"c", b"d", b"e"), 2):
            sides.add(THERE, value)
            there.append(value)
            await sides.hold(None, there)
            await sides.committed_there(number)
        await row.ends(world)
        sides.add(HERE, b"f")
        await sides.hold([b"a", b"late", b"f"], there)
        await sides.committed(3, 4)


async def test_a_leader_of_the_target_that_is_lost_at_the_end_of_a_transaction(sides: Sides) -> None:
    """The transaction ends when that partition has its marker, and no other of its producer begins before."""

    def is_lost() -> None:
        sides.target[MIRRORS[0]].moves(None)
        sides.add(HERE, b"late")
        sides.add(THERE, b"b")

    sides.target.befalls[END_TXN.key] = is_lost
    sides.add(HERE, b"a")
    async with copying(sides, exactly_once=True):
        await sides.hold([b"a"], [b"b"])
        await sides.committed(1, 1)
        sides.target[MIRRORS[0]].moves(2)
        await sides.hold([b"a", b"late"], [b"b"])
        await sides.committed(2, 1)


async def test_a_mirror_whose_leader_is_back_is_compared_again(sides: Sides, caplog: pytest.LogCaptureFixture) -> None:
    """The topic was made anew while nobody could read its mirror."""
    sides.add(HERE, b"a")
    sides.add(THERE, b"b")
    async with copying(sides, exactly_once=True):
        await sides.hold([b"a"], [b"b"])
        await sides.committed(1, 1)
        sides.target[MIRRORS[0]].moves(None)
        sides.add(HERE, b"late")
        with trio.fail_after(PATIENCE_S):
            while f"{MIRRORS[0]} takes no records now" not in caplog.text:
                await trio.lowlevel.checkpoint()
        sides.source[HERE].records.clear()
        sides.add(HERE, b"x", b"y", b"z")
        sides.add(THERE, b"c")
        await sides.hold([b"a"], [b"b", b"c"])
        sides.target[MIRRORS[0]].moves(2)
        await sides.committed(3, 2)
        # The old topic's record may have been read before.
        assert [value for value in sides.values(MIRRORS[0]) if value != b"late"] == [b"a", b"x", b"y", b"z"]
        assert "t-0 has been made anew in A" in caplog.text


@pytest.mark.parametrize("count", range(4))
@pytest.mark.parametrize("exactly_once", [False, True], ids=["at least once", "exactly once"])
async def test_a_damaged_batch_stops_its_partition_alone(
    sides: Sides, exactly_once: bool, count: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is before it is copied, nothing goes past it, and it is looked at again."""
    monkeypatch.setattr("ottla.mirror.share.DAMAGED_S", 0.05)
    before = [b"%d" % number for number in range(count)]
    sides.source[HERE].damaged.add(count)
    sides.add(HERE, *before, b"damaged", b"after")
    async with copying(sides, exactly_once=exactly_once) as figures:
        for number in range(3):
            sides.add(THERE, b"%d" % number)
            await sides.hold(before, [b"%d" % each for each in range(number + 1)])
            await sides.committed_there(number + 1)
        with trio.fail_after(PATIENCE_S):
            while not figures.errors:
                await trio.lowlevel.checkpoint()
        assert sides.target.committed.get(MIRRORS[0], 0) == count
        assert "are copied on" in caplog.text
        assert f"t-0 of A from offset {count} on cannot be copied: " in caplog.text
        sides.source[HERE].damaged.clear()
        sides.source.change()
        await sides.hold([*before, b"damaged", b"after"], [b"0", b"1", b"2"])
        await sides.committed(count + 2, 3)
        assert figures.errors == 1
