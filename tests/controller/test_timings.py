"""How long the controller's events wait and take, and that each is counted under Kafka's name for it."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ottla.controller import Controller, NewTopic, create_topic, delete_topics, timings
from ottla.controller.balance import Balance
from ottla.controller.decisions import IsrChange
from ottla.controller.events import BrokerChange, Events, TopicChange
from ottla.controller.timings import KINDS, QUANTILES, TABLE_S, Durations, Timings
from ottla.coordination import znodes
from ottla.kafka import TopicPartition
from tests.controller.conftest import TestCluster
from tests.support.waiting import comes_true


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_quantiles_are_off_by_three_percent_at_most() -> None:
    durations, random_seconds = Durations(), random.Random(7)
    seconds = [random_seconds.lognormvariate(-5, 3) for _ in range(1000)]
    for each in seconds:
        durations.record(each, 1000)
    assert durations.count == len(seconds)
    seconds.sort()
    exact = [seconds[int(quantile * 1000) - 1] * 1000 for quantile in QUANTILES]
    assert durations.quantiles_ms(1000) == pytest.approx(exact, rel=0.035)
    assert len(durations._younger) < 500


def test_small_and_strange_durations_are_told() -> None:
    durations = Durations()
    assert durations.quantiles_ms(5) == [0.0] * len(QUANTILES)
    durations.record(-1e-9, 5)
    assert durations.quantiles_ms(5) == [0.0] * len(QUANTILES)
    durations.record(3e-6, 5)
    assert durations.quantiles_ms(5)[-1] == 0.003


def test_what_is_told_is_of_the_last_five_to_ten_minutes() -> None:
    durations = Durations()
    durations.record(1.0, TABLE_S)
    durations.record(2.0, 1.5 * TABLE_S)
    assert durations.quantiles_ms(2.9 * TABLE_S)[0] == pytest.approx(1000, rel=0.035)
    durations.record(0.1, 2.9 * TABLE_S)
    assert durations.quantiles_ms(3.5 * TABLE_S) == pytest.approx([100] * len(QUANTILES), rel=0.035)
    assert durations.quantiles_ms(9 * TABLE_S) == [0.0] * len(QUANTILES)
    assert durations.count == 3


@pytest.mark.trio
async def test_an_event_waits_from_when_it_was_put_in_first() -> None:
    clock = Clock()
    times = Timings(clock)
    events = Events(times)
    events.put(TopicChange())
    clock.now += 2
    events.put(TopicChange())
    events.put(BrokerChange())
    assert len(events) == 2
    clock.now += 1
    assert [await events.take(), await events.take()] == [BrokerChange(), TopicChange()]
    assert (len(events), times.queue.count) == (0, 2)
    halves = times.queue.quantiles_ms(clock.now)
    assert (halves[0], halves[-1]) == (pytest.approx(1000, rel=0.035), pytest.approx(3000, rel=0.035))


def test_what_fails_is_timed_too() -> None:
    clock = Clock()
    times = Timings(clock)

    def fail() -> None:
        with times.timed(timings.TOPIC_CHANGE):
            clock.now += 4
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with times.timed(None):
        clock.now += 4
    assert {kind: each.count for kind, each in times.events.items() if each.count} == {timings.TOPIC_CHANGE: 1}
    assert times.events[timings.TOPIC_CHANGE].quantiles_ms(clock.now)[0] == pytest.approx(4000, rel=0.035)


class Counted:
    """The events that a controller has counted since this was made, by kind."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._before = self._now()

    def _now(self) -> dict[str, int]:
        return {kind: each.count for kind, each in self._controller.timings.events.items()}

    async def grows(self, kind: str) -> None:
        """There were events of this kind since the last call."""
        await comes_true(kind, lambda: self._now()[kind] > self._before[kind])
        self._before = self._now()


@pytest.mark.trio
async def test_each_kind_is_counted_when_it_happens(cluster: TestCluster) -> None:
    one, two = await cluster.broker(1), await cluster.broker(2)
    controller = cluster.controller(one, balance=Balance(10, 0.01, 0.01))
    counted = Counted(controller)
    await counted.grows(timings.CONTROLLER_CHANGE)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (1, 2), 1: (2, 1)}))
    await counted.grows(timings.TOPIC_CHANGE)
    await one.until(lambda: len(one.roles("t")) == 2)
    await counted.grows(timings.ROLES_ANSWERED)
    await counted.grows(timings.AUTO_BALANCE)

    def known() -> dict[int, int]:
        """The epoch of each broker."""
        assert controller.cluster is not None
        return {broker.id: broker.epoch for broker in controller.cluster.brokers.values()}

    first = TopicPartition("t", 0)
    assert controller.cluster is not None
    partition = controller.cluster.get(first)
    assert partition is not None
    assert partition.state is not None
    change = IsrChange(partition.state.leader_epoch, (1,), partition.version)
    await controller.alter_isr(1, known()[1], {first: change})
    await counted.grows(timings.ISR_CHANGE)
    await controller.elect_leaders([first], unclean=False)
    await counted.grows(timings.MANUAL_BALANCE)
    await controller.reassign({first: (1,)})
    await counted.grows(timings.REASSIGNMENT)
    await cluster.admin.create(znodes.LOG_DIR_EVENT_PREFIX, znodes.encode_log_dir_event(2), sequential=True)
    await counted.grows(timings.LOG_DIR_CHANGE)
    controller.allow_unclean_elections(True)
    await counted.grows(timings.UNCLEAN_ENABLED)
    controller.allow_unclean_elections_of("t")
    await counted.grows(timings.UNCLEAN_ENABLED_OF_TOPIC)
    await controller.shut_down(2, known()[2])
    await counted.grows(timings.SHUTDOWN)
    await cluster.kill(two)
    await counted.grows(timings.LEADER_ELECTION)
    await delete_topics(cluster.admin, ["t"])
    await counted.grows(timings.TOPIC_DELETION)
    never = [kind for kind in KINDS if not controller.timings.events[kind].count]
    assert never == []
    assert controller.timings.queue.count > len(KINDS)


@pytest.mark.trio
async def test_requests_that_a_broker_does_not_answer_are_told(cluster: TestCluster) -> None:
    one, two = await cluster.broker(1), await cluster.broker(2)
    controller = cluster.controller(one)

    def waiting(expected: Callable[[dict[int, int]], bool]) -> Callable[[], bool]:
        return lambda: expected(controller.requests_waiting())

    assert controller.requests_waiting() == {}
    await comes_true("all is answered", waiting(lambda of: of == {1: 0, 2: 0}))
    two.silent = True
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (1, 2)}))
    await comes_true("one waits", waiting(lambda of: of[1] == 0 and of[2] > 0))
    two.speak()
    await comes_true("none waits", waiting(lambda of: of == {1: 0, 2: 0}))
