"""A broker that stops has others lead first, if there are any and they can."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from ottla.broker import leaving
from ottla.broker.broker import Broker
from ottla.broker.metadata_cache import BrokerMetadata, MetadataCache, PartitionMetadata
from ottla.config import BrokerConfig
from ottla.controller import NewTopic, create_topic
from ottla.controller.decisions import IsrChange
from ottla.coordination.embedded import EmbeddedTree
from ottla.coordination.tree import SessionState
from ottla.errors import StaleBrokerEpoch
from ottla.kafka import TopicPartition
from tests.controller.fakes import FakeBroker
from tests.support.trees import state_of

ME, OTHER = 1, 2
T = TopicPartition("t", 0)


class Pair:
    """A broker of ours, which is the controller, and one that only listens, in the same tree."""

    def __init__(self, ours: Broker, other: FakeBroker, tree: EmbeddedTree) -> None:
        self.ours = ours
        self.other = other
        self.tree = tree

    async def create(self, topic: str, *replicas: int) -> None:
        await create_topic(self.tree, NewTopic(topic, assignment={0: replicas}))
        await self.ours.metadata.wait_until(lambda: topic in self.ours.metadata.topics)
        await self.other.until(lambda: 0 in self.other.metadata(topic))


@asynccontextmanager
async def running(path: Path, **settings: str) -> AsyncIterator[Pair]:
    """Our broker is stopped, and has stopped, when the block ends; the other one goes on until then."""
    given = {"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0", "broker.id": str(ME)}
    given |= {name.replace("_", "."): value for name, value in settings.items()}
    async with trio.open_nursery() as nursery:
        async with Broker.start(BrokerConfig(given)) as ours:
            assert isinstance(ours.tree, EmbeddedTree)
            other = FakeBroker(OTHER)
            await nursery.start(other.serve)
            tree = await ours.tree._store.session()
            await other.register(tree)
            await other.until(lambda: other.live_brokers() == [ME, OTHER])
            yield Pair(ours, other, tree)
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_the_other_one_leads_before_this_one_is_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with running(tmp_path) as pair:
        await pair.create("t", ME, OTHER)
        assert pair.other.roles("t")[0].leader == ME
        partition = pair.ours.replicas.partitions["t", 0]
        assert partition.is_leader
    assert pair.other.roles("t")[0].leader == OTHER
    assert pair.other.roles("t")[0].isr == [OTHER]
    # In the epoch after the first: it was moved, not found without a leader.
    assert pair.other.roles("t")[0].leader_epoch == 1
    assert pair.other.live_brokers() == [ME, OTHER]
    assert "others lead, after" in caplog.text
    assert not partition.is_leader


@pytest.mark.trio
async def test_it_stops_as_well_if_nobody_else_can_lead(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = {"controlled_shutdown_max_retries": "3", "controlled_shutdown_retry_backoff_ms": "20"}
    async with running(tmp_path, **settings) as pair:
        await pair.create("t", ME, OTHER)
        change = {T: IsrChange(0, (ME,), 0)}
        await pair.ours.controller.alter_isr(ME, pair.ours.registration.epoch, change)
    assert pair.other.metadata("t")[0].leader == ME
    assert caplog.text.count("nobody else can lead 1 partition, among them t-0") == 3
    assert "stopping without having handed over" in caplog.text


@pytest.mark.trio
async def test_it_may_be_switched_off(tmp_path: Path) -> None:
    async with running(tmp_path, controlled_shutdown_enable="false") as pair:
        await pair.create("t", ME, OTHER)
    assert pair.other.metadata("t")[0].leader == ME


@pytest.mark.trio
async def test_nobody_is_asked_for_what_nobody_else_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(_: object) -> Any:
        raise AssertionError("asked")

    monkeypatch.setattr(leaving, "_ask", asked)
    async with running(tmp_path) as pair:
        await pair.create("mine", ME)
        await pair.create("yours", OTHER)
        assert (await state_of(pair.tree, "mine")).leader == ME


@pytest.mark.trio
async def test_a_broker_that_failed_asks_nobody(tmp_path: Path) -> None:
    with pytest.RaisesGroup(ZeroDivisionError, flatten_subgroups=True):
        async with running(tmp_path) as pair:
            await pair.create("t", ME, OTHER)
            raise ZeroDivisionError
    assert pair.other.metadata("t")[0].leader == ME


# With a clock of their own.


class Stub(SimpleNamespace):
    """A broker that leads one partition of two."""

    def __init__(self, state: SessionState = SessionState.CONNECTED) -> None:
        metadata = MetadataCache(controller_id=OTHER)
        metadata.brokers = {number: BrokerMetadata(number, None, {}) for number in (ME, OTHER)}
        metadata.topics = {"t": {0: PartitionMetadata(ME, 0, (ME, OTHER), (ME, OTHER), ())}}
        super().__init__(
            id=ME,
            log=logging.getLogger("ottla.broker"),
            metadata=metadata,
            registration=SimpleNamespace(epoch=1),
            replicas=SimpleNamespace(is_leaving=False),
            controller=SimpleNamespace(all_told=self.all_told),
            tree=SimpleNamespace(state=state),
            config=BrokerConfig({}),
        )
        self.telling_s = 0.0

    async def all_told(self) -> None:
        await trio.sleep(self.telling_s)


def answers(monkeypatch: pytest.MonkeyPatch, *outcomes: Any) -> list[float]:
    """Has the controller give these answers, in turn. Returns the times at which it is asked."""
    times: list[float] = []
    left = iter(outcomes)

    async def ask(_: object) -> Any:
        times.append(trio.current_time())
        outcome = next(left)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(leaving, "_ask", ask)
    return times


@pytest.mark.trio
async def test_it_asks_again_after_a_while(monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock) -> None:
    times = answers(monkeypatch, StaleBrokerEpoch(), ConnectionError("no"), [("t", 0)], [("t", 0)])
    await leaving.hand_over(Stub())
    assert [moment - times[0] for moment in times] == [0, 5, 10], "three times in all, as Kafka's default is"


@pytest.mark.trio
async def test_it_asks_again_at_once_if_there_is_another_controller(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    broker = Stub()
    times = answers(monkeypatch, StaleBrokerEpoch(), [])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leaving.hand_over, broker)
        await trio.sleep(1)
        broker.metadata.controller_id = ME
        broker.metadata.changed()
    assert [moment - times[0] for moment in times] == [0, 1]


@pytest.mark.trio
async def test_it_waits_for_nobody_when_all_others_have_left(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    broker = Stub()
    times = answers(monkeypatch, [("t", 0)])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leaving.hand_over, broker)
        await trio.sleep(1)
        del broker.metadata.brokers[OTHER]
        broker.metadata.changed()
    assert (len(times), trio.current_time() - times[0]) == (1, 1)


@pytest.mark.trio
async def test_it_waits_until_it_has_heard_who_leads(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    broker = Stub()
    answers(monkeypatch, [])
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leaving.hand_over, broker)
        await trio.sleep(0.5)
        broker.metadata.topics["t"][0] = PartitionMetadata(OTHER, 1, (OTHER,), (ME, OTHER), ())
        broker.metadata.changed()
    assert broker.replicas.is_leaving
    assert trio.current_time() - began == 0.5 + leaving.LINGER_SECONDS
    answers(monkeypatch, [])
    broker.metadata.topics["t"][0] = PartitionMetadata(ME, 2, (ME,), (ME, OTHER), ())
    began = trio.current_time()
    await leaving.hand_over(broker)
    assert trio.current_time() - began == leaving.HEAR_SECONDS + leaving.LINGER_SECONDS, "but not for ever"


@pytest.mark.trio
@pytest.mark.parametrize(("telling_s", "waits_s"), [(0.5, 0.5), (60, leaving.HEAR_SECONDS)])
async def test_a_controller_waits_until_the_others_have_heard(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock, telling_s: float, waits_s: float
) -> None:
    broker = Stub()
    broker.telling_s = telling_s

    async def ask(_: object) -> list[Any]:
        broker.metadata.topics["t"][0] = PartitionMetadata(OTHER, 1, (OTHER,), (ME, OTHER), ())
        return []

    monkeypatch.setattr(leaving, "_ask", ask)
    began = trio.current_time()
    await leaving.hand_over(broker)
    assert trio.current_time() - began == waits_s + leaving.LINGER_SECONDS


@pytest.mark.trio
async def test_nobody_is_waited_for_who_would_be_refused(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """This broker follows, and leads nothing."""
    broker = Stub()
    broker.metadata.topics["t"][0] = PartitionMetadata(OTHER, 1, (OTHER,), (ME, OTHER), ())
    answers(monkeypatch, [])
    began = trio.current_time()
    await leaving.hand_over(broker)
    assert trio.current_time() == began


@pytest.mark.trio
async def test_nobody_waits_for_a_tree_that_is_away(monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock) -> None:
    times = answers(monkeypatch)
    began = trio.current_time()
    await leaving.hand_over(Stub(SessionState.SUSPENDED))
    assert (times, trio.current_time()) == ([], began)
