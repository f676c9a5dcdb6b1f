"""No request takes the loop for long in one go, whatever its rows: the largest of each API, made from its schema.

What is bounded is counted (`tests.support.loop_steps`): the lines of Python between two returns to the loop, and the
rows that one call hands to C or Rust. Milliseconds are for `make bench-hostile`. The rows were looked at, each time:
a request that is refused at once shows nothing.
"""

from __future__ import annotations

import logging
import queue
import shutil
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
import trio
import trio.testing

from ottla.broker.broker import Broker
from ottla.broker.requests import MODULES
from ottla.config import BrokerConfig
from ottla.controller import NewTopic
from ottla.controller.topic_changes import create_topics
from ottla.wire import api
from ottla.wire.headers import request_frame
from ottla.wire.k08_offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.k19_create_topics import CREATE_TOPICS
from ottla.wire.k56_alter_isr import ALTER_ISR
from ottla.wire.schema import Api
from tests.support.client import Client, batch
from tests.support.largest import Largest, Rows, items_of, largest
from tests.support.loop_steps import Steps, counted
from tests.support.waiting import PATIENCE_S

T = TypeVar("T")

#: Lines of Python in one go. A slice has 400 by the clock that is counted, and a row or two may come on top.
LINES_MAX = 900
#: Rows in one call into C or Rust.
ROWS_MAX = 500
TOPICS = 60
#: Fetch takes its rows in Rust and in pieces of its own (test_many_partitions.py).
BY_OTHERS = frozenset({1})
#: Array items of a request: what `make test` has time for, and all that an API takes.
FEW, ALL = 2_000, None
#: APIs whose rows cost a change of the coordination tree or a folder each, or many lines: fewer of them do.
COSTLY = {
    **dict.fromkeys((4, 5, 20), 500),
    19: 100,
    **dict.fromkeys((33, 44, 49, 51), 200),
    32: 1_500,
    **dict.fromkeys((27, 34, 45, 50), 2_000),
    **dict.fromkeys((2, 8, 9, 21, 23, 28, 43), 2_500),
}
#: Each topic costs several folders, and a millisecond. All that a request may ask for would take a quarter of an hour.
#: More than these are only validated (`test_nor_do_the_most_topics`).
MADE_MAX = 20_000
VALIDATES_SINCE = 1
SOAK_S = 1800
#: The APIs that brokers take from the controller alone. Its epoch is in the tree.
OF_CONTROLLERS = frozenset({4, 5, 6})
#: They change what others are asked about: each has a broker of its own, and comes first.
ALONE = (4, 5, 6, 20)
#: They change a little, in this order, when all that only read had their turn. Settings of topics (33, 44) are taken by
#: the broker after the answer, while the next API is asked, which is one that may do as much in one go.
CHANGING = (28, 8, 27, 21, 45, 43, 49, 33, 44, 51, 37, 19, 47, 42)


class Bound(NamedTuple):
    """The work that an API may do in one go of a request with `FEW` items; of a larger one, that much more."""

    why: str
    lines: int = LINES_MAX
    rows: int = ROWS_MAX


FEW_IN_ALL = "it takes 10,000 items at most (FEW_ITEMS_MAX), in one go"
NAMES = "the names of all rows are put into one list"
ONE_RESOURCE = "the settings of one resource, which are few"
#: The APIs that do more in one go, and why that is right.
BOUNDS = {
    0: Bound("16 rows are written, and become safe in one go", lines=2_500),
    4: Bound("new partitions come with the settings of their topics, four in one go", lines=4_000),
    6: Bound("the dictionary of all topics is copied", rows=2_500),
    8: Bound("all offsets of a commit are in one batch", lines=1_500),
    9: Bound(f"{NAMES}; each of them is freed with the lists in it", lines=1_700, rows=2_500),
    11: Bound(FEW_IN_ALL, lines=6_500),
    14: Bound(FEW_IN_ALL, lines=6_500),
    16: Bound(FEW_IN_ALL, rows=FEW),
    19: Bound(ONE_RESOURCE, lines=3_200),
    20: Bound("the controller plans the end of 16 topics in one go", lines=2_500),
    21: Bound(f"{NAMES}; each time that one ends, all are asked", lines=4_000, rows=2_500),
    23: Bound(NAMES, lines=1_200, rows=2_500),
    24: Bound(NAMES, rows=2_500),
    27: Bound("16 markers become safe in one go", lines=2_500),
    28: Bound(NAMES, lines=1_200, rows=2_500),
    32: Bound("a row is all settings of one resource", lines=5_500),
    33: Bound(ONE_RESOURCE, lines=4_500),
    34: Bound(NAMES, rows=2_500),
    37: Bound("the assignments of one topic are bounded (NEW_PARTITIONS_MAX)", lines=3_500, rows=2_500),
    42: Bound(f"{NAMES}; the ends of all groups' appends may come in one turn of the hub", lines=8_000, rows=FEW),
    43: Bound(NAMES, rows=2_500),
    44: Bound(ONE_RESOURCE, lines=4_500),
    45: Bound("the controller makes a set of the names; the replicas of one row are a tuple", lines=2_200, rows=FEW),
    47: Bound(NAMES, rows=2_500),
    50: Bound(FEW_IN_ALL, lines=6_500),
    51: Bound(FEW_IN_ALL, lines=12_000, rows=1_000),
    56: Bound("the replicas of one row are a tuple", rows=FEW),
    66: Bound(FEW_IN_ALL, lines=12_000, rows=FEW),
}
#: Arrays whose length alone is reason to refuse the request; or whose first item is, here: no quota is called "name".
REFUSED_BY_LENGTH = frozenset(
    {
        (6, "ungrouped_partition_states.isr"),
        (6, "ungrouped_partition_states.replicas"),
        (6, "topic_states.partition_states.isr"),
        (6, "topic_states.partition_states.replicas"),
        (6, "topic_states.partition_states.offline_replicas"),
        (6, "live_brokers.endpoints"),
        (37, "topics.assignments.broker_ids"),
        (48, "components"),
        (49, "entries.ops"),
    }
)
#: Nobody has delegation tokens.
REFUSED = frozenset({38, 41})
#: A row has so many items at most.
ITEMS_OF_ROW = 5

BATCH = batch(b"x")
#: Values with which rows are looked at instead of refused at once.
VALUES: dict[int, dict[str, object]] = {
    0: {"transactional_id": None, "acks": -1, "timeout_ms": 60_000, "records": BATCH},
    2: {"replica_id": -1, "timestamp": -1, "max_num_offsets": 10},
    4: {"controller_id": 1, "replicas": [1], "isr": [1], "leader": 1, "leader_epoch": 99},
    5: {"controller_id": 1, "leader_epoch": -1},
    6: {"controller_id": 1, "replicas": [1], "isr": [1], "leader": 1},
    8: {"group_id": "committed"},
    9: {"group_id": "group-0"},
    19: {"num_partitions": 1, "replication_factor": 1, "timeout_ms": 1000, "assignments": [], "configs": []},
    20: {"timeout_ms": 1000},
    21: {"timeout_ms": 1000, "offset": -1},
    24: {"transactional_id": "t", "producer_id": 1},
    27: {"producer_id": 1, "producer_epoch": 1, "coordinator_epoch": 1},
    28: {"transactional_id": "t", "group_id": "group-0", "producer_id": 1},
    32: {"resource_type": 2, "configuration_keys": None},
    33: {"resource_type": 2, "configs": []},
    37: {"timeout_ms": 1000, "count": 1, "assignments": None},
    43: {"timeout_ms": 1000},
    44: {"resource_type": 2, "configs": []},
    45: {"timeout_ms": 1000},
    46: {"timeout_ms": 1000},
    47: {"group_id": "group-0"},
    51: {"mechanism": 1, "iterations": 4096},
    56: {"broker_id": 1, "leader_epoch": 0, "new_isr": [1], "current_isr_version": 0},
}


def settings(path: Path) -> BrokerConfig:
    return BrokerConfig(
        {
            "log.dirs": str(path),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "broker.id": "1",
            "auto.create.topics.enable": "false",
            # It looks at all partitions, at some time.
            "auto.leader.rebalance.enable": "false",
        }
    )


class Attacked:
    """A broker on a loop in a thread of this process, with `TOPICS` topics and as many groups."""

    def __init__(self, loop: Loop, broker: Broker) -> None:
        self.steps = loop.steps
        self.broker_epoch = broker.registration.epoch
        self.controller_epoch = broker.controller_epoch
        self._loop = loop
        self._port = broker.addresses.listening[0].port

    def ask(self, frame: bytes) -> int:
        """Sends a request and returns the length of the answer, -1 if there was none, when the broker has nothing to do
        for it any more: it still frees the rows when it has answered.
        """
        with Client.connect("127.0.0.1", self._port, "test", timeout_ms=600_000) as client:
            self._loop.run(trio.testing.wait_all_tasks_blocked)
            self._loop.run(self._reset)
            client._socket.sendall(frame)
            length = self._answer(client._socket)
            self._loop.run(trio.testing.wait_all_tasks_blocked)
        return length

    async def _reset(self) -> None:
        self.steps.reset()

    def _answer(self, answers: socket.socket) -> int:
        head = answers.recv(4)
        if len(head) < 4:
            return -1
        left = length = int.from_bytes(head, "big")
        while left:
            left -= len(answers.recv(min(left, 1 << 20)))
        return length


class Loop:
    """A trio run in a thread, what it does in one go being counted, with one broker at a time."""

    def __init__(self, prepared: Path, folder: Path) -> None:
        self._prepared = prepared
        self._folder = folder
        self._started: queue.Queue[trio.lowlevel.TrioToken] = queue.Queue()
        self._over = trio.Event()
        self._stop = trio.Event()
        self._stopped = trio.Event()
        self._brokers = 0
        self._attacked: Attacked | None = None
        self._is_fresh = False
        self._thread = threading.Thread(target=trio.run, args=(self._main,), daemon=True)

    def __enter__(self) -> Loop:
        self._thread.start()
        self._token = self._started.get(timeout=PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._end)
        self._thread.join(PATIENCE_S)

    def run(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        return trio.from_thread.run(function, *arguments, trio_token=self._token)

    def broker(self, *, fresh: bool) -> Attacked:
        """The broker that reading requests share, or one that nobody has asked for anything yet."""
        if self._attacked is None or fresh or self._is_fresh:
            self._attacked = self.run(self._next)
            self._is_fresh = fresh
        return self._attacked

    async def _main(self) -> None:
        with counted() as self.steps:
            async with trio.open_nursery() as self._nursery:
                self._started.put(trio.lowlevel.current_trio_token())
                await self._over.wait()

    async def _next(self) -> Attacked:
        await self._end_broker()
        self._brokers += 1
        data = self._folder / str(self._brokers)
        shutil.copytree(self._prepared, data)
        self._stop, self._stopped = trio.Event(), trio.Event()
        return Attacked(self, await self._nursery.start(self._serve, data))

    async def _serve(self, data: Path, task_status: trio.TaskStatus[Broker]) -> None:
        async with Broker.start(settings(data)) as broker:
            task_status.started(broker)
            await self._stop.wait()
        self._stopped.set()

    async def _end_broker(self) -> None:
        if self._attacked is not None:
            self._stop.set()
            await self._stopped.wait()

    async def _end(self) -> None:
        await self._end_broker()
        self._over.set()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a broker with topics and groups."""
    path = tmp_path_factory.mktemp("prepared")

    def commit(port: int) -> None:
        with Client.connect("127.0.0.1", port, "test") as client:
            for number in range(TOPICS):
                rows = [OffsetCommitRequestTopic("topic-0", [OffsetCommitRequestPartition(0, 1)])]
                client.call(OFFSET_COMMIT, OffsetCommitRequest(group_id=f"group-{number}", topics=rows), 7)

    async def prepare() -> None:
        async with Broker.start(settings(path)) as broker:
            topics = [NewTopic(f"topic-{number}", 1, 1) for number in range(TOPICS)]
            await create_topics(broker.tree, [*topics, NewTopic("wide", TOPICS, 1)])
            await broker.groups.topic.ensure()
            await broker.transactions.topic.ensure()
            await broker.metadata.wait_until(lambda: len(broker.metadata.topics) == TOPICS + 3)
            await trio.to_thread.run_sync(commit, broker.addresses.listening[0].port)

    trio.run(prepare)
    return path


@pytest.fixture(scope="module")
def loop(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    # What is compiled with the first message of an API is no part of a request.
    for found in map(api, MODULES):
        found.encode_request(found.versions[-1], found.request())
        found.encode_response(found.versions[-1], found.response())
    with pytest.MonkeyPatch.context() as patch, Loop(prepared, tmp_path_factory.mktemp("brokers")) as loop:
        # Pytest would keep each line.
        patch.setattr(logging.getLogger("ottla"), "propagate", False)
        patch.setattr(logging.getLogger("ottla"), "handlers", [logging.NullHandler()])
        yield loop


def frame_of(found: Api[Any, Any], wanted: Largest) -> bytes:
    body = found.encode_request(wanted.version, wanted.message)
    return request_frame(found.key, wanted.version, 7, "test", body)


def attack(key: int, items: int | None, one: Attacked, *, validates: bool = False) -> None:
    """With `validates`, what can be asked to do nothing but validation is."""
    found = api(key)
    values = VALUES.get(key, {})
    if validates:
        values = {**values, "validate_only": True}
    if key == ALTER_ISR.key:
        values = {**values, "broker_epoch": one.broker_epoch}
    if key in OF_CONTROLLERS:
        values = {**values, "controller_epoch": one.controller_epoch}
    most = min(items or found.items_max, COSTLY.get(key, found.items_max) if items else found.items_max)
    if key == CREATE_TOPICS.key and not validates:
        most = min(most, MADE_MAX)
    wrong = []
    for version in sorted({VALIDATES_SINCE if validates else found.versions[0], found.versions[-1]}):
        for same in [False] if version < found.versions[-1] else [False, True]:
            for wanted in largest(found, version, most, Rows(TOPICS, same=same), values):
                length = one.ask(frame_of(found, wanted))
                wrong += [
                    f"{found.name} {wanted} {'same' if same else 'different'}: {problem}, answer of {length} bytes"
                    for problem in problems(key, wanted, one.steps, length, max(1, most // FEW))
                ]
    assert not wrong, "\n".join(wrong)


def problems(key: int, wanted: Largest, steps: Steps, length: int, times: int) -> Iterator[str]:
    """The problems of one request, which has `times` as many items as `FEW`."""
    bound = BOUNDS.get(key)
    if steps.longest > (LINES_MAX if bound is None else bound.lines * times):
        yield f"{steps.longest} lines in one go: {steps.what}"
    if steps.most_rows > (ROWS_MAX if bound is None else bound.rows * times):
        yield f"{steps.most_rows} rows in one call: {steps.call}"
    if key not in REFUSED and (key, wanted.path) not in REFUSED_BY_LENGTH:
        rows = items_of(wanted.message) // ITEMS_OF_ROW
        if max(steps.looked_at, length) < rows:
            yield f"{rows} rows were not looked at, by {steps.looked_at} lines"


def turn_of(key: int) -> tuple[bool, int, int]:
    return key not in ALONE, CHANGING.index(key) if key in CHANGING else -1, key


KEYS = sorted((key for key in MODULES if key not in BY_OTHERS), key=turn_of)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: api(key).name)
def test_no_request_takes_the_loop_for_long(key: int, loop: Loop) -> None:
    attack(key, FEW, loop.broker(fresh=key in ALONE))


@pytest.mark.soak
@pytest.mark.timeout(SOAK_S)
@pytest.mark.parametrize("key", KEYS, ids=lambda key: api(key).name)
def test_nor_does_the_largest(key: int, loop: Loop) -> None:
    attack(key, ALL, loop.broker(fresh=key in ALONE))


@pytest.mark.soak
@pytest.mark.timeout(SOAK_S)
def test_nor_do_the_most_topics(loop: Loop) -> None:
    attack(CREATE_TOPICS.key, ALL, loop.broker(fresh=True), validates=True)
