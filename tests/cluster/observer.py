"""A cluster as it describes itself: the tree in ZooKeeper, what brokers tell clients, and how both went over time."""

import itertools
import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.cluster.network import Node
from tests.support.client import Client
from tests.support.waiting import PATIENCE_S, eventually

LATEST = -1
CONSUMER, DEBUGGER = -1, -2
"""As replica ids of a ListOffsets request: a consumer is told the high watermark, and by the leader only. A debugger is
told the log end offset, by any replica."""
CALL_MS = 3000
PERIOD_S = 0.1
Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Of one partition. `version` is that of its node in the tree, -1 in what a broker says."""

    leader: int
    leader_epoch: int
    isr: frozenset[int]
    version: int = -1


@dataclass(frozen=True, slots=True)
class At:
    """A state and since when it was seen, by the monotonic clock."""

    time: float
    state: PartitionState


class Observer:
    """Asks from its own node. For one thread at a time."""

    def __init__(self, node: Node, zookeeper: str, brokers: dict[int, tuple[str, int]]) -> None:
        self.node = node
        self.brokers = brokers
        with node.inside():
            self.tree = KazooClient(hosts=zookeeper, timeout=10.0)
            self.tree.start(timeout=PATIENCE_S)

    def __enter__(self) -> "Observer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.tree.stop()
        self.tree.close()

    # From the tree.

    def _get(self, path: str) -> tuple[Any, int]:
        data, stat = self.tree.retry(self.tree.get, path)
        return json.loads(data), stat.version

    def state(self, topic: str, partition: int = 0) -> PartitionState:
        return _state(*self._get(_path(topic, partition)))

    def topics(self) -> set[str]:
        """The topics that the tree has."""
        return set(self.tree.retry(self.tree.get_children, "/brokers/topics"))

    def assignment(self, topic: str) -> dict[int, list[int]]:
        """The assigned replicas of each partition."""
        value, _ = self._get(f"/brokers/topics/{topic}")
        return {int(index): replicas for index, replicas in value["partitions"].items()}

    def moving(self, topic: str) -> set[int]:
        """The partitions that are on their way to other brokers."""
        value, _ = self._get(f"/brokers/topics/{topic}")
        return {int(index) for kind in ("adding_replicas", "removing_replicas") for index in value.get(kind) or {}}

    def states(self, topic: str) -> dict[int, PartitionState | None]:
        """Of each partition; None where none was written yet."""
        found: dict[int, PartitionState | None] = {}
        for index in self.assignment(topic):
            try:
                found[index] = self.state(topic, index)
            except NoNodeError:
                found[index] = None
        return found

    def in_sync(self, topic: str) -> bool:
        """True if every assigned replica of every partition is in sync, and its leader knows and serves consumers.

        The tree alone is not enough: when all brokers went at once it says what was true before, and otherwise it says
        it before the leaders have heard.
        """
        states = self.states(topic)
        leaders: defaultdict[int, dict[int, PartitionState]] = defaultdict(dict)
        for index, replicas in self.assignment(topic).items():
            state = states[index]
            if state is None or state.isr != {*replicas} or state.leader == -1:
                return False
            leaders[state.leader][index] = replace(state, version=-1)
        return all(self._serves(leader, topic, led) for leader, led in leaders.items())

    def controller(self) -> tuple[int, int]:
        """(broker, controller epoch); the broker is -1 where there is no controller now."""
        try:
            broker = self._get("/controller")[0]["brokerid"]
        except NoNodeError:
            broker = -1
        return broker, self._get("/controller_epoch")[0]

    def registered(self) -> set[int]:
        return {int(name) for name in self.tree.retry(self.tree.get_children, "/brokers/ids")}

    def registration(self, broker: int) -> tuple[int, int]:
        """The session that the broker is registered by, and its broker epoch; (0, -1) if it is not."""
        stat = self.tree.retry(self.tree.exists, f"/brokers/ids/{broker}")
        return (0, -1) if stat is None else (stat.ephemeralOwner, stat.czxid)

    # From the brokers.

    def connect(self, broker: int, timeout_ms: int = CALL_MS) -> Client:
        with self.node.inside():
            return Client.connect(*self.brokers[broker], "observer", timeout_ms=timeout_ms)

    def _metadata(self, broker: int, *topics: str) -> MetadataResponse:
        rows = [MetadataRequestTopic(name=topic) for topic in topics]
        with self.connect(broker) as client:
            return client.call(METADATA, MetadataRequest(topics=rows, allow_auto_topic_creation=False))

    def brokers_known_to(self, broker: int) -> set[int]:
        """Those that the broker tells clients of; nothing if it does not answer."""
        try:
            return {row.node_id for row in self._metadata(broker).brokers}
        except OSError:
            return set()

    def controller_known_to(self, broker: int) -> int:
        """Who is the controller, as the broker tells clients; -1 if it knows of none, or does not answer."""
        try:
            return self._metadata(broker).controller_id
        except OSError:
            return -1

    def states_known_to(self, broker: int, topic: str) -> dict[int, PartitionState]:
        """The states of the topic's partitions, as the broker tells clients."""
        (row,) = self._metadata(broker, topic).topics
        return {
            one.partition_index: PartitionState(one.leader_id, one.leader_epoch, frozenset(one.isr_nodes))
            for one in row.partitions
        }

    def _serves(self, leader: int, topic: str, led: dict[int, PartitionState]) -> bool:
        """True if the leader tells clients of these states, and tells consumers the high watermark of each partition.

        A new leader does the latter once the high watermark is known to be right (KIP-207).
        """
        try:
            known = self.states_known_to(leader, topic)
            with self.connect(leader) as client:
                marks = offsets(client, topic, led, CONSUMER)
        except OSError:
            return False
        return all(known.get(index) == state for index, state in led.items()) and None not in marks.values()

    def high_watermark(self, topic: str, partition: int = 0) -> int | None:
        """As the leader tells consumers; None if it does not now."""
        return self._offset(self.state(topic, partition).leader, topic, partition, CONSUMER)

    def log_end(self, broker: int, topic: str, partition: int = 0) -> int | None:
        """Of the broker's replica; None if it does not tell."""
        return self._offset(broker, topic, partition, DEBUGGER)

    def _offset(self, broker: int, topic: str, partition: int, replica_id: int) -> int | None:
        try:
            with self.connect(broker) as client:
                return offset(client, topic, partition, replica_id)
        except (OSError, KeyError):
            return None

    def follow(self, *topics: str) -> "Chronicle":
        return Chronicle(self, topics)


class Chronicle(threading.Thread):
    """The history of the partitions of some topics inside its `with` block.

    States come by watches of the tree: where several changes follow each other at once, only the last is seen. High
    watermarks are asked of the leaders, several times a second; what they answer with an error does not count.
    """

    def __init__(self, observer: Observer, topics: tuple[str, ...]) -> None:
        super().__init__(name=f"chronicle of {topics}", daemon=True)
        self.observer = observer
        self.partitions = [(topic, index) for topic in topics for index in observer.assignment(topic)]
        self.states: dict[Partition, list[At]] = defaultdict(list)
        self.watermarks: dict[Partition, list[int]] = defaultdict(list)
        self._connections: dict[int, Client] = {}
        self._over = threading.Event()

    def __enter__(self) -> "Chronicle":
        for partition in self.partitions:
            self.observer.tree.DataWatch(_path(*partition), lambda *said, of=partition: self._told(of, *said))
        eventually("all partitions have a state", lambda: all(self.states[one] for one in self.partitions))
        with self.observer.node.inside():
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self.join(PATIENCE_S)

    def _told(self, partition: Partition, data: bytes | None, stat: Any) -> bool:
        """Kazoo forgets a watch whose function answers False."""
        if data is not None and not self._over.is_set():
            self.states[partition].append(At(time.monotonic(), _state(json.loads(data), stat.version)))
        return not self._over.is_set()

    def run(self) -> None:
        while not self._over.wait(PERIOD_S):
            for partition in self.partitions:
                self._ask(partition)
        for connection in self._connections.values():
            connection.close()

    def _ask(self, partition: Partition) -> None:
        leader = self.states[partition][-1].state.leader
        try:
            if leader not in self._connections or self._connections[leader].closed:
                self._connections[leader] = Client.connect(
                    *self.observer.brokers[leader], "chronicle", timeout_ms=CALL_MS
                )
            answer = offset(self._connections[leader], *partition, CONSUMER)
        except (OSError, KeyError):
            return
        if answer is not None:
            self.watermarks[partition].append(answer)

    # What can be asked of it, while it runs and after.

    def leaders(self, partition: Partition) -> list[int]:
        """The brokers that led, one after the other; times without a leader are left out."""
        found: list[int] = []
        for at in self.states[partition]:
            if at.state.leader >= 0 and found[-1:] != [at.state.leader]:
                found.append(at.state.leader)
        return found

    def moved(self) -> int:
        """How often the leader of a partition became another."""
        return sum(len(self.leaders(partition)) - 1 for partition in self.partitions)

    def shrank(self, since: float = 0.0) -> dict[Partition, set[int]]:
        """The replicas that left the in-sync replicas of a partition after that moment."""
        gone: dict[Partition, set[int]] = {}
        for partition in self.partitions:
            seen = self.states[partition]
            for before, after in itertools.pairwise(seen):
                if after.time >= since and (left := before.state.isr - after.state.isr):
                    gone.setdefault(partition, set()).update(left)
        return gone

    def unclean(self) -> list[tuple[Partition, At, At]]:
        """The elections of a leader that was not in sync. Where a state in between was not seen, the leader may have
        come to be in sync there.
        """
        return [
            (partition, before, after)
            for partition in self.partitions
            for before, after in itertools.pairwise(self.states[partition])
            if after.state.version == before.state.version + 1
            and after.state.leader not in (-1, before.state.leader)
            and after.state.leader not in before.state.isr
        ]

    def written_twice(self) -> list[tuple[Partition, At]]:
        """The states that were written although they stood there already."""
        return [
            (partition, after)
            for partition in self.partitions
            for before, after in itertools.pairwise(self.states[partition])
            if after.state.version == before.state.version + 1
            and replace(after.state, version=before.state.version) == before.state
        ]

    def check(self) -> None:
        """Checks what holds whatever happens: epochs and versions grow, a leader is in sync, and watermarks never go
        back.

        A new leader that does not know the high watermark yet says so to consumers (KIP-207), and is not counted.
        """
        for partition in self.partitions:
            seen = self.states[partition]
            for before, after in itertools.pairwise(seen):
                assert after.state.version >= before.state.version, (partition, before, after)
                assert after.state.leader_epoch >= before.state.leader_epoch, (partition, before, after)
                if after.state.leader != before.state.leader:
                    assert after.state.leader_epoch > before.state.leader_epoch, (partition, before, after)
            for at in seen:
                assert at.state.leader == -1 or at.state.leader in at.state.isr, (partition, at)
            marks = self.watermarks[partition]
            for earlier, later in itertools.pairwise(marks):
                assert later >= earlier, f"the high watermark of {partition} went from {earlier} to {later}"


def offset(client: Client, topic: str, partition: int, replica_id: int) -> int | None:
    return offsets(client, topic, [partition], replica_id)[partition]


def offsets(client: Client, topic: str, partitions: Iterable[int], replica_id: int) -> dict[int, int | None]:
    """The end offset of each partition as the broker tells this replica id; None where it does not tell."""
    rows = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in partitions]
    request = ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name=topic, partitions=rows)])
    (answer,) = client.call(LIST_OFFSETS, request).topics
    return {row.partition_index: row.offset if row.error_code == 0 else None for row in answer.partitions}


def _path(topic: str, partition: int) -> str:
    return f"/brokers/topics/{topic}/partitions/{partition}/state"


def _state(value: Any, version: int) -> PartitionState:
    return PartitionState(value["leader"], value["leader_epoch"], frozenset(value["isr"]), version)
