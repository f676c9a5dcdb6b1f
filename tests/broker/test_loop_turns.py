"""No request takes the loop for long in one go, whatever its rows: the largest of each API, made from its schema.

What is measured is the processor time of each step of the loop, so that a loaded machine matters little. It still does:
neighbours empty the caches, and time that a virtual processor was not given counts as used. So what took too long is
asked once more, with all that came before it, of a broker that begins in the same state: a fault of the broker's
repeats. An honest client produces meanwhile, and is answered.
"""

import gc
import logging
import shutil
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from ottla.broker import garbage
from ottla.broker.broker import Broker
from ottla.broker.requests import MODULES
from ottla.config import BrokerConfig
from ottla.controller import NewTopic
from ottla.controller.admin import create_topics
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
from tests.support.largest import Largest, Rows, largest
from tests.support.loop_steps import Steps, measured

#: What one step of the loop may take of its processor.
STEP_MS_MAX = 20.0
TOPICS = 500
#: Produce and Fetch take their rows in Rust and in pieces of their own (test_many_partitions.py).
BY_OTHERS = frozenset({0, 1})
#: Array items of a request: what `make test` has time for, and all that an API takes.
FEW, ALL = 40_000, None
#: APIs whose rows cost a change of the coordination tree or a folder each: fewer of them do.
COSTLY = {4: 500, 5: 500, 19: 500, 20: 500, 33: 500, 44: 500, 49: 500, 51: 500}
#: Each topic costs several folders, and a millisecond. All that a request may ask for would take a quarter of an hour.
#: More than these are only validated (`test_nor_do_the_most_topics`).
MADE_MAX = 20_000
PATIENCE_S = 10.0
VALIDATES_SINCE = 1
SOAK_S = 1800
#: What brokers take from the controller alone.
OF_CONTROLLERS = frozenset({4, 5, 6})

#: Values with which rows are looked at instead of refused at once.
VALUES: dict[int, dict[str, object]] = {
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
        }
    )


class Attacked:
    """A broker in this process, with `TOPICS` topics and as many groups, and what its loop is measured by."""

    def __init__(self, broker: Broker, steps: Steps) -> None:
        self.steps = steps
        self.longest_wait_s = 0.0
        self.broker_epoch = broker.registration.epoch
        self.controller_epoch = broker.controller_epoch
        self._port = broker.addresses.listening[0].port

    def connect(self) -> Client:
        return Client.connect("127.0.0.1", self._port, "test", timeout_ms=600_000)

    async def ask(self, frame: bytes) -> int:
        """Sends a request in a thread of its own and returns the length of the answer, -1 if there was none, when the
        broker has nothing to do for it any more: it still frees the rows when it has answered.
        """

        def run() -> int:
            with self.connect() as client:
                self.steps.reset()
                client._socket.sendall(frame)
                head = client._socket.recv(4)
                if len(head) < 4:
                    return -1
                left = length = int.from_bytes(head, "big")
                while left:
                    left -= len(client._socket.recv(min(left, 1 << 20)))
                return length

        length = await trio.to_thread.run_sync(run)
        await trio.testing.wait_all_tasks_blocked()
        return length


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
            await create_topics(broker.tree, [*topics, NewTopic("wide", TOPICS, 1), NewTopic("honest", 1, 1)])
            await broker.groups.topic.ensure()
            await broker.transactions.topic.ensure()
            await broker.metadata.wait_until(lambda: len(broker.metadata.topics) == TOPICS + 4)
            await trio.to_thread.run_sync(commit, broker.addresses.listening[0].port)

    trio.run(prepare)
    return path


@asynccontextmanager
async def attacked(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Attacked]:
    """A broker on a copy of the prepared directory, beside an honest client whose longest wait is noted."""
    # Pytest would keep each line, and the collector would look through them all.
    monkeypatch.setattr(logging.getLogger("ottla"), "propagate", False)
    monkeypatch.setattr(logging.getLogger("ottla"), "handlers", [logging.NullHandler()])
    data = tmp_path / f"data-{sum(1 for _ in tmp_path.iterdir())}"
    shutil.copytree(prepared, data)
    over = threading.Event()

    def honest(one: Attacked) -> None:
        with one.connect() as client:
            while not over.wait(0.05):
                begin = time.monotonic()
                client.produce("honest", batch(b"x"), acks=1)
                one.longest_wait_s = max(one.longest_wait_s, time.monotonic() - begin)

    with measured(monkeypatch) as steps:
        async with Broker.start(settings(data)) as broker:
            one = Attacked(broker, steps)
            # What the tests have imported is no business of the broker's collector, which is its own as in `serve`.
            monkeypatch.setattr(garbage, "_is_started", True)
            gc.collect()
            gc.freeze()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, honest, one)
                try:
                    yield one
                finally:
                    over.set()
    gc.unfreeze()


@dataclass
class Taken:
    """What was too long while one API was attacked: which requests (and what of them), and how long others waited."""

    requests: dict[str, str]
    longest_wait_s: float


def frame_of(found: Api[Any, Any], wanted: Largest) -> bytes:
    body = found.encode_request(wanted.version, wanted.message)
    return request_frame(found.key, wanted.version, 7, "test", body)


async def attack(key: int, items: int | None, one: Attacked, *, validates: bool = False) -> Taken:
    """With `validates`, whoever can ask for nothing but validation does."""
    found = api(key)
    slow: dict[str, str] = {}
    values = VALUES.get(key, {})
    if validates:
        values = {**values, "validate_only": True}
    if key == ALTER_ISR.key:
        values = {**values, "broker_epoch": one.broker_epoch}
    if key in OF_CONTROLLERS:
        values = {**values, "controller_epoch": one.controller_epoch}
    for version in sorted({VALIDATES_SINCE if validates else found.versions[0], found.versions[-1]}):
        for rows in (Rows(TOPICS, same=False), Rows(TOPICS, same=True)):
            most = min(items or found.items_max, COSTLY.get(key, found.items_max) if items else found.items_max)
            if key == CREATE_TOPICS.key and not validates:
                most = min(most, MADE_MAX)
            requests = largest(found, version, most, rows, values)
            # Frames alone: the collector, which the loop pays for, finds none of the client's rows.
            frames = await trio.to_thread.run_sync(
                lambda requests=requests: [(str(wanted), frame_of(found, wanted)) for wanted in requests]
            )
            for what, frame in frames:
                length = await one.ask(frame)
                taken = one.steps.longest_ms
                name = f"{found.name} {what} {'same' if rows.same else 'different'}"
                said = f"{taken:.1f} ms: {one.steps.what}, {length}"
                print(f"{name}: {said}")
                assert name not in slow
                if taken > STEP_MS_MAX:
                    slow[name] = said
    return Taken(slow, one.longest_wait_s)


def no_request_is_slow(
    key: int,
    items: int | None,
    prepared: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    validates: bool = False,
) -> None:
    """A second try, from the same state and with the same requests, decides about what was too slow in the first."""

    async def run() -> Taken:
        async with attacked(prepared, tmp_path, monkeypatch) as one:
            return await attack(key, items, one, validates=validates)

    taken = trio.run(run)
    if taken.requests or taken.longest_wait_s >= PATIENCE_S:
        again = trio.run(run)
        both = {name: [said, again.requests[name]] for name, said in taken.requests.items() if name in again.requests}
        assert not both
        assert min(taken.longest_wait_s, again.longest_wait_s) < PATIENCE_S


KEYS = [key for key in MODULES if key not in BY_OTHERS]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: api(key).name)
def test_no_request_takes_the_loop_for_long(
    key: int, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_request_is_slow(key, FEW, prepared, tmp_path, monkeypatch)


@pytest.mark.soak
@pytest.mark.timeout(SOAK_S)
@pytest.mark.parametrize("key", KEYS, ids=lambda key: api(key).name)
def test_nor_does_the_largest(key: int, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_request_is_slow(key, ALL, prepared, tmp_path, monkeypatch)


@pytest.mark.soak
@pytest.mark.timeout(SOAK_S)
def test_nor_do_the_most_topics(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_request_is_slow(CREATE_TOPICS.key, ALL, prepared, tmp_path, monkeypatch, validates=True)
