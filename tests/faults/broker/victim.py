"""The broker that a run kills, pauses and restarts, with what must be true of it after each of these."""

import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.k61_describe_producers import DESCRIBE_PRODUCERS, DescribeProducersRequest, TopicRequest
from ottla.wire.k66_list_transactions import LIST_TRANSACTIONS, ListTransactionsRequest
from tests.peers.ottla import Brokers
from tests.peers.processes import Server
from tests.support.client import Client, connect

#: Of a broker with a ZooKeeper of its own.
SESSION_MS = 2000
LATEST = -1


class Victim:
    """`faults` counts what was done to it. With a ZooKeeper of its own, that and the session are hurt too."""

    def __init__(
        self,
        brokers: Brokers,
        settings: Mapping[str, object],
        zookeeper: str | None = None,
        *,
        directories: int = 1,
        own_zookeeper: Callable[[], Server] | None = None,
    ) -> None:
        self.directories = [brokers.directory / f"data-{number}" for number in range(directories)]
        self._brokers = brokers
        self._options = {
            "settings": settings,
            "zookeeper": zookeeper,
            "broker_id": 1,
            "data": self.directories[0],
            "arguments": ("--data-dir", ",".join(map(str, self.directories))),
        }
        self._own_zookeeper = own_zookeeper
        self._zookeeper = own_zookeeper() if own_zookeeper else None
        self.broker = brokers(**self._options)  # type: ignore[arg-type]
        self.faults: Counter[str] = Counter()

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    @property
    def logs(self) -> list[Path]:
        """The files with the output of each of its processes."""
        return sorted(self._brokers.directory.glob("ottla-*.log"))

    def kill(self) -> None:
        self.broker.kill()
        self.broker = self._brokers.restart(self.broker, **self._options)

    def restart(self) -> None:
        self.broker.stop()
        self.broker = self._brokers.restart(self.broker, **self._options)

    def pause(self, seconds: float = 1.0) -> None:
        """Stops and continues the process, like a machine that is suspended."""
        self.broker.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.broker.process.send_signal(signal.SIGCONT)

    def expire(self) -> None:
        """Pauses for longer than its session lasts."""
        self.pause(2.5 * SESSION_MS / 1000)

    def lose_zookeeper(self) -> None:
        """For a moment, or for longer than a session; also under a broker that starts."""
        assert self._zookeeper is not None
        assert self._own_zookeeper is not None
        self._zookeeper.kill()
        self._zookeeper = self._own_zookeeper()

    def hurt(self, chance: random.Random) -> None:
        """One fault: mostly kill -9, and at first nothing else, so that no seed is without it."""
        kinds = {"kill": (self.kill, 7), "restart": (self.restart, 2), "pause": (self.pause, 2)}
        if self._zookeeper is not None:
            kinds |= {"expire": (self.expire, 3), "zookeeper": (self.lose_zookeeper, 3)}
        (kind,) = chance.choices([*kinds], [weight for _, weight in kinds.values()])
        if self.faults["kill"] < 3:
            kind = "kill"
        kinds[kind][0]()
        self.faults[kind] += 1

    def ends(self, client: Client, topic: str, partitions: int, *, committed: bool) -> list[int]:
        """Where readers of the isolation level stop: the last stable offset, or the high watermark."""
        rows = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in range(partitions)]
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=int(committed), topics=[ListOffsetsTopic(name=topic, partitions=rows)]
        )
        answer = client.call(LIST_OFFSETS, request, 5)
        found = {row.partition_index: row for row in answer.topics[0].partitions}
        assert all(row.error_code == 0 for row in found.values()), found
        return [found[index].offset for index in range(partitions)]

    def open_transactions(self, client: Client) -> list[str]:
        """The ids whose transaction has not come to its end."""
        answer = client.call(LIST_TRANSACTIONS, ListTransactionsRequest())
        assert answer.error_code == 0
        states = {row.transactional_id: row.transaction_state for row in answer.transaction_states}
        return [name for name, state in states.items() if state in ("Ongoing", "PrepareCommit", "PrepareAbort")]

    def facts(self, client: Client, topics: Mapping[str, int]) -> dict[str, object]:
        """Facts that explain why somebody waits: ends, open transactions and producers."""
        ends = {
            topic: [self.ends(client, topic, count, committed=level) for level in (True, False)]
            for topic, count in topics.items()
        }
        rows = [TopicRequest(name=topic, partition_indexes=[*range(count)]) for topic, count in topics.items()]
        described = client.call(DESCRIBE_PRODUCERS, DescribeProducersRequest(topics=rows))
        return {"ends": ends, "open": self.open_transactions(client), "producers": described}

    def connect(self) -> contextlib.AbstractContextManager[Client]:
        return connect(self.broker)
