"""What an operator does with a cluster: sees its brokers and replicas, moves replicas (KIP-455), has leaders elected
(KIP-460). Over the wire alone, so that it is the same with Ottla and with Apache Kafka from 2.4 on. `throttles` has
what holds copies back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import trio

from ottla.client.cluster import Address, Cluster
from ottla.client.living import leave_out_the_dead
from ottla.client.topics import Partition, Topic, as_topic
from ottla.errors import (
    BrokerNotAvailable,
    KafkaError,
    ProtocolError,
    StorageError,
    check,
    error,
)
from ottla.kafka import DEBUGGING, LATEST, TopicPartition
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.k03_metadata import MetadataResponse
from ottla.wire.k34_alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.k35_describe_log_dirs import DESCRIBE_LOG_DIRS, DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.wire.k43_elect_leaders import ELECT_LEADERS, ElectLeadersRequest, TopicPartitions
from ottla.wire.k45_alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.k46_list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest,
)

#: Partitions in one request: each is a write to the tree, and no answer should take longer than a client waits.
MOVES_AT_ONCE = 500
ASKED_AT_ONCE = 2_000
#: How long a question waits that is asked of all brokers, where one that does not answer hides nothing of the others.
SILENT_S = 5.0

PREFERRED, UNCLEAN = 0, 1


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that is there now, where it tells clients to come, and its rack if it names one."""

    id: int
    host: str
    port: int
    rack: str | None

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Overview:
    """A cluster at one moment: `controller` is -1 while there is none; `brokers` are those that are there, by id."""

    cluster_id: str | None
    controller: int
    brokers: dict[int, Broker]
    topics: tuple[Topic, ...]

    @property
    def partitions(self) -> Iterator[tuple[TopicPartition, Partition]]:
        """All partitions, in order."""
        for topic in self.topics:
            for each in topic.partitions:
                yield TopicPartition(topic.name, each.number), each

    def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The replicas of all partitions, the preferred leader first."""
        return {name: each.replicas for name, each in self.partitions}

    def leaders(self) -> dict[TopicPartition, int]:
        """The leaders of all partitions, -1 where there is none."""
        return {name: each.leader for name, each in self.partitions}

    def in_sync(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The replicas in sync of all partitions."""
        return {name: each.in_sync for name, each in self.partitions}

    def known(self) -> list[int]:
        """The ids of all brokers that are there or have replicas."""
        return sorted({*self.brokers, *(broker for _, each in self.partitions for broker in each.replicas)})


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that gets other replicas: `replicas` are all that it has until then, `adding` and `removing` some of
    them.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that it will have."""
        return tuple(each for each in self.replicas if each not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas that it goes back to if the move is cancelled."""
        return tuple(each for each in self.replicas if each not in self.adding)


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A log directory of a broker and the bytes of each replica in it; `problem` if it has failed. Copies on their way
    to another directory of the same broker are left out.
    """

    path: str
    problem: KafkaError | None
    sizes: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    """The directory of a replica, and by how many offsets it is behind. While it moves, the directory where it goes,
    and by how many offsets the copy there is behind; else None and -1.
    """

    path: str
    lag: int
    future_path: str | None
    future_lag: int


class ClusterAdmin:
    """Calls about brokers and replicas over a `Cluster`. Errors are `KafkaError`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def overview(self) -> Overview:
        """Brokers, controller and all topics, as one broker knows them."""
        answer = await self._refreshed(None)
        brokers = {row.node_id: Broker(row.node_id, row.host, row.port, row.rack) for row in answer.brokers}
        topics = sorted((as_topic(row) for row in answer.topics if not row.error_code), key=lambda each: each.name)
        return Overview(answer.cluster_id, answer.controller_id, dict(sorted(brokers.items())), tuple(topics))

    async def describe(self) -> Overview:
        """The same without topics: the cluster's id, its controller and its brokers."""
        answer = await self._refreshed([])
        brokers = {row.node_id: Broker(row.node_id, row.host, row.port, row.rack) for row in answer.brokers}
        return Overview(answer.cluster_id, answer.controller_id, dict(sorted(brokers.items())), ())

    async def _refreshed(self, topics: list[str] | None) -> MetadataResponse:
        """The metadata, with the brokers that are alive."""
        answer = await self.cluster.retry(lambda: self.cluster.refresh(topics))
        await leave_out_the_dead(answer, self.cluster.call_any)
        return answer

    async def overview_after_moves(self) -> Overview:
        """The same with the replicas that partitions will have when the moves are over which go on now, for plans to
        begin with. Until then a partition has the old ones and the new ones.
        """
        overview, moves = await self.overview(), await self.moves()
        topics = []
        for topic in overview.topics:
            partitions = [
                replace(each, replicas=moves[name].target)
                if (name := TopicPartition(topic.name, each.number)) in moves
                else each
                for each in topic.partitions
            ]
            topics.append(replace(topic, partitions=tuple(partitions)))
        return replace(overview, topics=tuple(topics))

    async def moves(self) -> dict[TopicPartition, Move]:
        """The moves that are going on, as the controller knows them."""
        answer = await self.cluster.call_controller(
            LIST_PARTITION_REASSIGNMENTS,
            ListPartitionReassignmentsRequest(timeout_ms=int(self.cluster.timeout_ms), topics=None),
            lambda answer: answer.error_code,
        )
        check(answer.error_code, answer.error_message)
        return {
            TopicPartition(topic.name, row.partition_index): Move(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for topic in answer.topics
            for row in topic.partitions
        }

    async def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError]:
        """Has partitions move to other replicas, the preferred leader first; None cancels a move. Returns when the
        controller has taken it up, which is long before the replicas are copied; with the refusals by partition, such
        as InvalidReplicaAssignment, UnknownTopicOrPartition, NoReassignmentInProgress. The others are carried out.
        """
        refused: dict[TopicPartition, KafkaError] = {}
        names = sorted(targets)
        for start in range(0, len(names), MOVES_AT_ONCE):
            rows: dict[str, list[ReassignablePartition]] = {}
            for name in names[start : start + MOVES_AT_ONCE]:
                target = targets[name]
                row = ReassignablePartition(name.partition, None if target is None else list(target))
                rows.setdefault(name.topic, []).append(row)
            answer = await self.cluster.call_controller(
                ALTER_PARTITION_REASSIGNMENTS,
                AlterPartitionReassignmentsRequest(
                    timeout_ms=int(self.cluster.timeout_ms),
                    topics=[ReassignableTopic(topic, partitions) for topic, partitions in rows.items()],
                ),
                lambda answer: answer.error_code,
            )
            check(answer.error_code, answer.error_message)
            for topic in answer.responses:
                for result in topic.partitions:
                    if result.error_code:
                        name = TopicPartition(topic.name, result.partition_index)
                        refused[name] = error(result.error_code, result.error_message or "")
        return refused

    async def elect(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, KafkaError | None]:
        """Has the first replica of each partition lead, if it is in sync; or with `unclean`, where nobody leads, any
        replica that is there, which loses what that one does not have. Without partitions, of all that need it.
        Returns what became of each: None if it has that leader now, ElectionNotNeeded if it had it before,
        PreferredLeaderNotAvailable, EligibleLeadersNotAvailable.
        """
        results: dict[TopicPartition, KafkaError | None] = {}
        asked_at_once: list[list[TopicPartitions] | None] = []
        names = sorted(partitions or ())
        for start in range(0, len(names), MOVES_AT_ONCE):
            asked: dict[str, list[int]] = {}
            for name in names[start : start + MOVES_AT_ONCE]:
                asked.setdefault(name.topic, []).append(name.partition)
            asked_at_once.append([TopicPartitions(topic, numbers) for topic, numbers in asked.items()])
        for rows in [None] if partitions is None else asked_at_once:
            answer = await self.cluster.call_controller(
                ELECT_LEADERS,
                ElectLeadersRequest(
                    election_type=UNCLEAN if unclean else PREFERRED,
                    topic_partitions=rows,
                    timeout_ms=int(self.cluster.timeout_ms),
                ),
                lambda answer: answer.error_code,
            )
            check(answer.error_code)
            for topic in answer.replica_election_results:
                for row in topic.partition_result:
                    problem = error(row.error_code, row.error_message or "") if row.error_code else None
                    results[TopicPartition(topic.topic, row.partition_id)] = problem
        return results

    async def log_directories(
        self, broker_id: int, partitions: Iterable[TopicPartition] | None = None
    ) -> list[LogDirectory]:
        """The log directories of a broker with the sizes of these replicas, or of all.

        Raises:
            BrokerNotAvailable: it is not there.
        """
        topics = None
        if partitions is not None:
            asked: dict[str, list[int]] = {}
            for name in partitions:
                asked.setdefault(name.topic, []).append(name.partition)
            topics = [DescribableLogDirTopic(topic, numbers) for topic, numbers in asked.items()]
        connection = await self.cluster.connection(await self._address(broker_id))
        answer = await connection.call(
            DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=topics), timeout_ms=self.cluster.timeout_ms
        )
        found = []
        for row in answer.results:
            if row.error_code and row.error_code != StorageError.code:
                raise error(row.error_code, f"broker {broker_id}")
            sizes = {
                TopicPartition(topic.name, replica.partition_index): replica.partition_size
                for topic in row.topics
                for replica in topic.partitions
                if not replica.is_future_key
            }
            found.append(LogDirectory(row.log_dir, error(row.error_code) if row.error_code else None, sizes))
        return sorted(found, key=lambda each: each.path)

    async def replica_directories(
        self, broker_id: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ReplicaPlace]:
        """In which directory of a broker each of these replicas is, and where it moves. What it does not have is left
        out.

        Raises:
            BrokerNotAvailable: it is not there.
        """
        asked: dict[str, list[int]] = {}
        for name in partitions:
            asked.setdefault(name.topic, []).append(name.partition)
        connection = await self.cluster.connection(await self._address(broker_id))
        answer = await connection.call(
            DESCRIBE_LOG_DIRS,
            DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic, numbers) for topic, numbers in asked.items()]),
            timeout_ms=self.cluster.timeout_ms,
        )
        now: dict[TopicPartition, tuple[str, int]] = {}
        future: dict[TopicPartition, tuple[str, int]] = {}
        for row in answer.results:
            if row.error_code and row.error_code != StorageError.code:
                raise error(row.error_code, f"broker {broker_id}")
            for topic in row.topics:
                for replica in topic.partitions:
                    name = TopicPartition(topic.name, replica.partition_index)
                    (future if replica.is_future_key else now)[name] = row.log_dir, replica.offset_lag
        return {name: ReplicaPlace(path, lag, *future.get(name, (None, -1))) for name, (path, lag) in now.items()}

    async def move_directories(
        self, broker_id: int, targets: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, KafkaError]:
        """Has a broker move replicas to other log directories of its own (KIP-113). Returns when it has begun, with the
        refusals by partition, such as LogDirNotFound, KafkaStorageError. A replica that the broker does not have yet,
        which is refused with ReplicaNotAvailable, will be made there.

        Raises:
            BrokerNotAvailable: it is not there.
        """
        rows: dict[str, dict[str, list[int]]] = {}
        for name, path in targets.items():
            rows.setdefault(path, {}).setdefault(name.topic, []).append(name.partition)
        request = AlterReplicaLogDirsRequest(
            [
                AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(topic, numbers) for topic, numbers in topics.items()])
                for path, topics in rows.items()
            ]
        )
        connection = await self.cluster.connection(await self._address(broker_id))
        answer = await connection.call(ALTER_REPLICA_LOG_DIRS, request, timeout_ms=self.cluster.timeout_ms)
        return {
            TopicPartition(topic.topic_name, row.partition_index): error(row.error_code)
            for topic in answer.results
            for row in topic.partitions
            if row.error_code
        }

    async def sizes(self, replicas: Mapping[int, Iterable[TopicPartition]]) -> dict[int, dict[TopicPartition, int]]:
        """The bytes of these replicas, by broker; all brokers are asked at once. What does not answer is left out."""
        found: dict[int, dict[TopicPartition, int]] = {}

        async def ask(broker_id: int, partitions: Iterable[TopicPartition]) -> None:
            directories = await self.log_directories(broker_id, partitions)
            found[broker_id] = {name: size for each in directories for name, size in each.sizes.items()}

        await self._of_each(replicas, ask)
        return found

    async def sizes_of_all(self, broker_ids: Iterable[int]) -> dict[int, int]:
        """The bytes of all replicas of each broker that answers."""
        found: dict[int, int] = {}

        async def ask(broker_id: int, partitions: Iterable[TopicPartition]) -> None:
            found[broker_id] = sum(sum(each.sizes.values()) for each in await self.log_directories(broker_id))

        await self._of_each(dict.fromkeys(broker_ids, ()), ask)
        return found

    async def log_ends(self, replicas: Mapping[int, Iterable[TopicPartition]]) -> dict[int, dict[TopicPartition, int]]:
        """Where the logs of these replicas end, leaders' and followers', by broker. All brokers are asked at once, but
        their answers are not of one moment: while records come, a follower seems to be behind by what came meanwhile.
        What does not answer is left out.
        """
        found: dict[int, dict[TopicPartition, int]] = {broker_id: {} for broker_id in replicas}

        async def ask(broker_id: int, partitions: Iterable[TopicPartition]) -> None:
            names = list(partitions)
            connection = await self.cluster.connection(await self._address(broker_id))
            for start in range(0, len(names), ASKED_AT_ONCE):
                rows: dict[str, list[ListOffsetsPartition]] = {}
                for name in names[start : start + ASKED_AT_ONCE]:
                    row = ListOffsetsPartition(partition_index=name.partition, timestamp=LATEST)
                    rows.setdefault(name.topic, []).append(row)
                topics = [ListOffsetsTopic(name=topic, partitions=partitions) for topic, partitions in rows.items()]
                # Followers answer tools, and whoever says that he is one.
                answer = await connection.call(
                    LIST_OFFSETS,
                    ListOffsetsRequest(replica_id=DEBUGGING, topics=topics),
                    timeout_ms=self.cluster.timeout_ms,
                )
                for topic in answer.topics:
                    for each in topic.partitions:
                        if not each.error_code:
                            found[broker_id][TopicPartition(topic.name, each.partition_index)] = each.offset

        await self._of_each(replicas, ask)
        return found

    async def _of_each(
        self,
        replicas: Mapping[int, Iterable[TopicPartition]],
        ask: Callable[[int, Iterable[TopicPartition]], Awaitable[None]],
    ) -> None:
        """Asks all brokers at once. Those that are gone, refuse or stand still are left out: others are worth seeing
        still.
        """

        async def one(broker_id: int, partitions: Iterable[TopicPartition]) -> None:
            with suppress(OSError, ProtocolError, KafkaError), trio.move_on_after(SILENT_S):
                await ask(broker_id, partitions)

        async with trio.open_nursery() as nursery:
            for broker_id, partitions in replicas.items():
                nursery.start_soon(one, broker_id, partitions)

    async def _address(self, broker_id: int) -> Address:
        if broker_id not in self.cluster.metadata.brokers:
            await self.cluster.refresh([])
        found = self.cluster.metadata.brokers.get(broker_id)
        if found is None:
            raise BrokerNotAvailable(f"broker {broker_id} is not there")
        return found
