"""A broker whose registration is removed though it lives: it has resigned, and a controller that tells it the leader
epoch in which it led makes it no leader again. So the controller always elects anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.controller import NewTopic, Registration, create_topic, prepare
from ottla.controller.early_removal import remove_registration
from ottla.controller.registration import is_lost
from ottla.coordination import znodes
from ottla.coordination.embedded import EmbeddedStore
from ottla.coordination.tree import Stat, Watch, get_or_none
from ottla.coordination.znodes import BrokerRegistration, Endpoint
from tests.controller.conftest import TestCluster
from tests.controller.fakes import FakeBroker
from tests.support.trees import state_of
from tests.support.waiting import comes_true

pytestmark = pytest.mark.trio
PATH = znodes.broker_path(1)


class Resigning:
    """A registration that is watched, and how often its broker has resigned."""

    def __init__(self, registration: Registration) -> None:
        self.registration = registration
        self.times = 0
        self.epochs: list[int] = []
        #: The function that is called meanwhile.
        self.meanwhile: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint

    async def resign(self) -> None:
        self.times += 1
        self.epochs.append(self.registration.epoch)
        await self.meanwhile()

    async def registers_after(self, epoch: int) -> None:
        await comes_true("a new epoch", lambda: self.registration.epoch > epoch)
        await trio.testing.wait_all_tasks_blocked()


async def watched(cluster: TestCluster, broker: FakeBroker) -> Resigning:
    assert broker.registration is not None
    resigning = Resigning(broker.registration)
    cluster.nursery.start_soon(broker.registration.watch, resigning.resign)
    await trio.testing.wait_all_tasks_blocked()
    return resigning


@pytest.mark.parametrize(
    ("asked", "epoch", "found", "lost"),
    [
        (5, 5, None, True),
        (5, 5, 7, True),
        (5, 5, 5, False),
        # Registered since the question was asked.
        (5, 8, None, False),
        (5, 8, 5, False),
        (None, 5, None, False),
        (None, -1, None, False),
    ],
)
async def test_an_answer_counts_for_the_registration_that_was_asked_about(
    asked: int | None, epoch: int, found: int | None, lost: bool
) -> None:
    assert is_lost(asked, epoch, found) is lost


async def test_an_answer_from_before_a_new_session_registered_is_not_believed(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ZooKeeper stood still: the session is over, "there is no node" is right at the time, and the answer is looked at
    when another task has registered in the new session.
    """
    broker = await cluster.broker(1)
    registration, tree = broker.registration, cluster.trees[1]
    assert registration is not None
    first, exists, late = registration.epoch, tree.exists, [True]

    async def exists_late(path: str, watch: Watch | None = None) -> Stat | None:
        if not late:
            return await exists(path, watch)
        late.clear()
        await tree.expire()
        await comes_true("a new session", lambda: tree.session_id != 0)
        stat = await exists(path, watch)
        await registration.register()
        return stat

    monkeypatch.setattr(tree, "exists", exists_late)
    resigning = await watched(cluster, broker)
    await resigning.registers_after(first)
    assert resigning.times == 0
    node = await get_or_none(cluster.admin, PATH)
    assert node is not None
    assert node.stat.czxid == registration.epoch
    assert not BrokerRegistration.decode(PATH, node.data).has_resigned


async def test_who_has_resigned_has_another_epoch_whatever_it_finds(cluster: TestCluster) -> None:
    """Another task registers while the broker still resigns: a controller could have told of leaders since."""
    broker = await cluster.broker(1)
    resigning = await watched(cluster, broker)
    registration = resigning.registration
    first = registration.epoch
    between: list[int] = []

    async def register() -> None:
        between.append(await registration.register())

    resigning.meanwhile = register
    await cluster.admin.delete(PATH)
    await comes_true("a registration", lambda: bool(between))
    await resigning.registers_after(between[0])
    assert resigning.times == 1
    assert between[0] > first
    node = await get_or_none(cluster.admin, PATH)
    assert node is not None
    assert node.stat.czxid == registration.epoch
    assert BrokerRegistration.decode(PATH, node.data).has_resigned
    await registration.update()
    node = await get_or_none(cluster.admin, PATH)
    assert node is not None
    assert BrokerRegistration.decode(PATH, node.data).has_resigned


async def test_a_node_is_replaced_at_once_and_answers_that_are_lost_make_no_second_one(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(str(tmp_path / "tree"))
    tree, other = await store.session(), await store.session()
    await prepare(tree)
    registration = Registration(tree, 1, lambda: BrokerRegistration((Endpoint("PLAINTEXT", "h", 1),)))
    first = await registration.register()
    seen: list[Stat | None] = []

    async def look() -> None:
        while True:
            changed = trio.Event()
            seen.append(await other.exists(PATH, lambda _, changed=changed: changed.set()))  # type: ignore[misc]
            await changed.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await trio.testing.wait_all_tasks_blocked()
        second = await registration.register(after=first)
        assert second > first
        assert await registration.register(after=first) == second, "it is there already"
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert None not in seen
    await store.aclose()


async def between_steps(cluster: TestCluster, broker: FakeBroker, leader: FakeBroker) -> None:
    """A controller removes the registration of a broker, and dies before it elects anybody. The broker is back before
    the next one reads the cluster.
    """
    assert leader.registration is not None
    epoch = leader.registration.epoch
    resigning = await watched(cluster, leader)
    controller = cluster.controllers[broker.id]
    assert controller._term is not None
    store = controller._term.store
    await cluster.kill(broker)
    store.tree = cluster.admin
    await remove_registration(store, leader.id, epoch)
    await resigning.registers_after(epoch)


async def test_a_controller_that_dies_before_it_elects(cluster: TestCluster) -> None:
    one, two, three = [await cluster.broker(number) for number in (1, 2, 3)]
    cluster.controller(one)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (2, 3), 1: (3, 2)}))
    await create_topic(cluster.admin, NewTopic("u", assignment={0: (2,)}))
    await two.until(lambda: len(two.roles("t")) == 2 and len(two.roles("u")) == 1)
    await between_steps(cluster, one, two)
    assert await leader_epochs(cluster) == [0, 0, 0]
    two.received.clear()
    cluster.controller(three)
    await two.until(lambda: len(two.roles("t")) == 2 and len(two.roles("u")) == 1)
    assert await leader_epochs(cluster) == [1, 0, 1]
    assert {number: role.leader_epoch for number, role in two.roles("t").items()} == {0: 1, 1: 0}
    assert (two.roles("t")[0].leader, two.roles("u")[0].leader, two.roles("u")[0].leader_epoch) == (2, 2, 1)
    # Once: the next controller finds states that are younger.
    await cluster.kill(three)
    cluster.controller(two)
    await two.until(lambda: two.live_brokers() == [2] and two.roles("t")[1].leader_epoch == 1)
    assert await leader_epochs(cluster) == [2, 1, 1], "that of 3 and the ISR changed, and nothing else"


async def leader_epochs(cluster: TestCluster) -> list[int]:
    names = (("t", 0), ("t", 1), ("u", 0))
    return [(await state_of(cluster.admin, *name)).leader_epoch for name in names]


async def test_a_session_that_ended_costs_no_leader_epoch(cluster: TestCluster) -> None:
    """Who registers in another session leads on."""
    one = await cluster.broker(1)
    cluster.controller(one)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (1,)}))
    await one.until(lambda: len(one.roles("t")) == 1)
    await cluster.trees[1].expire()
    await comes_true("another term", lambda: cluster.controllers[1].epoch == 2)
    one.received.clear()
    await one.until(lambda: len(one.roles("t")) == 1)
    assert (await state_of(cluster.admin, "t")).leader_epoch == 0


async def test_who_is_told_what_it_resigned_from_registers_again(cluster: TestCluster) -> None:
    """Once for each controller, and only for the registration that it speaks of."""
    one, two = await cluster.broker(1), await cluster.broker(2)
    cluster.controller(two)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (1,)}))
    await one.until(lambda: len(one.roles("t")) == 1)
    resigning = await watched(cluster, one)
    registration = resigning.registration
    first = registration.epoch
    registration.renew(first, 1)
    await resigning.registers_after(first)
    await one.until(lambda: one.roles("t")[0].leader_epoch == 2)
    second = registration.epoch
    registration.renew(second, 1)
    registration.renew(first, 2)
    await trio.testing.wait_all_tasks_blocked()
    assert registration.epoch == second
    registration.renew(-1, 3)
    await resigning.registers_after(second)
    assert resigning.times == 0, "it leads on what it leads"
