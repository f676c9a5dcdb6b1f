"""The same random requests to a broker with leases and to one without, or to one with threads beside the loop: the
bytes of all answers are the same.

Most requests are plain, so that leases serve them; the others are wrong in one way or another, or right and not plain.
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
from tests.faults.broker import settings
from tests.peers import forks
from tests.peers.ottla import Broker, Brokers
from tests.support.client import connect
from tests.support.message_sets import message_set
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
SETTINGS = {"log.retention.ms": -1, "log.cleaner.enable": "false"}


class Producer:
    """What an idempotent producer has sent to one partition."""

    def __init__(self, producer_id: int) -> None:
        self.id = producer_id
        self.epoch = 0
        self.sequence = 0


class Requests:
    """Random frames; the same seed gives the same ones."""

    def __init__(self, chosen: int) -> None:
        self.random = random.Random(chosen)
        self.producers: dict[tuple[str, int], Producer] = {}
        self.sent = 0

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

    def fetch(self) -> bytes:
        choose = self.random
        version = choose.choice([12, 11, 11, 10, *range(4, 13)])
        topics = []
        for _ in range(2 if self.odds(5) else 1):
            topic, number = self.place()
            row = FetchPartition(
                partition=number,
                current_leader_epoch=choose.choice([-1, -1, -1, 0, 0, 1]),
                fetch_offset=choose.choice([0, choose.randrange(max(1, self.sent)), -1 if self.odds(5) else 1]),
                partition_max_bytes=choose.choice([1, 100, 1000, 1 << 20, -1 if self.odds(5) else 0]),
            )
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

    def frame(self, key: int, version: int, body: bytes) -> bytes:
        self.sent += 1
        return request_frame(key, version, self.sent, "test", body)

    def bursts(self) -> Iterator[tuple[list[bytes], int]]:
        """Requests that are sent without waiting for answers in between, and how many answers there are.

        A Produce with acks=0 may close the connection, and how many of the requests behind it are still served is
        nobody's promise: so behind it comes only a question that waits for it and changes nothing.
        """
        while True:
            count = 1 if self.odds(2) else self.random.randrange(2, BURST_MAX)
            burst = [
                self.fetch() if self.odds(3) else self.produce(self.random.choice([1] * 8 + [-1, 2]))
                for _ in range(count)
            ]
            if self.odds(4):
                question = self.frame(API_VERSIONS.key, 0, API_VERSIONS.encode_request(0, ApiVersionsRequest()))
                yield [*burst, self.produce(0), question], count + 1
            else:
                yield burst, count


class Talk:
    """A connection that is opened again when the broker has closed it."""

    def __init__(self, broker: Broker) -> None:
        self._port = broker.port
        self._socket = self._connected()

    def _connected(self) -> socket.socket:
        connected = socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def answers(self, burst: list[bytes], count: int) -> list[bytes | None]:
        """The answers; None where the connection was closed instead, behind which there are no more."""
        found: list[bytes | None] = []
        try:
            self._socket.sendall(b"".join(burst))
            for _ in range(count):
                found.append(self._frame())
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


def compare(brokers: Brokers, monkeypatch: pytest.MonkeyPatch, way: tuple[str, str, str], seconds: float) -> int:
    """How many requests were answered alike."""
    variable, *values = way
    chosen = settings.seed()
    found: list[Broker] = []
    monkeypatch.setattr(forks, "is_on", False)  # a copy has the environment of its origin in /proc
    for value in values:
        monkeypatch.setenv(variable, value)
        broker = brokers(broker_id=1, settings=SETTINGS)
        environment = Path(f"/proc/{broker.pid}/environ").read_bytes().split(b"\0")
        assert f"{variable}={value}".encode() in environment
        with connect(broker) as client:
            for topic, config in TOPICS.items():
                client.create(topic, PARTITIONS, **config)
        found.append(broker)
    requests, end = Requests(chosen), time.monotonic() + seconds
    with closing(Talk(found[0])) as talk, closing(Talk(found[1])) as same:
        for burst, count in requests.bursts():
            one, other = talk.answers(burst, count), same.answers(burst, count)
            assert one == other, f"request {requests.sent} of seed {chosen}, the last of {len(burst)}"
            if time.monotonic() > end:
                break
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            logs = [_segments(broker.data / f"{topic}-{partition}") for broker in found]
            assert logs[0] == logs[1], f"{topic}-{partition}"
    return requests.sent


def _segments(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.log")}


@WAYS
def test_answers_and_logs_are_the_same(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, way: tuple[str, str, str]
) -> None:
    assert compare(brokers, monkeypatch, way, settings.seconds(3)) > 100


@WAYS
@pytest.mark.soak
def test_answers_and_logs_are_the_same_for_a_long_time(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, way: tuple[str, str, str]
) -> None:
    print(f"{compare(brokers, monkeypatch, way, settings.seconds(600))} requests")
