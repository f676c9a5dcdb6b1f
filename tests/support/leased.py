"""A broker in the test's own process, whose Produces and Fetches are counted when they come to Python."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.broker.api import k00_produce, k01_fetch
from ottla.broker.broker import Broker
from ottla.broker.call import AnyCall
from ottla.config import BrokerConfig
from ottla.controller import NewTopic, create_topic
from ottla.replication.partition import Partition
from tests.support.client import Client, batch
from tests.support.waiting import PATIENCE_S


class One:
    """A broker in this process that counts the Produces and Fetches that Python decides."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        #: By the keys of the APIs.
        self.asked_of: Counter[int] = Counter()

    @property
    def asked(self) -> int:
        return self.asked_of.total()

    async def talk(self, conversation: Callable[[Client], Any]) -> Any:
        port = self.broker.addresses.listening[0].port

        def run() -> Any:
            with Client.connect("127.0.0.1", port, "test") as client:
                return conversation(client)

        return await trio.to_thread.run_sync(run)

    async def create(self, topic: str, partitions: int = 1) -> Partition:
        await create_topic(self.broker.tree, NewTopic(topic, partitions, 1))
        await self.broker.metadata.wait_until(lambda: topic in self.broker.metadata.topics)
        return self.broker.replicas.partitions[topic, 0]

    async def needed(self, conversation: Callable[[Client], Any]) -> int:
        """How many requests of the conversation came to Python."""
        before = self.asked
        await self.talk(conversation)
        return self.asked - before

    async def writes_quickly(self) -> None:
        """Returns when the last write to the directory was a quick one: after one that took long, as it may on a busy
        machine, the next append is handed to a thread, and with it to Python.
        """
        if "quick" not in self.broker.metadata.topics:
            await self.create("quick")
        with trio.fail_after(PATIENCE_S):
            while await self.needed(lambda client: produce(client, "quick", b"a")):
                pass


@asynccontextmanager
async def started(path: Path, monkeypatch: pytest.MonkeyPatch, **settings: str) -> AsyncIterator[One]:
    found: list[One] = []
    for module in (k00_produce, k01_fetch):

        def counted(call: AnyCall, rooms: Broker, handle: Callable[..., None] = module.handle) -> None:
            found[0].asked_of[call.api.key] += 1
            handle(call, rooms)

        monkeypatch.setattr(module, "handle", counted)
    given = {"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0", "log.retention.ms": "-1", **settings}
    async with Broker.start(BrokerConfig(given)) as broker:
        found.append(One(broker))
        yield found[0]


def produce(client: Client, topic: str, *values: bytes, acks: int = 1, **options: object) -> tuple[int, int]:
    """Error code and base offset."""
    answer = client.produce(topic, batch(*values, **options), acks=acks)
    ((row,),) = [topic.partitions for topic in answer.responses]
    return row.error_code, row.base_offset


class Counted:
    """The requests of one kind that come to a broker from now on."""

    def __init__(self, one: One, key: int) -> None:
        self._one = one
        self._key = key
        one.broker.server.hub.measure(one.broker.logs.directories.traffic)
        self._asked = one.asked_of[key]

    def count(self) -> int:
        api = next(api for api in self._one.broker.server.hub.measured() if api.key == self._key)
        return sum(count for _, count in api.versions)

    def share_without_python(self) -> float:
        return 1 - (self._one.asked_of[self._key] - self._asked) / self.count()
