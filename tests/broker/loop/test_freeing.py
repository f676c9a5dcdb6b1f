"""Rows of a large answer are freed in slices, and only those that nobody else has."""

from collections import Counter
from typing import Any, ClassVar, cast

import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from ottla import slices
from ottla.broker import freeing
from ottla.broker.call import PIECES_FREED_AT_ONCE, Call
from ottla.wire.k03_metadata import METADATA, MetadataResponse, MetadataResponseTopic
from ottla.wire.schema import ITEMS_AT_ONCE, Message


class Row(Message):
    items: list[object] = msgspec.field(default_factory=list)


class Rows(Message):
    rows: list[Row] = msgspec.field(default_factory=list)


def freed(lists: list[list[object]]) -> None:
    trio.run(freeing.free, lists)


def rows(count: int) -> list[Row]:
    return [Row([number] * 100) for number in range(count)]


def test_rows_that_somebody_has_keep_their_items() -> None:
    message = Rows(rows(2000))
    kept = message.rows[7]
    lists = freeing.lists_of(message)
    del message
    freed(lists)
    assert kept == Row([7] * 100)


def test_a_list_of_a_row_that_somebody_has_keeps_its_items() -> None:
    message = Rows(rows(2000))
    kept = message.rows[7].items
    lists = freeing.lists_of(message)
    del message
    freed(lists)
    assert kept == [7] * 100


def test_a_list_that_somebody_has_keeps_its_rows() -> None:
    message = Rows(rows(2000))
    kept = message.rows
    lists = freeing.lists_of(message)
    del message
    freed(lists)
    assert kept == rows(2000)


class Value:
    """Notes in which step of the loop it ends."""

    def __init__(self, steps: list[int], ended: Counter[int]) -> None:
        self._steps = steps
        self._ended = ended

    def __del__(self) -> None:
        self._ended[len(self._steps)] += 1


class Steps(trio.abc.Instrument):
    def __init__(self) -> None:
        self.steps: list[int] = []

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps.append(1)


def test_all_else_goes_slice_by_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a slice of time is over at once."""
    for name in ("SLICE_S", "FIRST_SLICE_S"):
        monkeypatch.setattr(slices, name, 0)
    instrument, ended = Steps(), Counter[int]()
    message = Rows([Row([Value(instrument.steps, ended) for _ in range(1000)]) for _ in range(3)])
    lists = freeing.lists_of(message)
    del message
    trio.run(freeing.free, lists, instruments=[instrument])
    assert ended.total() == 3000
    assert max(ended.values()) <= freeing.FREED_AT_ONCE


def test_a_long_list_goes_slice_by_slice_however_deep_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLICE_S", "FIRST_SLICE_S"):
        monkeypatch.setattr(slices, name, 0)
    instrument, ended = Steps(), Counter[int]()

    async def run() -> None:
        values: list[object] = [Value(instrument.steps, ended) for _ in range(3000)]
        message = Rows([Row([Row([Row(values)])])])
        del values
        lists = freeing.lists_of(message)
        del message
        freeing.free_soon(lists)
        del lists
        await wait_all_tasks_blocked()

    trio.run(run, instruments=[instrument])
    assert ended.total() == 3000
    assert max(ended.values()) <= freeing.FREED_AT_ONCE


def test_what_a_handler_has_made_goes_slice_by_slice_however_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLICE_S", "FIRST_SLICE_S"):
        monkeypatch.setattr(slices, name, 0)
    instrument, ended = Steps(), Counter[int]()

    async def handler(fails: bool) -> None:
        mine = freeing.Freed()
        made: dict[int, Value] = mine.add({})
        for number in range(3000):
            made[number] = Value(instrument.steps, ended)
        if fails:
            raise ValueError("a handler fails")

    async def run() -> None:
        await handler(False)
        await wait_all_tasks_blocked()
        assert ended.total() == 3000
        with pytest.raises(ValueError, match="a handler fails"):
            await handler(True)
        await wait_all_tasks_blocked()

    trio.run(run, instruments=[instrument])
    assert ended.total() == 6000
    assert max(ended.values()) <= freeing.FREED_AT_ONCE


def test_what_somebody_else_has_of_it_stays() -> None:
    async def run() -> None:
        mine = freeing.Freed()
        made = mine.add(dict.fromkeys(range(3000)))
        del mine
        await wait_all_tasks_blocked()
        assert len(made) == 3000

    trio.run(run)


class Name(str):
    """Notes in which step of the loop it ends."""

    steps: ClassVar[list[int]] = []
    ended: ClassVar[Counter[int]] = Counter()
    __slots__ = ()

    def __del__(self) -> None:
        self.ended[len(self.steps)] += 1


class _Request:
    """Of Metadata, as far as an answer to it goes."""

    api_version = METADATA.versions[1]
    is_large = False

    def reply_encoded(self, encoding: object) -> None:
        pass


class _Serving:
    is_measured = False


def test_a_large_answer_goes_slice_by_slice_when_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLICE_S", "FIRST_SLICE_S"):
        monkeypatch.setattr(slices, name, 0)
    instrument = Steps()
    Name.steps = instrument.steps
    Name.ended.clear()
    count = (PIECES_FREED_AT_ONCE + 2) * ITEMS_AT_ONCE

    async def run() -> None:
        call: Call[Any, Any] = Call(cast("Any", _Serving()), METADATA, cast("Any", _Request()))
        await call.reply_here(
            MetadataResponse(topics=[MetadataResponseTopic(name=Name(number)) for number in range(count)])
        )

    trio.run(run, instruments=[instrument])
    assert Name.ended.total() == count
    assert max(Name.ended.values()) <= freeing.FREED_AT_ONCE
