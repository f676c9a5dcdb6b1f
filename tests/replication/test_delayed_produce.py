"""A Produce is answered once, when all of its partitions are settled, whatever comes first."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla._core import AppendInfo, ProduceRow
from ottla.errors import MessageTooLarge, NotEnoughReplicas, RequestTimedOut, StorageError
from ottla.kafka import ACKS_ALL
from ottla.replication.delayed_produce import DelayedProduce, ProduceResult
from ottla.replication.partition import Partition

LATE = ProduceRow(RequestTimedOut.code)
NO_ERROR = ProduceRow()
LOG_START = 3


class Safe:
    """A partition whose appends become safe when a test says so."""

    def __init__(self, name: str = "t", index: int = 0) -> None:
        self.topic, self.index = name, index
        self.log = SimpleNamespace(start_offset=LOG_START, settled_offset=2**63 - 1)
        self.moved = 0
        self.tell: Callable[[int], None] = lambda _: None

    def appended(self) -> None:
        self.moved += 1

    def wait_durable(self, _last_offset: int, done: Callable[[int], None]) -> bool:
        self.tell = done
        return False

    def wait_flushed(self, last_offset: int, done: Callable[[int], None]) -> bool:
        if last_offset < self.log.settled_offset:
            done(0)
        else:
            self.tell = done
        return False


class Rooms:
    """Their parts do nothing by themselves."""

    def __init__(self) -> None:
        self.ends: list[Callable[[Any], None]] = []
        self.turn = SimpleNamespace(appended={}, at_end=self.ends.append)
        self.reports: dict[int, Callable[[AppendInfo | None, BaseException | None], None]] = {}
        self.server = SimpleNamespace(expect=self.reports.__setitem__)
        self.failed: list[StorageError] = []
        self.replicas = SimpleNamespace(storage_error=lambda _, error: self.failed.append(error), flush=lambda _: None)
        self.waiting: list[tuple[int, DelayedProduce]] = []
        self.deadlines = SimpleNamespace(add=lambda timeout_ms, one: self.waiting.append((timeout_ms, one)))
        self.answers: list[list[ProduceResult]] = []
        self.may_start = 0

    def produce(self, acks: int = ACKS_ALL) -> DelayedProduce:
        return DelayedProduce(cast("Any", self), acks, 100, self.answers.append, self._next)

    def _next(self) -> None:
        self.may_start += 1

    def end_turn(self, lost: object = None) -> None:
        ends, self.ends[:] = [*self.ends], []
        for end in ends:
            end({} if lost is None else {("t", 0): lost})


@pytest.fixture
def rooms() -> Rooms:
    return Rooms()


def info(offset: int) -> AppendInfo:
    return cast("AppendInfo", SimpleNamespace(losses=0, last_offset=offset, flush_due=False))


def safe(*names: int) -> tuple[Partition, ...]:
    return cast("tuple[Partition, ...]", tuple(Safe(index=name) for name in names))


def tell(partition: Partition, error: int = 0) -> None:
    cast("Safe", partition).tell(error)


def test_where_nothing_is_appended_it_is_answered_at_once(rooms: Rooms) -> None:
    produce = rooms.produce()
    produce.settle(ProduceRow(NotEnoughReplicas.code))
    produce.refuse(*safe(0), MessageTooLarge("large"))
    produce.named()
    assert rooms.answers == [[ProduceRow(NotEnoughReplicas.code), ProduceRow(MessageTooLarge.code)]]
    assert not rooms.ends


@pytest.mark.parametrize("acks", [0, 1])
def test_without_all_it_is_answered_at_the_end_of_its_turn(rooms: Rooms, acks: int) -> None:
    produce, one = rooms.produce(acks), info(5)
    produce.appended(*safe(0), one)
    produce.named()
    assert (rooms.answers, rooms.may_start) == ([], 1)
    rooms.end_turn()
    assert rooms.answers == [[one]]
    assert not rooms.waiting


def test_with_all_it_is_answered_with_its_last_partition(rooms: Rooms) -> None:
    produce, (first, second), infos = rooms.produce(), safe(0, 1), [info(5), info(9)]
    produce.appended(first, infos[0])
    produce.appended(second, infos[1])
    produce.named()
    rooms.end_turn()
    assert rooms.waiting == [(100, produce)]
    tell(second)
    assert not rooms.answers
    tell(first)
    assert rooms.answers == [infos]
    assert produce.done


def test_what_is_not_safe_is_told_with_its_reason(rooms: Rooms) -> None:
    produce, (one,) = rooms.produce(), safe(0)
    produce.appended(one, info(5))
    produce.named()
    rooms.end_turn()
    tell(one, StorageError.code)
    assert rooms.answers == [[ProduceRow(StorageError.code)]]


def test_what_is_safe_before_its_turn_has_ended_does_not_answer_early(rooms: Rooms) -> None:
    produce, (first, second) = rooms.produce(), safe(0, 1)
    produce.appended(first, info(5))
    produce.append_later(second, 7)
    produce.named()
    rooms.reports[7](info(9), None)
    tell(second)
    assert not rooms.answers
    rooms.end_turn()
    assert not rooms.answers
    tell(first)
    assert len(rooms.answers) == 1


def test_an_append_on_a_thread_is_not_the_end_of_the_turn(rooms: Rooms) -> None:
    """Others of the request are not written before that."""
    produce, (first, second), infos = rooms.produce(1), safe(0, 1), [info(5), info(9)]
    produce.appended(first, infos[0])
    produce.append_later(second, 7)
    produce.named()
    rooms.reports[7](infos[1], None)
    assert not rooms.answers
    rooms.end_turn()
    assert rooms.answers == [infos]


def test_what_its_turn_could_not_write_is_told(rooms: Rooms) -> None:
    for acks in (1, ACKS_ALL):
        produce = rooms.produce(acks)
        produce.appended(*safe(0), info(5))
        produce.named()
        rooms.end_turn(lost=SimpleNamespace(has=lambda _: True, error=StorageError("full")))
    assert rooms.answers == [[ProduceRow(StorageError.code)]] * 2


def test_an_append_on_a_thread_holds_back_the_next_produce(rooms: Rooms) -> None:
    produce, (one,), appended = rooms.produce(1), safe(0), info(9)
    produce.append_later(one, 7)
    produce.named()
    rooms.end_turn()
    assert (rooms.may_start, rooms.answers) == (0, [])
    rooms.reports[7](appended, None)
    assert rooms.may_start == 1
    assert rooms.answers == [[appended]]
    assert cast("Safe", one).moved == 1


def test_an_append_on_a_thread_that_fails(rooms: Rooms) -> None:
    produce, (one,) = rooms.produce(1), safe(0)
    produce.append_later(one, 7)
    produce.named()
    rooms.end_turn()
    error = StorageError("full")
    rooms.reports[7](None, error)
    assert rooms.answers == [[ProduceRow(StorageError.code)]]
    assert rooms.failed == [error]


def test_one_that_expires_tells_which_partitions_were_late_and_hears_no_more(rooms: Rooms) -> None:
    produce, (first, second, third), done = rooms.produce(), safe(0, 1, 2), info(5)
    produce.appended(first, done)
    produce.appended(second, info(6))
    produce.append_later(third, 7)
    produce.named()
    rooms.end_turn()
    tell(first)
    produce.expire()
    assert rooms.answers == [[done, LATE, LATE]]
    rooms.reports[7](info(9), None)
    for late in (second, third):
        tell(late)
    produce.expire()
    assert len(rooms.answers) == 1
    assert cast("Safe", third).moved == 1, "its followers are told of it all the same"
