"""Members of a group in this process: connectors whose streams are read by threads."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, NamedTuple, Self

from ottla.classic import Consumer, ConsumerConnector, ConsumerTimeout, TopicFilter
from ottla.classic.stream import AnyStream
from tests.classic.conftest import Place
from tests.support.waiting import PATIENCE_S

#: Quick enough for tests; a session that nobody ends is over soon.
QUICK = {
    "auto.offset.reset": "smallest",
    "zookeeper.session.timeout.ms": 3000,
    "rebalance.backoff.ms": 500,
    "rebalance.max.retries": 40,
}


class Got(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: str


class Member:
    """A connector and its readers. `consumed` grows while it runs; leaving the block shuts it down."""

    def __init__(self, place: Place, group: str, what: str | TopicFilter, streams: int = 1, **settings: Any) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        config = {**QUICK, "zookeeper.connect": place.zookeeper, "group.id": group, **named}
        self.connector: ConsumerConnector = Consumer.create(config)
        self.consumed: list[Got] = []
        self._what, self._count = what, streams
        self._threads: list[threading.Thread] = []

    def join(self) -> Self:
        if isinstance(self._what, str):
            found = self.connector.create_message_streams({self._what: self._count})[self._what]
        else:
            found = self.connector.create_message_streams_by_filter(self._what, self._count)
        self._threads = [threading.Thread(target=self._read, args=(stream,), daemon=True) for stream in found]
        for thread in self._threads:
            thread.start()
        return self

    def _read(self, stream: AnyStream) -> None:
        while True:
            try:
                for each in stream:
                    self.consumed.append(Got(each.topic, each.partition, each.offset, (each.message or b"").decode()))
                return
            except ConsumerTimeout:
                continue

    @property
    def partitions(self) -> set[int]:
        return {place.partition for place in self.connector.owned}

    def stop(self) -> None:
        self.connector.shutdown()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
