"""Replicas that may have lost records: which states they refuse, and when they lead all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.testing

from ottla.broker.surroundings import Surroundings
from ottla.coordination import znodes
from ottla.coordination.znodes import TopicAssignment
from ottla.errors import MayHaveLost, NotLeaderOrFollower, StorageError
from ottla.kafka import NO_LEADER, PartitionKey
from ottla.replication.questions import EpochEnd
from ottla.replication.unclean_start import (
    ASK_AGAIN_S,
    NOT_ELECTED_S,
    NOTHING,
    OFFER_S,
    Known,
    UncleanStart,
    end_of,
    may_offer,
)
from tests.replication.internal import opened
from tests.replication.unclean import ME, OTHER, THIRD, WAIT_S, Stand, T, state
from tests.support.client import batch
from tests.support.waiting import comes_true

pytestmark = pytest.mark.trio


async def test_a_replica_in_sync_is_refused_and_one_that_is_not_is_trusted() -> None:
    for told in (state(ME, ME), state(ME, ME, OTHER), state(NO_LEADER, ME, OTHER), state(OTHER, ME, OTHER)):
        stand = Stand()
        assert await stand.is_refused(told), told
        assert stand.is_suspected
    for told in (state(OTHER, OTHER), state(NO_LEADER, OTHER), state(ME, ME, replicas=(ME,))):
        stand = Stand()
        assert not await stand.is_refused(told), told
        assert not stand.is_suspected
    stand = Stand(wait_s=0)
    assert not await stand.is_refused(state(ME, ME))


async def test_who_has_most_is_offered() -> None:
    mine = EpochEnd(3, 10)
    for other in (EpochEnd(3, 9), EpochEnd(2, 90), mine):
        assert may_offer(ME, mine, {OTHER: other}, 0, WAIT_S)
    for other in (EpochEnd(3, 11), EpochEnd(4, 1)):
        assert not may_offer(ME, mine, {OTHER: other}, 10 * WAIT_S, WAIT_S)
    # Of two that have the same, one.
    assert not may_offer(OTHER, mine, {ME: mine}, 10 * WAIT_S, WAIT_S)
    # Who does not answer may have more, for a while.
    assert not may_offer(ME, mine, {OTHER: mine, THIRD: None}, WAIT_S - 1, WAIT_S)
    assert may_offer(ME, mine, {OTHER: mine, THIRD: None}, WAIT_S, WAIT_S)


async def test_an_epoch_without_a_record_says_nothing() -> None:
    assert end_of([(1, 0), (2, 5), (7, 10)], 10) == EpochEnd(2, 10)
    assert end_of([(1, 0)], 10) == EpochEnd(1, 10)
    assert end_of([], 10) == EpochEnd(-1, 10)
    assert end_of([(7, 0)], 0) == EpochEnd(-1, 0)


@pytest.mark.usefixtures("mock_clock")
async def test_one_that_has_most_leads_when_all_have_answered() -> None:
    stand = Stand()
    assert await stand.is_refused(state(ME, ME, OTHER))
    stand.ends[OTHER] = EpochEnd(3, 4)
    await stand.start.look()
    assert stand.asked_again == 1
    # Asked again by the controller, it is there; and it leads when it is told to.
    assert not await stand.is_refused(state(NO_LEADER, ME, OTHER, epoch=6))
    assert stand.is_suspected
    assert not await stand.is_refused(state(ME, ME, epoch=7))
    assert not stand.is_suspected


async def test_an_offer_does_not_hold_for_long(mock_clock: trio.testing.MockClock) -> None:
    stand = Stand()
    assert await stand.is_refused(state(ME, ME, OTHER))
    stand.ends[OTHER] = EpochEnd(3, 4)
    await stand.start.look()
    mock_clock.jump(OFFER_S + 1)
    stand.ends[OTHER] = EpochEnd(3, 40)
    assert await stand.is_refused(state(ME, ME, epoch=7))
    await stand.start.look()
    assert await stand.is_refused(state(ME, ME, epoch=9))


async def test_one_that_cannot_know_waits_and_then_leads(mock_clock: trio.testing.MockClock) -> None:
    """Also where the others are there and say something else: Kafka's brokers do."""
    for other in (OSError("away"), NotLeaderOrFollower(), EpochEnd(-1, -1)):
        stand = Stand()
        assert await stand.is_refused(state(ME, ME, OTHER))
        stand.ends[OTHER] = other
        await stand.start.look()
        mock_clock.jump(WAIT_S - 1)
        await stand.start.look()
        assert stand.asked_again == 0
        mock_clock.jump(1)
        await stand.start.look()
        assert stand.asked_again == 1
        assert not await stand.is_refused(state(ME, ME, epoch=7))


async def test_the_wait_begins_anew_when_somebody_has_led(mock_clock: trio.testing.MockClock) -> None:
    stand = Stand()
    assert await stand.is_refused(state(ME, ME, OTHER))
    await stand.start.look()
    mock_clock.jump(WAIT_S - 1)
    stand.leaders[T] = Known(OTHER, (ME, OTHER))
    await stand.start.look()
    stand.leaders[T] = Known(NO_LEADER, (ME, OTHER))
    mock_clock.jump(1)
    await stand.start.look()
    assert stand.asked_again == 0


async def test_a_controller_that_hears_and_does_not_elect(mock_clock: trio.testing.MockClock) -> None:
    """Kafka's: it elects at a broker's start."""
    stand = Stand()
    assert await stand.is_refused(state(ME, ME))
    stand.start.suspects[T].in_sync |= {OTHER}
    stand.ends[OTHER] = EpochEnd(3, 9)
    await stand.start.look()
    mock_clock.jump(NOT_ELECTED_S)
    await stand.start.look()
    assert stand.registered_anew == 0
    assert not await stand.is_refused(state(NO_LEADER, ME, epoch=6))
    mock_clock.jump(NOT_ELECTED_S - 1)
    await stand.start.look()
    assert stand.registered_anew == 0
    mock_clock.jump(1)
    for _ in range(2):
        await stand.start.look()
        mock_clock.jump(1)
    assert stand.registered_anew == 1
    # It may lead when the controller sees it come, however long that took.
    mock_clock.jump(OFFER_S - 3)
    assert not await stand.is_refused(state(ME, ME, epoch=7))


async def test_those_whom_a_controller_took_out_are_asked_all_the_same(
    mock_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka's elects the first that comes back, without the others, and is refused then."""
    stand = Stand()
    stand.assigned(T, (ME, OTHER, THIRD), (ME, OTHER))
    await stand.start.look_at_tree()
    assert await stand.is_refused(state(ME, ME, epoch=6))
    stand.ends[OTHER] = EpochEnd(3, 11)
    for _ in range(3):
        await stand.start.look()
        mock_clock.jump(WAIT_S)
    assert stand.asked_again == 0
    assert caplog.text.count("t-0 has no leader: this broker's machine lost its power, and another") == 1
    stand.ends[OTHER] = EpochEnd(3, 9)
    await stand.start.look()
    assert stand.asked_again == 1


async def test_the_last_in_sync_waits_for_somebody(
    mock_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    stand = Stand()
    assert await stand.is_refused(state(ME, ME))
    stand.ends[OTHER] = EpochEnd(0, 0)
    for _ in range(3):
        await stand.start.look()
        mock_clock.jump(10 * WAIT_S)
    assert stand.asked_again == 0
    assert caplog.text.count("t-0 has no leader: this broker was the last in sync") == 1
    assert "ends at offset 10" in caplog.text
    # Unclean elections are allowed.
    stand.unclean = True
    await stand.start.look()
    assert stand.asked_again == 1
    assert not await stand.is_refused(state(NO_LEADER, ME, epoch=6))
    assert not await stand.is_refused(state(ME, ME, epoch=7))
    # From the start: then it leads at once, but not while others are in sync.
    stand = Stand()
    stand.unclean = True
    assert await stand.is_refused(state(ME, ME, OTHER))
    assert not await stand.is_refused(state(NO_LEADER, ME))
    assert not await stand.is_refused(state(ME, ME, epoch=6))
    assert "this broker leads after its machine lost its power, up to offset 10" in caplog.text


async def test_an_operators_order_is_in_the_tree() -> None:
    stand = Stand()
    path = znodes.state_path(*T)
    told = state(ME, ME, epoch=8)
    for node, wanted in [
        (znodes.PartitionState(ME, 8, (ME,), 1), True),
        (znodes.PartitionState(ME, 7, (ME,), 1, {znodes.ORDERED: True}), True),
        (znodes.PartitionState(OTHER, 8, (OTHER,), 1, {znodes.ORDERED: True}), True),
        (znodes.PartitionState(ME, 8, (ME,), 1, {znodes.ORDERED: True}), False),
    ]:
        stand.nodes[path] = node.encode()
        stand.tree_fails = True
        assert await stand.is_refused(told)
        stand.tree_fails = False
        assert await stand.is_refused(told) == wanted
    assert not stand.is_suspected


async def test_a_leader_that_has_taken_it_out_can_be_followed(mock_clock: trio.testing.MockClock) -> None:
    stand = Stand()
    assert await stand.is_refused(state(OTHER, ME, OTHER))
    await stand.start.look()
    assert stand.asked_again == 0
    stand.leaders[T] = Known(OTHER, (OTHER,))
    for _ in range(2):
        await stand.start.look()
    assert stand.asked_again == 1
    mock_clock.jump(ASK_AGAIN_S)
    await stand.start.look()
    assert stand.asked_again == 2
    assert not await stand.is_refused(state(OTHER, OTHER, epoch=6))
    assert not stand.is_suspected


async def test_the_tree_clears_most_before_anybody_is_asked() -> None:
    gone, alone, never, out, left = (("t", index) for index in range(5))
    stand = Stand(("other", 0), ("..", 0), gone, alone, never, out, left)
    for key, replicas, isr in [
        (alone, (ME,), (ME,)),
        (never, (ME, OTHER), None),
        (out, (ME, OTHER), (OTHER,)),
        (left, (ME, OTHER), (ME, OTHER)),
    ]:
        stand.assigned(key, replicas, isr)
    stand.nodes[znodes.topic_path("t")] = TopicAssignment(
        {2: (ME,), 3: (ME, OTHER), 4: (ME, OTHER)} | {never[1]: (ME, OTHER), left[1]: (ME, OTHER)}
    ).encode()
    await stand.start.look_at_tree()
    assert set(stand.start.suspects) == {left}
    assert stand.start.suspects[left].in_sync == {ME, OTHER}


async def test_nodes_that_nobody_understands_clear_nothing() -> None:
    stand = Stand()
    stand.nodes[znodes.topic_path("t")] = b"?"
    stand.nodes[znodes.state_path(*T)] = b"?"
    await stand.start.look_at_tree()
    assert stand.is_suspected


async def test_what_is_left_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.replication.unclean_start.LOOK_S", 0.001)
    two = ("t", 1)
    stand = Stand(T, two)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stand.start.run)
        stand.start.forget(two)
        await comes_true("one is left", lambda: stand.noted == [{T}])
        assert stand.start
        stand.start.forget(T)
    assert stand.noted == [{T}, set()]
    assert not stand.start


async def test_a_refused_replica_is_there_without_a_role(tmp_path: Path) -> None:
    stand = Stand(T, ("t", 2))
    async with opened(tmp_path, unclean_start=stand.start) as here:
        replicas, logs = here.replicas, here.replicas._logs
        await logs.open_or_create("t", [0, 1, 2])
        logs.logs["t", 0].begin_epoch(3)
        logs.logs["t", 0].append_bytes(batch(b"x"), 3)
        errors = await replicas.apply("t", {0: state(ME, ME, OTHER), 1: state(ME, ME, OTHER)})
        assert {index: type(error) for index, error in errors.items()} == {0: MayHaveLost}
        assert MayHaveLost.code == 56
        refused, leads = replicas.partitions[T], replicas.partitions["t", 1]
        assert (refused.is_leader, refused.is_offline, refused.state) == (False, False, None)
        assert refused.leader_error(-1) == NotLeaderOrFollower.code
        assert leads.is_leader
        # Kafka's controller stops those that refuse.
        await replicas.stop("t", 0, delete=False)
        errors = await replicas.apply("t", {0: state(ME, ME, OTHER)})
        assert [*errors] == [0]
        refused = replicas.partitions[T]
        # Not even of the same epoch it is news that it refused.
        assert await replicas.apply("t", {0: state(OTHER, OTHER)}) == {}
        assert refused.leader_epoch == 5
        await replicas.stop("t", 2, delete=True)
        assert not stand.start


async def test_where_its_log_ends_is_told_whatever_its_role(tmp_path: Path) -> None:
    gone = cast("PartitionKey", ("t", 1))
    async with opened(tmp_path) as here:
        replicas, logs = here.replicas, here.replicas._logs
        nobody = cast("Any", None)
        around = Surroundings(ME, nobody, metadata=nobody, logs=logs, peers=nobody, failing_directories=nobody)
        start = UncleanStart(ME, [T], around, nobody, wait_s=WAIT_S, without_log=[gone])
        await replicas.apply("t", {0: state(ME, ME, OTHER)})
        logs.logs[T].append_bytes(batch(b"x"), 5)
        assert start.end_of(T) == EpochEnd(5, 1)
        await replicas.stop("t", 0, delete=False)
        assert start.end_of(T) == EpochEnd(5, 1)
        assert start.end_of(gone) == NOTHING
        logs.failures[gone] = StorageError("its disk is broken")
        assert start.end_of(gone) is None
        del logs.failures[gone]
        start.forget(gone)
        assert start.end_of(gone) is None
        (directory,) = logs.directories.online
        logs.take_offline(directory, "a test says so")
        assert start.end_of(T) is None
