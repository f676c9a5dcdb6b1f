"""Brokers whose machines lost their power: what they may have lost is found out before anybody is elected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio

from ottla.controller import Controller, NewTopic, create_topic
from ottla.controller.configs import set_topic_config
from ottla.controller.topic_changes import notify_log_directory_failure
from ottla.coordination import znodes
from ottla.coordination.znodes import BrokerRegistration, Endpoint, PartitionState
from ottla.errors import EligibleLeadersNotAvailable, StaleControllerEpoch
from ottla.kafka import NO_LEADER, PartitionKey, TopicPartition
from ottla.replication.questions import ANY_EPOCH
from tests.controller.conftest import TestCluster
from tests.controller.fakes import FakeBroker
from tests.support.trees import state_of
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = pytest.mark.trio
T = TopicPartition("t", 0)
STORAGE_ERROR = 56


class Stand:
    """Broker 0 controls; 1 and 2 hold a partition, of which 1 is the leader."""

    def __init__(self, cluster: TestCluster) -> None:
        self.cluster = cluster
        self.ends: dict[int, Any] = {}
        #: Where epochs end, by broker and epoch.
        self.epochs: dict[tuple[int, int], Any] = {}

    async def begin(self, **options: Any) -> None:
        self.zero, self.one, self.two = [await self.cluster.broker(number, ottla="1") for number in range(3)]
        self.controller: Controller = self.cluster.controller(self.zero, epoch_ends=self.epoch_ends, **options)
        await self.zero.until(lambda: self.zero.live_brokers() == [0, 1, 2])
        await create_topic(self.cluster.admin, NewTopic("t", assignment={0: (1, 2)}))
        await self.one.until(lambda: 0 in self.one.roles("t"))

    async def epoch_ends(self, broker: int, epochs: Mapping[PartitionKey, int]) -> Mapping[PartitionKey, Any]:
        if broker not in self.ends:
            raise OSError("nobody is there")
        return {
            key: self.ends[broker] if epoch == ANY_EPOCH else self.epochs[broker, epoch]
            for key, epoch in epochs.items()
        }

    async def state(self) -> tuple[int, tuple[int, ...]]:
        state = await state_of(self.cluster.admin, "t")
        return state.leader, state.isr

    async def all_die(self, *lost_power: FakeBroker) -> None:
        """The controller too, so that it takes nobody out of an ISR."""
        for broker in (self.zero, self.one, self.two):
            broker.is_unclean = broker in lost_power
            broker.received.clear()
            await self.cluster.kill(broker)

    async def controls_again(self) -> None:
        await self.cluster.restart_dead(self.zero)
        self.controller = self.cluster.controller(self.zero, epoch_ends=self.epoch_ends)
        await self.zero.until(lambda: 0 in self.zero.metadata("t"))

    async def returns(self, broker: FakeBroker, *, refuses: bool = False) -> None:
        broker.errors = {("t", 0): STORAGE_ERROR} if refuses else {}
        await self.cluster.restart_dead(broker)
        await broker.until(lambda: 0 in broker.roles("t"))

    async def offers(self, broker: FakeBroker) -> None:
        broker.errors = {}
        await notify_log_directory_failure(self.cluster.admin, broker.id)

    async def becomes(self, leader: int, *isr: int) -> None:
        with trio.fail_after(PATIENCE_S):
            while await self.state() != (leader, isr):
                await trio.lowlevel.checkpoint()

    async def knows_failed(self, *brokers: int) -> None:
        def failed() -> bool:
            known = self.controller.cluster
            return known is not None and {broker for broker in (1, 2) if known.has_failed(T, broker)} == set(brokers)

        await comes_true(f"{brokers} have refused", failed)


@pytest.fixture
async def stand(cluster: TestCluster) -> Stand:
    made = Stand(cluster)
    await made.begin()
    return made


async def test_an_unclean_replica_waits_for_one_that_is_not(stand: Stand) -> None:
    await stand.all_die(stand.one)
    await stand.controls_again()
    await stand.returns(stand.one, refuses=True)
    # The one that is not there is in sync still.
    assert stand.one.roles("t")[0].leader == NO_LEADER
    assert await stand.state() == (NO_LEADER, (1, 2))
    await stand.returns(stand.two)
    await stand.becomes(2, 2)
    await stand.one.until(lambda: stand.one.roles("t")[0].leader == 2)
    assert stand.one.roles("t")[0].isr == [2]


async def test_an_unclean_broker_that_is_sure_of_a_replica_leads(stand: Stand) -> None:
    await stand.all_die(stand.one)
    await stand.controls_again()
    await stand.returns(stand.one)
    await stand.becomes(1, 1)


async def test_all_are_unclean_and_one_offers_itself(stand: Stand) -> None:
    await stand.all_die(stand.one, stand.two)
    await stand.controls_again()
    await stand.returns(stand.one, refuses=True)
    await stand.returns(stand.two, refuses=True)
    await stand.knows_failed(1, 2)
    await stand.becomes(NO_LEADER, 1, 2)
    await stand.offers(stand.two)
    await stand.becomes(2, 2)


async def test_a_new_controller_finds_out_by_itself(stand: Stand) -> None:
    """Brokers that returned while nobody controlled; one of them knows its role of this epoch already."""
    await stand.all_die(stand.one, stand.two)
    stand.one.errors = {("t", 0): STORAGE_ERROR}
    stand.two.errors = {("t", 0): STORAGE_ERROR}
    for broker in (stand.one, stand.two):
        await stand.cluster.restart_dead(broker)
    await stand.controls_again()
    await stand.knows_failed(1, 2)
    # Nobody is left out for its return.
    await stand.becomes(NO_LEADER, 1, 2)
    stand.two.errors = {("t", 0): StaleControllerEpoch.code}
    await notify_log_directory_failure(stand.cluster.admin, 2)
    await stand.becomes(2, 2)


async def test_a_leader_that_lost_power_does_not_take_the_others_out(stand: Stand) -> None:
    """By the tree it leads, and it is there; the other is not yet."""
    await stand.all_die(stand.one)
    stand.one.errors = {("t", 0): STORAGE_ERROR}
    await stand.cluster.restart_dead(stand.one)
    await stand.controls_again()
    await stand.becomes(NO_LEADER, 1, 2)
    await stand.returns(stand.two)
    await stand.becomes(2, 2)


async def former_life_of_the_leader(stand: Stand) -> None:
    """All lost their power. Broker 2 is back and suspects itself; of broker 1 there is the registration of before."""
    stand.one.silent = True
    await stand.cluster.kill(stand.zero)
    stand.two.is_unclean = True
    assert stand.two.registration is not None
    await stand.two.registration.update()
    stand.two.errors = {("t", 0): STORAGE_ERROR}
    await stand.controls_again()
    await stand.knows_failed(2)
    assert await stand.state() == (1, (1, 2))


async def test_a_registration_is_no_proof_of_life(stand: Stand) -> None:
    await former_life_of_the_leader(stand)
    await stand.cluster.kill(stand.one)
    await stand.becomes(NO_LEADER, 1, 2)
    stand.one.speak()
    stand.one.is_unclean = True
    await stand.returns(stand.one, refuses=True)
    await stand.knows_failed(1, 2)
    await stand.offers(stand.two)
    await stand.becomes(2, 2)


async def test_a_leader_that_answers_lives(stand: Stand) -> None:
    await former_life_of_the_leader(stand)
    stand.one.speak()
    await stand.becomes(1, 1)


async def test_a_leader_that_is_sure_leads_on_under_a_new_controller(stand: Stand) -> None:
    """It is unclean for the sake of another partition."""
    stand.one.is_unclean = True
    assert stand.one.registration is not None
    await stand.one.registration.update()
    await stand.cluster.kill(stand.zero)
    await stand.controls_again()
    await stand.zero.until(lambda: stand.zero.metadata("t")[0].leader == 1)
    state = await state_of(stand.cluster.admin, "t")
    assert (state.leader, state.leader_epoch, state.isr) == (1, 0, (1, 2))


async def last_in_sync(stand: Stand) -> None:
    """Broker 1 was alone in sync and has lost its power; broker 2 is there."""
    await stand.cluster.kill(stand.two)
    await stand.becomes(1, 1)
    stand.one.is_unclean = True
    stand.one.received.clear()
    await stand.cluster.kill(stand.one)
    await stand.becomes(NO_LEADER, 1)
    await stand.returns(stand.two)
    await stand.returns(stand.one, refuses=True)
    await stand.knows_failed(1)


async def test_the_last_in_sync_leads_by_order(stand: Stand, caplog: pytest.LogCaptureFixture) -> None:
    await last_in_sync(stand)
    assert await stand.state() == (NO_LEADER, (1,))
    stand.ends = {1: (4, 20), 2: (4, 10)}
    assert await stand.controller.elect_leaders([T], unclean=True) == {T: 1}
    state = await state_of(stand.cluster.admin, "t")
    assert (state.leader, state.isr, state.extra) == (1, (1,), {znodes.ORDERED: True})
    assert "t-0: an operator has it led by broker 1, which has epoch and offset (4, 20)" in caplog.text


async def test_who_has_more_leads_by_order(stand: Stand, caplog: pytest.LogCaptureFixture) -> None:
    await last_in_sync(stand)
    stand.ends = {1: (4, 20), 2: (4, 30)}
    assert await stand.controller.elect_leaders([T], unclean=True) == {T: 2}
    state = await state_of(stand.cluster.admin, "t")
    assert (state.leader, state.isr, state.extra) == (2, (2,), {})
    assert "t-0: broker 2 leads and was not in sync: what only brokers 1 had is lost" in caplog.text
    assert stand.controller.unclean_elections_total == 1


async def test_a_newer_epoch_leads_by_order_only_with_what_was_in_sync(
    stand: Stand, caplog: pytest.LogCaptureFixture
) -> None:
    """Broker 2 ends in an epoch of which nothing was committed, and parts from broker 1's log before its end."""
    await last_in_sync(stand)
    stand.ends, stand.epochs = {1: (4, 20), 2: (6, 30)}, {(2, 4): (4, 19)}
    assert await stand.controller.elect_leaders([T], unclean=True) == {T: 1}
    assert (
        "t-0: broker 2 ends in leader epoch 6 at offset 30, but does not have the last record of those that were in "
        "sync; its log does not count" in caplog.text
    )


async def test_a_newer_epoch_that_goes_on_leads_by_order(stand: Stand) -> None:
    await last_in_sync(stand)
    stand.ends, stand.epochs = {1: (4, 20), 2: (6, 30)}, {(2, 4): (4, 20)}
    assert await stand.controller.elect_leaders([T], unclean=True) == {T: 2}


async def test_those_that_say_nothing_can_be_ordered_too(stand: Stand) -> None:
    await last_in_sync(stand)
    stand.ends = {2: StaleControllerEpoch()}
    assert await stand.controller.elect_leaders([T], unclean=True) == {T: 1}


async def test_nobody_can_be_ordered_where_nobody_is(stand: Stand) -> None:
    await stand.cluster.kill(stand.two)
    await stand.becomes(1, 1)
    await stand.cluster.kill(stand.one)
    await stand.becomes(NO_LEADER, 1)
    (result,) = (await stand.controller.elect_leaders([T], unclean=True)).values()
    assert isinstance(result, EligibleLeadersNotAvailable)


async def test_where_unclean_elections_are_allowed_the_last_in_sync_is_waited_for(stand: Stand) -> None:
    """It has more than the others, and takes itself back when it hears of the permission."""
    await last_in_sync(stand)
    await set_topic_config(stand.cluster.admin, "t", {"unclean.leader.election.enable": "true"})
    stand.controller.allow_unclean_elections_of("t")
    await stand.offers(stand.one)
    await stand.becomes(1, 1)


async def test_others_are_elected_when_it_is_not_unclean_any_more(stand: Stand) -> None:
    """Then its disk is broken indeed."""
    await last_in_sync(stand)
    await set_topic_config(stand.cluster.admin, "t", {"unclean.leader.election.enable": "true"})
    stand.one.is_unclean = False
    assert stand.one.registration is not None
    await stand.one.registration.update()
    await stand.becomes(2, 2)


async def test_the_registration_says_it_and_kafkas_does_not() -> None:
    here = (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    for is_unclean in (True, False):
        made = BrokerRegistration(here, timestamp_ms=1, ottla="1", is_unclean=is_unclean)
        assert BrokerRegistration.decode("/brokers/ids/1", made.encode()) == made
        assert (znodes.UNCLEAN.encode() in made.encode()) == is_unclean
    state = PartitionState(1, 2, (1,), 3, {znodes.ORDERED: True})
    assert PartitionState.decode("/", state.encode()) == state
