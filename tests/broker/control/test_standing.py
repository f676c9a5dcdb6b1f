"""When others may lead what a broker leads, without its having heard: each row of the table of `broker/standing.py`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from pytest_trio import trio_fixture

from ottla.broker.standing import Standing
from ottla.controller import Registration, prepare
from ottla.coordination import znodes
from ottla.coordination.embedded import EmbeddedStore, EmbeddedTree
from ottla.coordination.tree import SessionState
from ottla.coordination.znodes import BrokerRegistration, Endpoint
from tests.support.waiting import comes_true

pytestmark = pytest.mark.trio
SESSION_S = 6.0
HERE = BrokerRegistration((Endpoint("PLAINTEXT", "h", 1),))


class Broker:
    """One that is registered and was told what it leads, until something befalls it."""

    def __init__(self, tree: EmbeddedTree, other: EmbeddedTree) -> None:
        self.tree, self.other = tree, other
        self.registration = Registration(tree, 1, lambda: HERE)
        self.now_s = 0.0
        self.standing = Standing(tree, self.registration, SESSION_S, lambda: self.now_s)
        #: Its `may_be_replaced` at each time that it gave up what it led.
        self.resigned: list[bool] = []

    async def lost(self) -> None:
        self.resigned.append(self.standing.may_be_replaced())

    def is_certain(self) -> bool:
        return not self.standing.may_be_replaced()

    def hears(self, state: SessionState) -> None:
        self.tree._change_state(state)


@trio_fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    store = await EmbeddedStore.open(str(tmp_path / "tree"))
    await prepare(await store.session())
    made = Broker(await store.session(), await store.session())
    assert made.standing.may_be_replaced()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.registration.watch, made.lost)
        await made.registration.register()
        await comes_true("it looked", lambda: made.registration.is_seen)
        assert made.standing.may_be_replaced(), "nobody has told it what it leads"
        made.standing.told(made.registration.epoch)
        assert made.is_certain()
        yield made
        nursery.cancel_scope.cancel()
    await store.aclose()


async def test_the_tree_is_not_heard_for_a_while(broker: Broker) -> None:
    broker.hears(SessionState.SUSPENDED)
    assert broker.standing.may_be_replaced()
    broker.hears(SessionState.CONNECTED)
    assert broker.standing.may_be_replaced(), "it has not looked yet"
    await comes_true("it is certain", broker.is_certain)
    assert broker.resigned == []


async def test_it_was_removed_while_it_heard_nothing(broker: Broker) -> None:
    """It is in doubt until it has given up what it led, has registered anew, and was told."""
    before = broker.registration.epoch
    broker.hears(SessionState.SUSPENDED)
    await broker.other.delete(znodes.broker_path(1))
    assert broker.standing.may_be_replaced()
    broker.hears(SessionState.CONNECTED)
    assert broker.standing.may_be_replaced()
    await comes_true("it is back", lambda: broker.registration.epoch > before and broker.registration.is_seen)
    assert broker.resigned == [True]
    broker.standing.told(before)
    assert broker.standing.may_be_replaced(), "that was meant for its former life"
    broker.standing.told(broker.registration.epoch)
    assert broker.is_certain()


async def test_its_session_ended(broker: Broker) -> None:
    before = broker.registration.epoch
    await broker.tree.expire()
    assert broker.standing.may_be_replaced()
    await broker.tree.wait_connected()
    assert broker.standing.may_be_replaced(), "it is not registered"
    await broker.registration.register()
    assert broker.registration.epoch > before
    await comes_true("it looked", lambda: broker.registration.is_seen)
    assert broker.standing.may_be_replaced(), "nobody has told it what it leads"
    broker.standing.told(-1)  # of a controller whose requests name no epoch
    assert broker.is_certain()


async def test_it_stood_still(broker: Broker) -> None:
    """Nobody has told it anything when it goes on: neither the tree, nor its own beat."""
    broker.now_s += SESSION_S / 3
    assert broker.is_certain()
    broker.now_s += 0.1
    assert broker.standing.may_be_replaced()
    broker.standing.beat()
    assert broker.standing.may_be_replaced(), "it has not looked yet"
    await comes_true("it is certain", broker.is_certain)
    assert broker.resigned == []


async def test_it_was_removed_while_it_stood_still(broker: Broker) -> None:
    before = broker.registration.epoch
    broker.now_s += SESSION_S
    await broker.other.delete(znodes.broker_path(1))
    broker.standing.beat()
    await comes_true("it is back", lambda: broker.registration.epoch > before and broker.registration.is_seen)
    assert broker.resigned == [True]
    assert broker.standing.may_be_replaced(), "nobody has told it what it leads"


async def test_it_goes_on_all_the_time(broker: Broker) -> None:
    for _ in range(10):
        broker.now_s += SESSION_S / 4
        broker.standing.beat()
        assert broker.is_certain()
