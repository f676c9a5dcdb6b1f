"""The same random requests to a broker with leases and to one without, or to one with threads beside the loop: the
bytes of all answers are the same.

Most requests are plain, so that leases serve them; the others are wrong in one way or another, or right and not plain.
Among them are fetch sessions, of which the brokers remember fewer than they are asked for, and transactions that end,
committed or aborted, while sessions read them.
"""

import random
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ottla._core import BatchBuilder
from ottla.broker.network_threads import VARIABLE as THREADS
from ottla.replication.leases import SWITCH
from ottla.wire.headers import request_frame
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.wire.k18_api_versions import API_VERSIONS, ApiVersionsRequest
from ottla.wire.k27_write_txn_markers import (
    WRITE_TXN_MARKERS,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.faults.broker import settings
from tests.peers import forks
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client, connect
from tests.support.message_sets import message_set
from tests.support.sessions_of_two import SESSIONS_MAX, Ask, Sessions, noted, without_times
from tests.support.transactions import begun
from tests.support.waiting import PATIENCE_S

NOW_MS = 1_700_000_000_000
#: Topics and their settings. Where the broker's clock is in an answer nothing can be compared.
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup_policy": "compact"},
    "small": {"max_message_bytes": "300"},
    "rolling": {"segment_bytes": "1000"},
    "packed": {"compression_type": "lz4"},
    "safe": {"min_insync_replicas": "2"},
    "old": {"message_format_version": "0.10.0"},
}
PARTITIONS = 2
BURST_MAX = 8
#: What brokers do by themselves, each in its own time, would make their answers differ.
SETTINGS = {
    "log.retention.ms": -1,
    "log.cleaner.enable": "false",
    "max.incremental.fetch.session.cache.slots": 3,
    "transaction.state.log.num.partitions": 1,
}
#: The topic of transactions, and for how long one may be open: longer than any test.
TRANSACTED, OPEN_MS = "data", 900_000
WRITERS = ("one", "other")
#: A conversation has so many requests.
LEAST = 100


class Producer:
    """What an idempotent producer has sent to one partition."""

    def __init__(self, producer_id: int) -> None:
        self.id = producer_id
        self.epoch = 0
        self.sequence = 0


class Requests:
    """Random frames; the same seed gives the same ones."""

    def __init__(self, chosen: int, writers: dict[str, Producer]) -> None:
        """`writers` have transactions, by their transactional ids."""
        self.random = random.Random(chosen)
        self.producers: dict[tuple[str, int], Producer] = {}
        self.sent = 0
        self.writers = writers
        self.sessions = Sessions(self.random, self.row, self.numbered)

    def odds(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    def records(self, topic: str, partition: int) -> bytes | None:
        choose = self.random
        key = b"k" if topic == "compacted" and not self.odds(8) else None
        values = [bytes(choose.randrange(1, 60)) for _ in range(choose.randrange(1, 4))]
        if self.odds(15):
            values.append(bytes(choose.choice([300, 5000, 140_000])))
        if (topic == "old" and not self.odds(3)) or self.odds(40):
            records = [(NOW_MS, key or b"k", value) for value in values]
            return message_set(choose.choice([0, 1]), choose.choice(["none", "gzip", "snappy"]), *records)
        options: dict[str, object] = {}
        if self.odds(3):
            producer = self.producers.setdefault((topic, partition), Producer(len(self.producers)))
            kind = choose.randrange(10)
            if kind == 0:
                producer.epoch += 1
                producer.sequence = 0
            sequence = producer.sequence + {1: -1, 2: 5, 3: -2}.get(kind, 0)
            epoch = producer.epoch - (kind == 4)
            options = {"producer_id": producer.id, "producer_epoch": max(0, epoch), "base_sequence": max(0, sequence)}
            producer.sequence = max(producer.sequence, sequence + len(values))
            options["transactional"] = self.odds(15)
        builder = BatchBuilder(compression=choose.choice(["none"] * 6 + ["gzip", "lz4", "snappy", "zstd"]), **options)  # type: ignore[arg-type]
        for value in values:
            builder.append(NOW_MS + choose.randrange(10), key, value)
        return self.spoilt(builder.finish())

    def spoilt(self, records: bytes) -> bytes | None:
        """Mostly as they are."""
        choose = self.random
        match choose.randrange(60):
            case 0:
                return None
            case 1:
                return b""
            case 2:
                return records * 2
            case 3:
                return records[: choose.randrange(len(records))]
            case 4 | 5 | 6:
                damaged = bytearray(records)
                damaged[choose.randrange(len(damaged))] ^= 1 << choose.randrange(8)
                return bytes(damaged)
        return records

    def place(self) -> tuple[str, int]:
        topic = "plain" if self.odds(2) else self.random.choice(list(TOPICS))
        if self.odds(40):
            topic = "unknown"
        return topic, PARTITIONS if self.odds(50) else self.random.randrange(PARTITIONS)

    def produce(self, acks: int) -> bytes:
        choose = self.random
        version = choose.choice([8, 8, 8, 7, *range(9)])
        places = [self.place() for _ in range(2 if self.odds(12) else 1)]
        topics = [
            TopicProduceData(
                name=topic,
                partitions=[PartitionProduceData(partition_index=number, records=self.records(topic, number))],
            )
            for topic, number in places
        ]
        request = ProduceRequest(acks=acks, timeout_ms=60_000, topics=topics)
        if version >= 3:
            request.transactional_id = "t" if self.odds(50) else None
        return self.frame(PRODUCE.key, version, PRODUCE.encode_request(version, request))

    def row(self) -> tuple[str, FetchPartition]:
        """A partition to fetch, and its topic."""
        choose = self.random
        topic, number = (TRANSACTED, 0) if self.odds(4) else self.place()
        return topic, FetchPartition(
            partition=number,
            current_leader_epoch=choose.choice([-1, -1, -1, 0, 0, 1]),
            fetch_offset=choose.choice([0, choose.randrange(max(1, self.sent)), -1 if self.odds(5) else 1]),
            partition_max_bytes=choose.choice([1, 100, 1000, 1 << 20, -1 if self.odds(5) else 0]),
        )

    def fetch(self) -> bytes:
        choose = self.random
        version = choose.choice([12, 11, 11, 10, *range(4, 13)])
        topics = []
        for _ in range(2 if self.odds(5) else 1):
            topic, row = self.row()
            if version >= 12 and self.odds(6):
                row.last_fetched_epoch = choose.choice([0, 1])
            topics.append(FetchTopic(topic=topic, partitions=[row]))
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=choose.choice([0, 0, 0, 3]),
            min_bytes=choose.choice([0, 1, 1, 500]),
            max_bytes=choose.choice([1, 200, 1 << 20, 1 << 20, -1 if self.odds(5) else 1 << 20]),
            isolation_level=int(self.odds(6)),
            topics=topics,
        )
        return self.frame(FETCH.key, version, FETCH.encode_request(version, request))

    def transact(self) -> bytes:
        """Writes in a transaction, or ends one; its coordinator hears nothing of the end."""
        name = self.random.choice([*self.writers])
        writer = self.writers[name]
        if self.odds(3):
            marker = WritableTxnMarker(
                producer_id=writer.id,
                producer_epoch=writer.epoch,
                transaction_result=self.odds(2),
                topics=[WritableTxnMarkerTopic(name=TRANSACTED, partition_indexes=[0])],
            )
            request = WriteTxnMarkersRequest(markers=[marker])
            return self.frame(WRITE_TXN_MARKERS.key, 1, WRITE_TXN_MARKERS.encode_request(1, request))
        builder = BatchBuilder(
            transactional=True,
            producer_id=writer.id,
            producer_epoch=writer.epoch,
            base_sequence=writer.sequence,
        )
        for _ in range(self.random.randrange(1, 3)):
            builder.append(NOW_MS, None, bytes(self.random.randrange(1, 60)))
            writer.sequence += 1
        row = PartitionProduceData(partition_index=0, records=builder.finish())
        topics = [TopicProduceData(name=TRANSACTED, partitions=[row])]
        request_to = ProduceRequest(acks=-1, timeout_ms=60_000, topics=topics, transactional_id=name)
        return self.frame(PRODUCE.key, 8, PRODUCE.encode_request(8, request_to))

    def numbered(self) -> int:
        self.sent += 1
        return self.sent

    def frame(self, key: int, version: int, body: bytes) -> bytes:
        return request_frame(key, version, self.numbered(), "test", body)

    def any(self) -> Ask:
        if self.sessions.open and self.odds(2):
            return self.sessions.next(self.random.choice(self.sessions.open))
        if self.odds(6):
            return Ask(self.transact())
        return Ask(self.fetch() if self.odds(3) else self.produce(self.random.choice([1] * 8 + [-1, 2])))

    def bursts(self) -> Iterator[tuple[list[Ask], int]]:
        """Requests that are sent without waiting for answers in between, and how many answers there are.

        A Produce with acks=0 may close the connection, and how many of the requests behind it are still served is
        nobody's promise: so behind it comes only a question that waits for it and changes nothing.
        """
        while True:
            if len(self.sessions.open) < SESSIONS_MAX and self.odds(6):
                yield [self.sessions.begin()], 1
                continue
            count = 1 if self.odds(2) else self.random.randrange(2, BURST_MAX)
            burst: list[Ask] = []
            while len(burst) < count:
                burst.append(self.any())
                if burst[-1].ends:
                    break
            count = len(burst)
            if self.odds(4):
                question = self.frame(API_VERSIONS.key, 0, API_VERSIONS.encode_request(0, ApiVersionsRequest()))
                yield [*burst, Ask(self.produce(0)), Ask(question)], count + 1
            else:
                yield burst, count


class Talk:
    """A connection that is opened again when the broker has closed it."""

    def __init__(self, broker: Broker, number: int) -> None:
        """`number` tells which of both brokers it is, 0 or 1."""
        self._port = broker.port
        self._number = number
        self._socket = self._connected()

    def _connected(self) -> socket.socket:
        connected = socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def answers(self, burst: list[Ask], count: int) -> list[tuple[int, bytes] | None]:
        """The answers with the error codes of sessions; None where the connection was closed instead, behind which
        there are no more.
        """
        found: list[tuple[int, bytes] | None] = []
        try:
            self._socket.sendall(b"".join(ask.of(self._number) for ask in burst))
            for ask, _ in zip(burst, range(count), strict=False):
                answer = without_times(self._frame())
                found.append((0, answer) if ask.session is None else noted(ask, self._number, answer))
        except ConnectionError:
            found.append(None)
            self._socket.close()
            self._socket = self._connected()
        return found

    def _frame(self) -> bytes:
        return self._bytes(int.from_bytes(self._bytes(4), "big"))

    def _bytes(self, count: int) -> bytes:
        got = bytearray()
        while len(got) < count:
            more = self._socket.recv(count - len(got))
            if not more:
                raise ConnectionResetError
            got += more
        return bytes(got)

    def close(self) -> None:
        self._socket.close()


#: A variable, and its values for either broker.
WAYS = pytest.mark.parametrize("way", [(SWITCH, "on", "off"), (THREADS, "0", "2")], ids=["leases-off", "threads"])


def writers_of(client: Client) -> dict[str, Producer]:
    """Producers that always have a transaction."""
    found = {}
    for name in WRITERS:
        made = begun(client, name, 0, timeout_ms=OPEN_MS)
        found[name] = Producer(made.producer_id)
        found[name].epoch = made.producer_epoch
    return found


def converse(requests: Requests, one: Talk, other: Talk, end: float, chosen: int) -> None:
    """Asks both the same until the end, by `time.monotonic()`, and until each kind of request has come."""
    sessions = requests.sessions
    for burst, count in requests.bursts():
        answers, same = one.answers(burst, count), other.answers(burst, count)
        assert answers == same, f"request {requests.sent} of seed {chosen}, the last of {len(burst)}"
        for ask, answer in zip(burst, answers, strict=False):
            if answer is not None:
                sessions.answered(ask, answer[0])
        if None in answers:
            # Nobody promises how many of those behind were served: the sessions are of no use any more.
            for session in [*sessions.open]:
                last = [sessions.end(session)]
                answers, same = one.answers(last, 1), other.answers(last, 1)
                assert [answer and answer[1][:4] for answer in answers] == [answer and answer[1][:4] for answer in same]
                sessions.answered(last[0], 0)
        if time.monotonic() > end and requests.sent > LEAST and min(sessions.counts.values()) > 0:
            return


def compare(brokers: Brokers, monkeypatch: pytest.MonkeyPatch, way: tuple[str, str, str], seconds: float) -> Requests:
    """Returns the requests that were answered alike."""
    variable, *values = way
    chosen = settings.seed()
    found: list[Broker] = []
    writers: list[dict[str, Producer]] = []
    monkeypatch.setattr(forks, "is_on", False)  # a copy has the environment of its origin in /proc
    for value in values:
        monkeypatch.setenv(variable, value)
        broker = brokers(broker_id=1, settings=SETTINGS)
        environment = Path(f"/proc/{broker.pid}/environ").read_bytes().split(b"\0")
        assert f"{variable}={value}".encode() in environment
        with connect(broker) as client:
            for topic, config in TOPICS.items():
                client.create(topic, PARTITIONS, **config)
            client.create(TRANSACTED, 1)
            writers.append(writers_of(client))
        found.append(broker)
    assert [{name: vars(each) for name, each in some.items()} for some in writers[1:]] == [
        {name: vars(each) for name, each in writers[0].items()}
    ]
    requests, end = Requests(chosen, writers[0]), time.monotonic() + seconds
    with closing(Talk(found[0], 0)) as talk, closing(Talk(found[1], 1)) as same:
        converse(requests, talk, same, end, chosen)
    for topic, partition in [*((topic, number) for topic in TOPICS for number in range(PARTITIONS)), (TRANSACTED, 0)]:
        logs = [_segments(broker.data / f"{topic}-{partition}") for broker in found]
        assert logs[0] == logs[1], f"{topic}-{partition}"
    return requests


def _segments(folder: Path) -> dict[str, bytes]:
    return {path.name: without_times(path.read_bytes()) for path in folder.glob("*.log")}


@WAYS
def test_answers_and_logs_are_the_same(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, way: tuple[str, str, str]
) -> None:
    requests = compare(brokers, monkeypatch, way, settings.seconds(3))
    print(f"{requests.sent} requests, and sessions: {requests.sessions.counts}")


@WAYS
@pytest.mark.soak
def test_answers_and_logs_are_the_same_for_a_long_time(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, way: tuple[str, str, str]
) -> None:
    requests = compare(brokers, monkeypatch, way, settings.seconds(600))
    print(f"{requests.sent} requests, and sessions: {requests.sessions.counts}")
