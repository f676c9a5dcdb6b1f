"""Replicas in the ISR whose logs are gone: who may lead, and what operators are told."""

from pathlib import Path
from typing import cast

import pytest
import trio.testing

from ottla.coordination import znodes
from ottla.kafka import NO_LEADER, PartitionKey
from ottla.replication.questions import EpochEnd
from ottla.replication.roles import PartitionState
from ottla.replication.unclean_start import NOTHING, Known
from tests.replication.internal import opened
from tests.replication.unclean import ME, OTHER, THIRD, WAIT_S, Stand, T, state

pytestmark = pytest.mark.trio


class Empty(Stand):
    """A stand whose replica had a log."""

    def __init__(self, *, wait_s: float = WAIT_S) -> None:
        super().__init__(wait_s=wait_s)
        self.start.suspects.clear()
        self.start.has_no_log(T)
        self.ends[ME] = NOTHING

    async def is_refused_as_new(self, told: PartitionState) -> bool:
        return T in await self.start.refuse({T: told}, {T})


async def test_one_without_a_log_is_refused_unless_it_is_out_alone_or_new() -> None:
    for told in (state(ME, ME), state(ME, ME, OTHER), state(OTHER, ME, OTHER), state(NO_LEADER, ME)):
        assert await Empty().is_refused(told)
        assert not await Empty().is_refused_as_new(told)
        assert not await Empty(wait_s=0).is_refused(told)
    for told in (state(OTHER, OTHER), state(ME, ME, replicas=(ME,))):
        assert not await Empty().is_refused(told)
    # A log that may lack its end is no less doubtful because a controller calls the replica new.
    stand = Stand()
    assert T in await stand.start.refuse({T: state(ME, ME)}, {T})


@pytest.mark.usefixtures("mock_clock")
async def test_all_in_sync_are_empty_and_the_lowest_leads() -> None:
    for other in (NOTHING, EpochEnd(0, 1), EpochEnd(-1, 7)):
        stand = Empty()
        assert await stand.is_refused(state(ME, ME, OTHER))
        stand.ends[OTHER] = other
        await stand.start.look()
        assert stand.asked_again == (other == NOTHING)
        assert await stand.is_refused(state(ME, ME, epoch=7)) == (other != NOTHING)


async def test_it_waits_for_every_answer_however_long_that_takes(
    mock_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    stand = Empty()
    assert await stand.is_refused(state(ME, ME, OTHER, THIRD))
    stand.ends[OTHER] = NOTHING
    for _ in range(5):
        await stand.start.look()
        mock_clock.jump(WAIT_S)
    assert stand.asked_again == 0
    assert caplog.text.count("the log that it had is gone") == 1
    assert "broker 2 has no record, broker 3 does not answer" in caplog.text
    stand.ends[THIRD] = NOTHING
    await stand.start.look()
    assert stand.asked_again == 1


async def test_the_last_in_sync_without_a_log_asks_those_that_were_not(
    mock_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    stand = Empty()
    assert await stand.is_refused(state(ME, ME))
    stand.ends |= {OTHER: EpochEnd(2, 5), THIRD: NOTHING}
    for _ in range(3):
        await stand.start.look()
        mock_clock.jump(10 * WAIT_S)
    assert stand.asked_again == 0
    assert caplog.text.count("t-0 has no leader: this broker was in sync") == 1
    assert "broker 2 has records up to offset 5" in caplog.text
    assert stand.elected == 0
    # Where unclean elections are allowed, the one that has a log is elected.
    stand.unclean = True
    for times, silent in ((3, False), (0, True)):
        if silent:
            del stand.ends[OTHER]
        stand.elected = 0
        for _ in range(3):
            await stand.start.look()
            await stand.start.look()
            mock_clock.jump(10 * WAIT_S)
        assert (stand.asked_again, stand.elected) == (0, times)
        assert await stand.is_refused(state(ME, ME, epoch=6))
    stand.ends[OTHER] = NOTHING
    await stand.start.look()
    assert stand.asked_again == 1
    assert not await stand.is_refused(state(ME, ME, epoch=7))
    assert "leads without a record" in caplog.text


async def test_the_controller_elected_another_one(mock_clock: trio.testing.MockClock) -> None:
    stand = Empty()
    assert await stand.is_refused(state(ME, ME, OTHER))
    stand.leaders[T] = Known(OTHER, (OTHER,))
    await stand.start.look()
    assert stand.asked_again == 1
    assert not await stand.is_refused(state(OTHER, OTHER, epoch=6))
    assert not stand.is_suspected
    mock_clock.jump(1)


async def test_an_operator_orders_it_to_lead() -> None:
    stand = Empty()
    ordered = znodes.PartitionState(ME, 8, (ME,), 1, {znodes.ORDERED: True})
    stand.nodes[znodes.state_path(*T)] = ordered.encode()
    assert not await stand.is_refused(state(ME, ME, epoch=8))


async def test_a_replica_without_others_is_told_of_and_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    stand = Empty()
    stand.assigned(T, (ME,), (ME,))
    await stand.start.look_at_tree()
    assert not stand.is_suspected
    assert "1 partition had a log here that is gone, among them t-0" in caplog.text
    # One that is not to be here is nobody's loss, nor is one that nobody has led yet.
    caplog.clear()
    for replicas, isr in (((OTHER,), (OTHER,)), ((ME,), None)):
        stand = Empty()
        stand.assigned(T, replicas, isr)
        await stand.start.look_at_tree()
        assert not stand.is_suspected
        assert not caplog.records


async def test_one_that_is_refused_has_no_log_and_says_so_to_others(tmp_path: Path) -> None:
    stand = Empty()
    async with opened(tmp_path, unclean_start=stand.start) as here:
        replicas = here.replicas
        other = cast("PartitionKey", ("t", 1))
        errors = await replicas.apply("t", {0: state(ME, ME, OTHER), 1: state(ME, ME, OTHER)})
        assert set(errors) == {0}
        assert T not in replicas._logs.logs
        assert other in replicas._logs.logs
        assert await replicas.apply("t", {0: state(OTHER, OTHER, epoch=6)}) == {}
        assert T in replicas._logs.logs
