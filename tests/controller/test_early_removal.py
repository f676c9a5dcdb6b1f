"""Processes that are gone are not waited for until their sessions end; one that lives loses nothing by it."""

from __future__ import annotations

import pytest
import trio

from ottla.controller import Controller, NewTopic, create_topic, neighbours
from ottla.controller.configs import set_topic_config
from ottla.controller.events import BrokerGone
from ottla.controller.neighbours import Proof
from ottla.coordination import znodes
from ottla.coordination.tree import get_or_none
from ottla.kafka import NO_LEADER
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR
from ottla.wire.k06_update_metadata import UPDATE_METADATA
from tests.controller.conftest import TestCluster
from tests.controller.fakes import FakeBroker
from tests.controller.sessions import SESSION_S, started, watched
from tests.support.trees import state_of
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = pytest.mark.trio


async def registered(cluster: TestCluster) -> list[str]:
    return sorted(await cluster.admin.children(znodes.BROKER_IDS))


def prove(controller: Controller, broker: FakeBroker, epoch: int | None = None) -> None:
    """That the process of a broker is gone, of the registration with this epoch."""
    assert broker.registration is not None
    endpoint = broker.describe().endpoints[0]
    epoch = broker.registration.epoch if epoch is None else epoch
    controller._neighbours._proofs[broker.id] = Proof(epoch, endpoint, trio.current_time())


async def test_the_session_of_a_process_that_is_gone_is_not_waited_for(cluster: TestCluster) -> None:
    _, two, three = await started(cluster, 3)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (3, 2, 1)}))
    await two.until(lambda: len(two.metadata("t")) == 1)
    await watched(cluster, by=1)
    three.die()
    await two.until(lambda: two.live_brokers() == [1, 2] and two.metadata("t")[0].leader == 2)
    state = await state_of(cluster.admin, "t")
    assert (state.leader, state.leader_epoch, state.isr) == (2, 1, (2, 1))
    assert await registered(cluster) == ["1", "2"]


async def test_sessions_of_kafkas_brokers_are_waited_for(cluster: TestCluster) -> None:
    """They would not notice that their registration is gone, and go on as leaders."""
    one, two, kafka = await started(cluster, 2, kafkas=1)
    await watched(cluster, by=1)
    kafka.die()
    two.die()
    await one.until(lambda: one.live_brokers() == [1, 3])
    assert await registered(cluster) == ["1", "3"]
    assert kafka.quiet == 0


async def test_a_process_that_lives_registers_again(cluster: TestCluster) -> None:
    """A firewall has lied."""
    _, two = await started(cluster, 2)
    registration = two.registration
    assert registration is not None
    lost: list[int] = []
    before = registration.epoch

    async def resign() -> None:
        lost.append(registration.epoch)

    cluster.nursery.start_soon(registration.watch, resign)
    controller = cluster.controllers[1]
    prove(controller, two)
    controller._events.put(BrokerGone(2, before))
    await comes_true("a new epoch", lambda: registration.epoch > before)
    assert lost == [before]
    await two.until(lambda: two.of(UPDATE_METADATA)[-1].broker_epoch == registration.epoch)
    # What was proved of its former registration says nothing of this one.
    controller._events.put(BrokerGone(2, before))
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (2,)}))
    await two.until(lambda: len(two.roles("t")) == 1)
    assert await registered(cluster) == ["1", "2"]
    assert lost == [before]


async def test_who_listens_elsewhere_is_watched_there(cluster: TestCluster) -> None:
    """The listener at the former address goes away, and the broker lives."""
    _, two = await started(cluster, 2)
    await watched(cluster, by=1)
    former = two._scope
    assert two.registration is not None
    epoch, two.port = two.registration.epoch, 0
    await cluster.nursery.start(two.serve)
    await two.registration.update()
    controller = cluster.controllers[1]
    await comes_true("it is watched there", lambda: controller._neighbours._watched[2].endpoint.port == two.port)
    await comes_true("it is connected there", lambda: two.quiet > 0)
    former.cancel()
    await comes_true("the former address is gone", lambda: former.cancelled_caught)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (2,)}))
    await two.until(lambda: len(two.roles("t")) == 1)
    assert controller._neighbours.gone() == {}
    two.die()
    await comes_true("nobody listens", lambda: controller.cluster is not None and 2 not in controller.cluster.brokers)
    assert two.registration.epoch == epoch


async def test_a_proof_is_made_again_while_it_holds(cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something between both refused connections for a moment: that counts no more when a controller is elected."""
    monkeypatch.setattr(neighbours, "AGAIN_S", 0.05)
    monkeypatch.setattr(neighbours, "REFUSAL_S", PATIENCE_S)
    one, two, three = [await cluster.broker(number, ottla="1") for number in (1, 2, 3)]
    # This controller waits for the ends of sessions.
    cluster.controller(one)
    await two.until(lambda: len(two.live_brokers()) == 3)
    other = cluster.controller(three, session_s=SESSION_S)
    await watched(cluster, by=3)
    two.die()
    assert two.registration is not None
    epoch = two.registration.epoch
    await comes_true("it is gone", lambda: other._neighbours.gone() == {2: epoch})
    first = other._neighbours.proof(2)
    assert first is not None
    await comes_true("it is gone still", lambda: other._neighbours.proof(2) is not first)
    assert await other._neighbours.still_gone() == {2: epoch}
    await cluster.nursery.start(two.serve)
    assert await other._neighbours.still_gone() == {}, "it is asked, whatever was proved"
    await comes_true("it is back", lambda: other._neighbours.gone() == {})
    await cluster.kill(one)
    await two.until(lambda: two.live_brokers() == [2, 3])
    assert two.registration.epoch == epoch


async def test_a_proof_that_is_old_removes_nothing(cluster: TestCluster) -> None:
    """Events wait, and what is proved is another thing when their turn comes."""
    _, two = await started(cluster, 2)
    assert two.registration is not None
    controller, epoch = cluster.controllers[1], two.registration.epoch
    prove(controller, two)
    proof = controller._neighbours._proofs[2]
    proof.made_at_s -= neighbours.GOOD_S
    assert controller._neighbours.gone() == {}
    assert not await controller._make_room()
    controller._events.put(BrokerGone(2, epoch))
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (2,)}))
    await two.until(lambda: len(two.roles("t")) == 1)
    assert await registered(cluster) == ["1", "2"]
    assert two.registration.epoch == epoch


async def test_what_an_administrator_removes_comes_back_too(cluster: TestCluster) -> None:
    _, two = await started(cluster, 2)
    registration = two.registration
    assert registration is not None
    before = registration.epoch

    async def resign() -> None: ...

    cluster.nursery.start_soon(registration.watch, resign)
    await cluster.admin.delete(znodes.broker_path(2))
    await comes_true("a new epoch", lambda: registration.epoch > before)


async def test_who_is_not_in_sync_leads_only_when_the_session_would_have_ended(cluster: TestCluster) -> None:
    one, two, three = await started(cluster, 3, session_s=1.0)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (3, 2)}))
    await set_topic_config(cluster.admin, "t", {"unclean.leader.election.enable": "true"})
    await two.until(lambda: len(two.roles("t")) == 1)
    # Out of the ISR, and back.
    await cluster.kill(two)
    await one.until(lambda: one.live_brokers() == [1, 3])
    await cluster.restart_dead(two)
    await one.until(lambda: one.live_brokers() == [1, 2, 3])
    assert (await state_of(cluster.admin, "t")).isr == (3,)
    await watched(cluster, by=1)
    died = trio.current_time()
    three.die()
    await one.until(lambda: one.live_brokers() == [1, 2])
    await one.until(lambda: one.metadata("t")[0].leader == 2)
    assert trio.current_time() - died >= 0.9


async def test_a_new_controller_waits_for_those_that_another_removed(cluster: TestCluster) -> None:
    """Their sessions, of which nothing is seen any more, may live: so long nobody leads who is not in sync."""
    one, two = [await cluster.broker(number, ottla="1") for number in (1, 2)]
    allowed = {"unclean.leader.election.enable": "true"}
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (3, 2)}, config=allowed))
    path = znodes.state_path("t", 0)
    await cluster.admin.ensure(path)
    # Broker 3 was alone in sync when it was taken for gone, and then the controller died.
    await cluster.admin.set(path, znodes.PartitionState(3, 4, (3,), 0).encode())
    cluster.controller(one, session_s=SESSION_S)
    await two.until(lambda: len(two.metadata("t")) == 1)
    assert two.metadata("t")[0].leader == NO_LEADER
    state = await state_of(cluster.admin, "t")
    assert (state.leader, state.isr) == (NO_LEADER, (3,))
    three = await cluster.broker(3, ottla="1")
    await three.until(lambda: len(three.roles("t")) == 1)
    assert three.roles("t")[0].leader == 3
    assert cluster.controllers[1].unclean_elections_total == 0


async def test_another_controller_is_elected_when_the_controllers_process_is_gone(cluster: TestCluster) -> None:
    one, two = await started(cluster, 2)
    first, second = cluster.controllers[1], cluster.controller(two, session_s=SESSION_S)
    await comes_true("the controller is known", lambda: second.active_id == 1)
    await watched(cluster, by=2)
    one.die()
    await two.until(lambda: two.live_brokers() == [2])
    assert second.is_active
    assert await registered(cluster) == ["2"]
    # The first one lives, and its time is over.
    assert not first.is_active


async def test_a_new_controller_tells_at_once_who_leads_instead(cluster: TestCluster) -> None:
    """Not first that the one who is gone leads: a broker takes one order after the other, and clients wait."""
    one, two = await started(cluster, 2)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (1, 2)}))
    await two.until(lambda: len(two.metadata("t")) == 1)
    second = cluster.controller(two, session_s=SESSION_S)
    await comes_true("the controller is known", lambda: second.active_id == 1)
    await watched(cluster, by=2)
    one.die()
    await two.until(lambda: two.metadata("t")[0].leader == 2)
    told = [message for message in two.of(UPDATE_METADATA) if message.controller_epoch == second.epoch]
    assert {broker.id for message in told for broker in message.live_brokers} == {2}
    orders = [message for message in two.of(LEADER_AND_ISR) if message.controller_epoch == second.epoch]
    assert [state.leader for order in orders for topic in order.topic_states for state in topic.partition_states] == [2]


async def test_nobody_else_is_elected_while_a_controller_of_kafkas_has_a_session(cluster: TestCluster) -> None:
    kafka, two, three = await cluster.broker(1), await cluster.broker(2, ottla="1"), await cluster.broker(3, ottla="1")
    cluster.controller(kafka)
    await kafka.until(lambda: kafka.live_brokers() == [1, 2, 3])
    other = cluster.controller(two, session_s=SESSION_S)
    await comes_true("the controller is known", lambda: other.active_id == 1)
    await watched(cluster, by=2)
    kafka.die()
    three.die()
    await comes_true("three is gone", lambda: other._neighbours.gone().keys() == {3})
    assert not other.is_active
    assert await registered(cluster) == ["1", "2", "3"]


async def test_what_was_proved_of_one_controller_removes_no_later_one(cluster: TestCluster) -> None:
    one, _ = await started(cluster, 2)
    assert one.registration is not None
    first = await get_or_none(cluster.admin, znodes.CONTROLLER)
    other = Controller(cluster.trees[2], 2, session_s=SESSION_S)
    assert await other._stand() is None
    assert other.active_id == 1
    # Of another process with the same id.
    prove(other, one, one.registration.epoch - 1)
    assert not await other._make_room()
    # Somebody was elected since.
    prove(other, one)
    counter = await cluster.admin.get(znodes.CONTROLLER_EPOCH)
    await cluster.admin.set(znodes.CONTROLLER_EPOCH, counter.data)
    assert await other._make_room(), "it is looked at again"
    assert await get_or_none(cluster.admin, znodes.CONTROLLER) == first
    assert await other._stand() is None
    assert not await other._make_room(), "a proof counts once"
    prove(other, one)
    assert await other._make_room()
    assert await get_or_none(cluster.admin, znodes.CONTROLLER) != first
