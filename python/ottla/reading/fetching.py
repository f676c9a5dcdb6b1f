"""Fetching stretches of partitions inside a Spark task: blocking, one partition at a time, from wherever its leader
is now.
"""

import trio

from ottla import _core
from ottla.client import BlockingConnection, Cluster, TopicPartition
from ottla.client.answers import row_about
from ottla.client.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.client.offsets import list_offsets
from ottla.errors import LeaderNotAvailable, UnknownTopicOrPartition, error
from ottla.kafka import CONSUMER, EARLIEST, LATEST
from ottla.reading.options import ReadOptions

FETCH_BYTES = 4 * 1024 * 1024
FETCH_WAIT_MS = 500

Address = tuple[str, int]


class Fetcher:
    """Connections to the leaders of the partitions that a task reads; `ask` and `answer` are apart so that they
    overlap.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._connections: dict[Address, BlockingConnection] = {}
        self._leaders: dict[TopicPartition, Address] = {}

    def ask(self, partition: TopicPartition, leader: Address, offset: int) -> None:
        """Asks for records from `offset` on. `leader` is where the leader was when the query was planned.

        Raises:
            OSError: it cannot be reached; call `moved` and ask again.
        """
        limit = self.options.fetch_bytes_max or FETCH_BYTES
        wait_ms = self.options.fetch_wait_ms_max
        stretch = FetchPartition(
            partition=partition.partition, fetch_offset=offset, partition_max_bytes=min(limit, FETCH_BYTES)
        )
        message = FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=FETCH_WAIT_MS if wait_ms is None else wait_ms,
            min_bytes=1,
            max_bytes=limit,
            isolation_level=int(self.options.read_committed),
            topics=[FetchTopic(topic=partition.topic, partitions=[stretch])],
        )
        self._connection(self._leaders.setdefault(partition, leader)).send(FETCH, message)

    def answer(self, partition: TopicPartition) -> _core.FetchedPartition:
        """The answer to the last `ask` about this partition.

        Raises:
            KafkaError: what the broker answers instead of records.
            OSError, RemoteProtocolError: the connection ended; call `moved` and ask again.
        """
        answer = self._connections[self._leaders[partition]].receive(timeout_ms=self.options.poll_timeout_ms)
        if answer.error_code:
            raise error(answer.error_code, f"fetching {partition}")
        found: _core.FetchedPartition = row_about(str(partition), answer.partitions)
        if found.error_code:
            raise error(found.error_code, f"fetching {partition}")
        return found

    def leader(self, partition: TopicPartition) -> str:
        """Host and port of whom `ask` asked last."""
        host, port = self._leaders[partition]
        return f"{host}:{port}"

    def moved(self, partition: TopicPartition) -> bool:
        """The leader is not where it was: closes the connection and looks again. Leaves things as they are if that
        fails. False: there is no such partition.
        """
        if (old := self._leaders.get(partition)) in self._connections:
            self._connections.pop(old).close()

        async def look() -> Address:
            async with self._cluster() as cluster:
                return await cluster.leader(partition)

        try:
            self._leaders[partition] = trio.run(look)
        except UnknownTopicOrPartition:
            return False
        except LeaderNotAvailable:
            pass  # an election: the old one does not answer, and the caller comes again
        return True

    def bounds(self, partition: TopicPartition) -> tuple[int, int] | None:
        """Where the partition begins and ends now; None if there is no such partition."""

        async def look() -> tuple[int, int]:
            async with self._cluster() as cluster:
                await cluster.leader(partition)  # which says at once that there is none
                first = await list_offsets(cluster, {partition: EARLIEST})
                last = await list_offsets(cluster, {partition: LATEST})
                return first[partition].offset, last[partition].offset

        try:
            return trio.run(look)
        except UnknownTopicOrPartition:
            return None

    def close(self) -> None:
        """Closes all connections, also with an answer under way."""
        for connection in self._connections.values():
            connection.close()

    def _connection(self, address: Address) -> BlockingConnection:
        found = self._connections.get(address)
        if found is None or found.closed:
            found = BlockingConnection.connect(
                *address,
                self.options.client_id,
                timeout_ms=self.options.poll_timeout_ms,
                security=self.options.security,
            )
            self._connections[address] = found
        return found

    def _cluster(self) -> Cluster:
        assert self.options.bootstrap_servers is not None
        return Cluster(
            self.options.bootstrap_servers,
            client_id=self.options.client_id,
            timeout_ms=self.options.poll_timeout_ms,
            security=self.options.security,
        )
