"""No request takes the loop for long in one go, whatever its rows: the largest of each API, made from its schema.

What is measured is the processor time of each step of the loop, so that a loaded machine does not matter. An honest
client produces meanwhile, and is answered.
"""

import gc
import logging
import shutil
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

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
from ottla.wire.schema import Api
from tests.support.client import Client, batch
from tests.support.largest import Largest, Rows, largest
from tests.support.loop_steps import Steps, measured

#: What one step of the loop may take of its processor.
STEP_MS_MAX = 20.0
TOPICS = 500
#: Produce and Fetch take their rows in Rust and in pieces of their own (test_many_partitions.py).
BY_OTHERS = frozenset({0, 1, 27})
#: Array items of a request: what `make test` has time for, and all that an API takes.
FEW, ALL = 40_000, None
#: APIs whose rows cost a change of the coordination tree or a folder each: fewer of them do.
COSTLY = {4: 500, 5: 500, 19: 500, 20: 500, 33: 500, 44: 500, 49: 500, 51: 500}
PATIENCE_S = 2.0

#: Values with which rows are looked at instead of refused at once.
VALUES: dict[int, dict[str, object]] = {
    2: {"replica_id": -1, "timestamp": -1, "max_num_offsets": 10},
    4: {"controller_id": 1, "controller_epoch": 1 << 20, "replicas": [1], "isr": [1], "leader": 1, "leader_epoch": 99},
    5: {"controller_id": 1, "controller_epoch": 1 << 20, "leader_epoch": -1},
    6: {"controller_id": 1, "controller_epoch": 1 << 20, "replicas": [1], "isr": [1], "leader": 1},
    8: {"group_id": "committed"},
    9: {"group_id": "group-0"},
    19: {"num_partitions": 1, "replication_factor": 1, "timeout_ms": 1000, "assignments": [], "configs": []},
    20: {"timeout_ms": 1000},
    21: {"timeout_ms": 1000, "offset": -1},
    24: {"transactional_id": "t", "producer_id": 1},
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
        self._port = broker.addresses.listening[0].port

    def connect(self) -> Client:
        return Client.connect("127.0.0.1", self._port, "test", timeout_ms=600_000)

    async def ask(self, found: Api[Any, Any], wanted: Largest) -> int:
        """Sends a request in a thread of its own and returns the length of the answer, -1 if there was none."""

        def run() -> int:
            body = found.encode_request(wanted.version, wanted.message)
            frame = request_frame(found.key, wanted.version, 7, "test", body)
            with self.connect() as client:
                client._socket.sendall(frame)
                head = client._socket.recv(4)
                if len(head) < 4:
                    return -1
                left = length = int.from_bytes(head, "big")
                while left:
                    left -= len(client._socket.recv(min(left, 1 << 20)))
                return length

        self.steps.reset()
        return await trio.to_thread.run_sync(run)


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
    """A broker on a copy of the prepared directory, beside an honest client that is never without an answer long."""
    # Pytest would keep each line, and the collector would look through them all.
    monkeypatch.setattr(logging.getLogger("ottla"), "propagate", False)
    monkeypatch.setattr(logging.getLogger("ottla"), "handlers", [logging.NullHandler()])
    shutil.copytree(prepared, tmp_path / "data")
    over = threading.Event()
    waits: list[float] = []

    def honest(one: Attacked) -> None:
        with one.connect() as client:
            while not over.wait(0.05):
                begin = time.monotonic()
                client.produce("honest", batch(b"x"), acks=1)
                waits.append(time.monotonic() - begin)

    with measured(monkeypatch) as steps:
        async with Broker.start(settings(tmp_path / "data")) as broker:
            one = Attacked(broker, steps)
            # What the tests have imported is no business of the broker's collector.
            gc.collect()
            gc.freeze()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, honest, one)
                try:
                    yield one
                finally:
                    over.set()
    gc.unfreeze()
    assert max(waits, default=0.0) < PATIENCE_S


async def attack(key: int, items: int | None, one: Attacked) -> None:
    found = api(key)
    versions = MODULES[key].VERSIONS
    worst = (0.0, "")
    for version in sorted({versions[0], versions[-1]}):
        for rows in (Rows(TOPICS, same=False), Rows(TOPICS, same=True)):
            most = min(items or found.items_max, COSTLY.get(key, found.items_max) if items else found.items_max)
            for wanted in await trio.to_thread.run_sync(list, largest(found, version, most, rows, VALUES.get(key))):
                length = await one.ask(found, wanted)
                taken = one.steps.longest_ms
                name = f"{found.name} {wanted} {'same' if rows.same else 'different'}: {one.steps.what}, {length}"
                print(f"{taken:8.1f} ms  {name}")
                worst = max(worst, (taken, name))
    assert worst[0] <= STEP_MS_MAX, worst[1]


KEYS = [key for key in MODULES if key not in BY_OTHERS]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: api(key).name)
def test_no_request_takes_the_loop_for_long(
    key: int, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with attacked(prepared, tmp_path, monkeypatch) as one:
            await attack(key, FEW, one)

    trio.run(run)


@pytest.mark.soak
@pytest.mark.parametrize("key", KEYS, ids=lambda key: api(key).name)
def test_nor_does_the_largest(key: int, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with attacked(prepared, tmp_path, monkeypatch) as one:
            await attack(key, ALL, one)

    trio.run(run)
