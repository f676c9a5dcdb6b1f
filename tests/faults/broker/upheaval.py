"""Changes that an operator makes while a broker is killed under load, each with a memory of what was promised: replicas
that move between directories, records that are deleted, a topic that is deleted and made anew, transactions that nobody
ends.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import confluent_kafka as ck

from ottla import _core
from ottla.errors import (
    LeaderNotAvailable,
    NotController,
    NotLeaderOrFollower,
    ReplicaNotAvailable,
    RequestTimedOut,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from ottla.wire.k01_fetch import FetchablePartitionResponse
from ottla.wire.k02_list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from ottla.wire.k20_delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from tests.faults.broker.load import CALL_S, COPIED, PARTITIONS, Client, persist
from tests.faults.checker import Operation, Outcome, Send
from tests.support.client import Client as BrokerClient
from tests.support.client import batch
from tests.support.moves import move
from tests.support.operations import EARLIEST, delete
from tests.support.waiting import eventually

SHRUNK, REBORN = "shrunk", "reborn"
SHRUNK_SEGMENT_BYTES = 5000
ABANDONED = 1 << 60  # values from here on belong to transactions that nobody ends
NOT_NOW = {NotController.code, LeaderNotAvailable.code, RequestTimedOut.code, NotLeaderOrFollower.code}
T = TypeVar("T")


class Operator(Client):
    """Talks to the broker itself, over a connection that it makes anew whenever it is lost."""

    _connection: BrokerClient | None = None

    def run(self) -> None:
        super().run()
        if self._connection is not None:
            self._connection.close()

    def patiently(self, call: Callable[[BrokerClient], T], until: Callable[[T], bool] = lambda _: True) -> T:
        """The first answer that `until` likes, however many kills it takes. A call may so be carried out twice."""
        found: list[T] = []
        others: Counter[str] = Counter()

        def asked() -> bool:
            with contextlib.suppress(OSError):
                answer = call(self.connected())
                if until(answer):
                    found.append(answer)
                else:
                    others[str(answer)[:500]] += 1
            return bool(found)

        eventually(f"an answer to {self.name}", asked, facts=lambda: others.most_common(3))
        return found[0]

    def connected(self) -> BrokerClient:
        if self._connection is None or self._connection.closed:
            host, port = self.bootstrap.split(":")
            self._connection = BrokerClient.connect(host, int(port), self.name, timeout_ms=10_000)
        return self._connection


class Mover(Operator):
    """Sends replicas, those of the coordinators too, to another directory, whether the last move ended or not."""

    def __init__(self, name: str, bootstrap: str, seed: int, directories: list[Path], topics: dict[str, int]) -> None:
        super().__init__(name, bootstrap, seed)
        self.directories = directories
        self.replicas = [(topic, index) for topic, count in topics.items() for index in range(count)]
        self.moves = 0

    def live(self) -> None:
        while not self.stop.wait(0.1):
            (topic, index), target = self.chance.choice(self.replicas), self.chance.choice(self.directories)
            code = self.patiently(lambda client: move(client, topic, index, target))  # noqa: B023
            # Not there yet, or not any more.
            assert code in {0, ReplicaNotAvailable.code, UnknownTopicOrPartition.code}, (topic, index, code)
            self.moves += code == 0


class Shrinker(Operator):
    """Writes to a topic and deletes its beginning. One idempotent producer whose records all arrive: the value of a
    record is its offset.
    """

    def live(self) -> None:
        self.sent = 0
        self.told = self.asked = 0  # the start of the log that was promised, and the largest that was asked for
        self.deletions = 0
        problems: list[Any] = []
        # What gathers while the broker is away would otherwise become a batch that no segment of the topic holds.
        producer = self.producer(**{"batch.size": SHRUNK_SEGMENT_BYTES * 4 // 5})
        while not self.stop.wait(0.02):
            for _ in range(self.chance.randrange(1, 30)):
                producer.produce(
                    SHRUNK, str(self.sent), partition=0, on_delivery=lambda error, _: error and problems.append(error)
                )
                self.sent += 1
            producer.poll(0)
            if self.chance.random() < 0.2:
                assert producer.flush(90) == 0
                assert problems == [], [str(problem) for problem in problems[:3]]
                self.look()
                self.shrink(self.chance.randrange(self.told, self.sent + 1))
        assert producer.flush(90) == 0
        assert problems == [], [str(problem) for problem in problems[:3]]
        self.look()

    def shrink(self, target: int) -> None:
        self.asked = max(self.asked, target)
        code, start = self.patiently(lambda client: delete(client, SHRUNK, target), lambda row: row[0] not in PASSING)
        assert code == 0, code
        assert target <= start <= self.asked
        self.told, self.deletions = start, self.deletions + 1

    def look(self) -> None:
        """Checks that what was deleted stays deleted, and that the rest is there."""
        row = self.patiently(self.beginning, lambda row: row.error_code not in PASSING)
        assert row.error_code == 0, row.error_code
        start = row.offset
        assert self.told <= start <= self.asked, (self.told, start, self.asked)
        found = [*self.stored(start)]
        assert found == [(offset, b"%d" % offset) for offset in range(start, self.sent)], (start, self.sent, found[:3])

    @staticmethod
    def beginning(client: BrokerClient) -> ListOffsetsPartitionResponse:
        rows = [ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=SHRUNK, partitions=rows)])
        ((row,),) = [topic.partitions for topic in client.call(LIST_OFFSETS, request, 5).topics]
        return row

    def stored(self, offset: int) -> Iterator[tuple[int, bytes | None]]:
        """All of it was acknowledged, so somebody who waits for it gets it."""
        while offset < self.sent:
            answer = self.patiently(
                lambda client: client.fetch(SHRUNK, offset, max_wait_ms=100).responses[0].partition_responses[0],  # noqa: B023
                lambda row: row.error_code not in PASSING and (row.error_code != 0 or bool(row.record_set)),
            )
            assert answer.error_code == 0, (answer.error_code, offset)
            for record in _core.RecordReader(answer.record_set or b"", start_offset=offset):
                yield record.offset, record.value
                offset = record.offset + 1


PASSING = {UnknownTopicOrPartition.code, *NOT_NOW}


class Recreator(Operator):
    """Makes a topic, writes to it, deletes it, and again under the same name: nothing of a former life is read, and
    what was acknowledged in this one is.
    """

    def live(self) -> None:
        self.lives = 0
        while not self.stop.wait(0.05):
            self.patiently(self.made, bool)
            written = [self.write(number) for number in range(self.chance.randrange(1, 8))]
            found = self.read()
            acknowledged = [value for value, is_known in written if is_known]
            assert [value for value in found if value in acknowledged] == acknowledged, (found, written)
            assert set(found) <= {value for value, _ in written}, (found, written)
            self.patiently(self.deleted, {0, UnknownTopicOrPartition.code}.__contains__)
            self.lives += 1

    def made(self, client: BrokerClient) -> bool:
        """Its name may be taken: by an attempt of ours that was not answered, or until the last life is over."""
        row = CreatableTopic(name=REBORN, num_partitions=2, replication_factor=1)
        (answer,) = client.call(CREATE_TOPICS, CreateTopicsRequest(topics=[row], timeout_ms=5_000)).topics
        assert answer.error_code in {0, TopicAlreadyExists.code, *NOT_NOW}, answer.error_code
        return self.fetched(client).error_code == 0

    def deleted(self, client: BrokerClient) -> int:
        (answer,) = client.call(DELETE_TOPICS, DeleteTopicsRequest(topic_names=[REBORN], timeout_ms=5_000)).responses
        return answer.error_code

    def write(self, number: int) -> tuple[bytes, bool]:
        """Once: the value, and whether it was acknowledged."""
        value = b"%d of life %d" % (number, self.lives)
        try:
            (row,) = self.connected().produce(REBORN, batch(value)).responses[0].partitions
        except OSError:
            return value, False
        assert row.error_code in {0, *PASSING}, row.error_code
        return value, row.error_code == 0

    @staticmethod
    def fetched(client: BrokerClient) -> FetchablePartitionResponse:
        (row,) = client.fetch(REBORN).responses[0].partition_responses
        return row

    def read(self) -> list[bytes | None]:
        row = self.patiently(self.fetched, lambda row: row.error_code not in PASSING)
        assert row.error_code == 0, row.error_code
        return [record.value for record in _core.RecordReader(row.record_set or b"")]


class Abandoner(Client):
    """Begins transactions in the copied topic and goes away. Each has an id of its own, so that nobody but the
    coordinator can end it, when its time is over.
    """

    abandoned = 0

    def live(self) -> None:
        value = 0
        while not self.stop.wait(1.5):
            number = self.abandoned
            options = {"transactional.id": f"{self.name}-{number}", "transaction.timeout.ms": 1000}
            producer = self.producer(**options, **{"message.timeout.ms": 1000, "socket.timeout.ms": 1000})
            self.abandoned = number = number + 1
            with contextlib.suppress(ck.KafkaException):
                persist(producer.init_transactions, CALL_S)
                producer.begin_transaction()
                sends = []
                for _ in range(self.chance.randrange(1, 5)):
                    sends.append(Send((COPIED, self.chance.randrange(PARTITIONS)), ABANDONED + value))
                    producer.produce(COPIED, str(ABANDONED + value), partition=sends[-1].partition[1])  # type: ignore[index]
                    value += 1
                self.history.append(Operation(f"{self.name}-{number}", Outcome.FAIL, tuple(sends), transaction=True))
                producer.flush(2)
