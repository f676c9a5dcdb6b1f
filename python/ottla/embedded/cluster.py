"""`ottla.Cluster`: brokers of one cluster in this process, which share a coordination tree."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Self

from ottla.config.usual import usual_settings
from ottla.coordination.znodes import PartitionState
from ottla.embedded.block import Block
from ottla.embedded.broker import Broker, NotRunning, texts
from ottla.embedded.moves import Coordinated, next_leader
from ottla.embedded.thread import BrokerThread
from ottla.embedded.tree import ClusterTree
from ottla.errors import UnknownTopicOrPartition
from ottla.kafka import TopicPartition

#: How long a broker is waited for to lead.
MOVED_S: Final = 30.0


class Member(Broker):
    """A broker of a `Cluster`. Its cluster starts it first, and closes it; in between it may be stopped, killed and
    started as any other.
    """

    def __init__(self, cluster: Cluster, broker_id: int, settings: Mapping[str, object], host: str) -> None:
        super().__init__(settings, data_dir=cluster.data_dir / str(broker_id), host=host)
        self.id = broker_id
        self.name = f"{self.name}-{broker_id}"
        self._cluster = cluster

    def __enter__(self) -> Self:
        raise RuntimeError(f"{self!r} is started and closed by its cluster: use that in the `with` block")

    async def __aenter__(self) -> Self:
        return self.__enter__()

    def _new_thread(self) -> BrokerThread:
        tree = self._cluster._tree
        if tree is None:
            raise NotRunning(f"{self!r} starts with its cluster: use that in a `with` block, or call its start()")
        return BrokerThread(self.name, {**self._settings(), "broker.id": str(self.id)}, self._plan, self.clock, tree)


class Cluster(Block):
    """Several brokers with one coordination tree, all in this process.

        with ottla.Cluster(3) as cluster:
            cluster.create_topic("orders", partitions=6)
            cluster.leader("orders").kill()

    `cluster[1]` is the broker with the id 1, an `ottla.Broker`. `settings` are for all of them. Three brokers have
    three replicas of everything, of which one may be missing (`min.insync.replicas` is 2), unless the settings say
    otherwise. Without `data_dir` the data are in a temporary directory, which is removed at the end.

    A broker that is killed keeps its session with the tree until `zookeeper.session.timeout.ms` has passed, as with
    ZooKeeper. The others mostly notice sooner that it is gone, and lead instead.
    """

    def __init__(
        self,
        brokers: int = 3,
        settings: Mapping[str, object] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster has at least one broker, not {brokers}")
        if "broker.id" in (settings or {}):
            raise ValueError("the brokers of a cluster have the ids from 1 on; leave broker.id out of the settings")
        self._count = brokers
        self._settings = {**usual_settings(brokers), **texts(settings or {})}
        self._host = host
        self._given = None if data_dir is None else Path(data_dir).absolute()
        self._temporary: Path | None = None
        self._tree: ClusterTree | None = None
        self._members: dict[int, Member] = {}

    def __repr__(self) -> str:
        return f"<ottla.Cluster of {self._count}{'' if self._tree else ', not running'}>"

    def __getitem__(self, broker_id: int) -> Broker:
        """The broker with this id, from 1 on. Raises KeyError; NotRunning before the start."""
        self._running()
        return self._members[broker_id]

    def __iter__(self) -> Iterator[Broker]:
        """All brokers by their ids, those too that do not run now."""
        return iter([*self._members.values()])

    def __len__(self) -> int:
        return self._count

    # --- life ---

    def start(self) -> Self:
        """Starts all brokers, and returns when clients are served.

        Raises:
            BrokerFailed, ConfigError, RuntimeError: as `Broker.start` does. Unavailable: the tree cannot be opened.
        """
        if self._tree is not None:
            raise RuntimeError(f"{self!r} runs already")
        if self._given is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="ottla-"))
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            tree = ClusterTree(self.data_dir)
            tree.start()
            self._tree = tree
            ids = range(1, self._count + 1)
            self._members = {each: Member(self, each, self._settings, self._host) for each in ids}
            for member in self._members.values():
                member.start()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stops all brokers cleanly, and removes the temporary directory.

        Raises:
            BrokerFailed: one had failed before.
        """
        with contextlib.ExitStack() as stack:
            stack.callback(self._end)
            for member in self._members.values():
                stack.callback(member.stop)
            # The others would wait for a controller that stands still.
            for member in self._members.values():
                if member.is_paused:
                    member.resume()

    def _end(self) -> None:
        tree, self._tree = self._tree, None
        directory, self._temporary = self._temporary, None
        try:
            if tree is not None:
                tree.stop()
        finally:
            for member in self._members.values():
                member._disk.forget()
            if directory is not None:
                shutil.rmtree(directory, ignore_errors=True)

    # --- what there is ---

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of all brokers, as clients take it. Raises NotRunning."""
        self._running()
        return ",".join(member.bootstrap_servers for member in self._members.values())

    @property
    def data_dir(self) -> Path:
        """The directory with those of the brokers, and the tree. Raises NotRunning where it is not made yet."""
        directory = self._given or self._temporary
        if directory is None:
            raise NotRunning(f"{self!r} has no directory before it starts: use it in a `with` block, or call start()")
        return directory

    @property
    def controller(self) -> Broker | None:
        """The broker that is the controller; None while one is elected. Raises NotRunning."""
        found = self._running().controller()
        return None if found is None else self._members.get(found)

    def leader(self, topic: str, partition: int = 0) -> Broker | None:
        """The broker that leads a partition; None while there is none.

        Raises:
            UnknownTopicOrPartition, NotRunning.
        """
        return self._members.get(self._state(TopicPartition(topic, partition)).leader)

    def coordinator(self, *, group: str | None = None, transactional_id: str | None = None) -> Broker | None:
        """The broker that coordinates a group or a transactional id; None while there is none. The internal topic is
        created if need be.

        Raises:
            ValueError: not one of both is given. NotRunning, KafkaError.
        """
        what = Coordinated.of(group, transactional_id)
        return self.leader(*self._any_running().coordinating(what))

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        """The ids of the brokers whose replicas of a partition are in sync.

        Raises:
            UnknownTopicOrPartition, NotRunning.
        """
        return sorted(self._state(TopicPartition(topic, partition)).isr)

    # --- moves ---

    def move_leader(self, topic: str, partition: int = 0, *, to: int | None = None) -> Broker:
        """Has another broker lead a partition: the one with the id `to`, or the next. It must be in sync. Returns that
        broker when it leads; clients that ask the old one hear NOT_LEADER_OR_FOLLOWER, and look for the new one.

        Raises:
            ValueError: nobody else can lead; the text says who could. UnknownTopicOrPartition, NotRunning, KafkaError.
            TimeoutError: it does not lead in half a minute.
        """
        moved = TopicPartition(topic, partition)
        target = next_leader(moved, self._state(moved), to, self._answers)
        deadline = time.monotonic() + MOVED_S
        while self._state(moved).leader != target:
            if time.monotonic() > deadline:
                raise TimeoutError(f"broker {target} does not lead {topic}-{partition} in {MOVED_S:g} s")
            self._any_running().prefer(moved, target)
        return self._members[target]

    def move_coordinator(
        self, *, group: str | None = None, transactional_id: str | None = None, to: int | None = None
    ) -> Broker:
        """Has another broker coordinate a group or a transactional id: the one with the id `to`, or the next. Returns
        that broker when it does; clients that ask the old one hear NOT_COORDINATOR, and look for the new one.

        Others of which the new one is the coordinator by the same partition move with it.

        Raises:
            ValueError: not one of both is given, or nobody else can coordinate. TimeoutError, NotRunning, KafkaError.
        """
        what = Coordinated.of(group, transactional_id)
        return self.move_leader(*self._any_running().coordinating(what), to=to)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        settings: Mapping[str, object] | None = None,
        *,
        replicas: int | None = None,
    ) -> None:
        """Creates a topic, and returns when all brokers that run know it and its leaders. `settings` are the topic's,
        by Kafka's names. Without `replicas` it has `default.replication.factor`.

        Raises:
            TopicAlreadyExists, InvalidTopic, InvalidPartitions, InvalidReplicationFactor, InvalidConfig, NotRunning.
        """
        count = -1 if replicas is None else replicas
        self._any_running().create_topic(name, partitions, count, texts(settings or {}))
        for thread in self._threads():
            thread.knows(name, partitions)

    def _threads(self) -> list[BrokerThread]:
        """Those of the brokers that run and are not paused, at least one."""
        self._running()
        running = [
            each._thread for each in self._members.values() if each._thread is not None and self._answers(each.id)
        ]
        if not running:
            raise NotRunning(f"no broker of {self!r} runs: start one, or resume one")
        return running

    def _answers(self, broker_id: int) -> bool:
        """True if a broker answers its clients."""
        member = self._members[broker_id]
        return member.is_running and not member.is_paused

    def _any_running(self) -> BrokerThread:
        """One of them, which knows the controller: the one before may not answer."""
        found = self._threads()[0]
        controller = self._running().controller()
        if controller is not None:
            found.knows_controller(controller)
        return found

    def _state(self, partition: TopicPartition) -> PartitionState:
        state = self._running().state(*partition)
        if state is None:
            raise UnknownTopicOrPartition(f"there is no {partition.topic}-{partition.partition}")
        return state

    def _running(self) -> ClusterTree:
        if self._tree is None:
            raise NotRunning(f"{self!r}: use it in a `with` block, or call start()")
        return self._tree
