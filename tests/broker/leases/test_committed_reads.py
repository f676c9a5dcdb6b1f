"""Fetches of committed records, served without asking Python: they end at the last stable offset, and name what was
aborted.
"""

import random
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
import trio

from ottla.errors import OffsetOutOfRange, UnsupportedCompressionType
from ottla.replication.partition import Partition
from ottla.wire.headers import request_frame
from ottla.wire.k00_produce import PRODUCE
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.wire.k21_delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.faults.broker import settings as faults
from tests.support.client import Client, batch, values
from tests.support.leased import Counted, One, produce, started
from tests.support.transactions import COMMITTED, SETTINGS, Writer
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = [pytest.mark.trio, pytest.mark.usefixtures("leases_on")]

TOPIC = "data"


class Stand:
    """A partition with one plain record and a lease, and producers with transactions."""

    def __init__(self, one: One, partition: Partition, writers: list[Writer]) -> None:
        self.one = one
        self.partition = partition
        self.writers = writers

    @property
    def waiting(self) -> int:
        """Fetches that wait in the hub."""
        return self.one.broker.server.hub.waiting_fetches

    async def fetch(self, offset: int, **options: int) -> Any:
        """The partition's answer to a reader of committed records."""
        answer = await self.one.talk(lambda client: client.fetch(TOPIC, offset, isolation_level=COMMITTED, **options))
        return answer.responses[0].partition_responses[0]

    async def write(self, writer: Writer, *given: bytes) -> int:
        found: int = await self.one.talk(lambda client: writer.write(client, *given))
        return found

    async def end(self, writer: Writer, *, commit: bool) -> None:
        await self.one.talk(lambda client: writer.end(client, commit=commit))


@asynccontextmanager
async def stand(path: Path, monkeypatch: pytest.MonkeyPatch, writers: int = 1) -> AsyncIterator[Stand]:
    settings = {name: str(value) for name, value in SETTINGS.items()}
    replicated = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
    async with started(path, monkeypatch, **settings, **replicated) as one:
        partition = await one.create(TOPIC)
        found = [Writer(f"writer-{number}") for number in range(writers)]
        for writer in found:
            await one.talk(writer.begin)
        await one.talk(lambda client: produce(client, TOPIC, b"plain"))
        assert partition.lease is not None
        with trio.fail_after(2 * PATIENCE_S):
            yield Stand(one, partition, found)


def _told(row: Any) -> tuple[int, int, list[tuple[int, int]]]:
    aborted = [(one.producer_id, one.first_offset) for one in row.aborted_transactions]
    return row.high_watermark, row.last_stable_offset, aborted


def _bytes_of(port: int, frame: bytes) -> bytes:
    """The answer to a request, as it comes."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(frame)
        with connection.makefile("rb") as answers:
            return answers.read(int.from_bytes(answers.read(4), "big"))


def _frames(chosen: random.Random, end: int) -> Iterator[bytes]:
    """Fetches of all kinds that a lease serves."""
    for version in range(4, 13):
        row = FetchPartition(
            partition=0, fetch_offset=chosen.randrange(end + 1), partition_max_bytes=chosen.choice([1, 200, 1 << 20])
        )
        asked = FetchRequest(
            replica_id=-1,
            max_wait_ms=chosen.choice([0, 1]),
            min_bytes=1,
            isolation_level=chosen.randrange(2),
            topics=[FetchTopic(topic=TOPIC, partitions=[row])],
        )
        yield request_frame(FETCH.key, version, 7, "test", FETCH.encode_request(version, asked))


async def test_answers_are_those_without_a_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain records, and transactions that are open, committed and aborted: the same log, asked both ways."""
    chosen = random.Random(faults.seed())
    async with stand(tmp_path, monkeypatch, writers=3) as found:
        one, partition, log = found.one, found.partition, found.partition.log
        port = one.broker.addresses.listening[0].port

        async def answers(frames: list[bytes]) -> list[bytes]:
            return [await trio.to_thread.run_sync(_bytes_of, port, frame) for frame in frames]

        is_open = dict.fromkeys(found.writers, False)
        was_open = False
        for _ in range(40):
            writer = chosen.choice(found.writers)
            match chosen.randrange(4):
                case 0:
                    await one.talk(lambda client: produce(client, TOPIC, b"plain", bytes(chosen.randrange(300))))
                case 1 if is_open[writer]:
                    await found.end(writer, commit=bool(chosen.randrange(2)))
                    is_open[writer] = False
                case _:
                    await found.write(writer, b"of a transaction", bytes(chosen.randrange(300)))
                    is_open[writer] = True
            frames = list(_frames(chosen, log.end_offset))
            one.broker.leases.allow(False)
            expected = await answers(frames)
            one.broker.leases.allow(True)
            await one.talk(lambda client: client.fetch(TOPIC))
            assert partition.lease is not None
            before = one.asked
            assert await answers(frames) == expected
            assert one.asked == before
            was_open = was_open or log.first_unstable_offset is not None
        assert was_open


async def test_who_waits_is_woken_by_the_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        (writer,) = found.writers
        before = found.one.asked_of[FETCH.key]
        for commit, aborted in ((True, []), (False, [(writer.id[0], 4)])):
            start = await found.write(writer, b"x")
            rows: list[Any] = []
            async with trio.open_nursery() as nursery:

                async def wait(offset: int = start, rows: list[Any] = rows) -> None:
                    rows.append(await found.fetch(offset, max_wait_ms=300_000, min_bytes=1))

                nursery.start_soon(wait)
                await comes_true("a Fetch that waits in the hub", lambda: found.waiting == 1)
                # The high watermark moves, and not how far committed records go.
                await found.one.talk(lambda client: produce(client, TOPIC, b"plain"))
                assert found.partition.log.high_watermark == start + 2
                assert found.waiting == 1
                await found.end(writer, commit=commit)
            assert _told(rows[0]) == (start + 3, start + 3, aborted)
            assert rows[0].record_set
        assert found.one.asked_of[FETCH.key] == before


async def test_the_end_of_a_lease_is_the_end_of_waiting_for_a_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        (writer,) = found.writers
        await found.write(writer, b"x")
        rows: list[Any] = []
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                rows.append(await found.fetch(1, max_wait_ms=300_000, min_bytes=1))

            nursery.start_soon(wait)
            await comes_true("a Fetch that waits in the hub", lambda: found.waiting == 1)
            found.partition.end_lease()
        assert _told(rows[0]) == (2, 1, [])
        assert not rows[0].record_set
        await found.end(writer, commit=True)
        assert _told(await found.fetch(1)) == (3, 3, [])


async def test_who_waits_hears_of_a_log_that_starts_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the start of the log overtakes that of an open transaction."""

    def delete(client: Client) -> None:
        row = DeleteRecordsPartition(partition_index=0, offset=3)
        topics = [DeleteRecordsTopic(name=TOPIC, partitions=[row])]
        answer = client.call(DELETE_RECORDS, DeleteRecordsRequest(topics=topics, timeout_ms=60_000), 2)
        assert answer.topics[0].partitions[0].error_code == 0

    async with stand(tmp_path, monkeypatch) as found:
        await found.write(found.writers[0], b"x", b"y", b"z")
        rows: list[Any] = []
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                rows.append(await found.fetch(1, max_wait_ms=300_000, min_bytes=1))

            nursery.start_soon(wait)
            await comes_true("a Fetch that waits in the hub", lambda: found.waiting == 1)
            await found.one.talk(delete)
        assert _told(rows[0]) == (4, 3, [])
        assert (await found.fetch(1)).error_code == OffsetOutOfRange.code


async def test_older_consumers_are_told_of_zstd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        one, partition = found.one, found.partition
        old = {"version": 9}
        assert await one.needed(lambda client: client.fetch(TOPIC, **old)) == 0
        await one.talk(lambda client: client.alter_topic(TOPIC, {"compression.type": "zstd"}))
        await comes_true("the setting", lambda: partition.compression_type == "zstd")
        assert partition.lease is None
        assert values(await one.talk(lambda client: client.fetch(TOPIC))) == [b"plain"]
        assert partition.lease is not None
        answer = await one.talk(lambda client: client.fetch(TOPIC, **old))
        assert answer.responses[0].partition_responses[0].error_code == UnsupportedCompressionType.code
        assert await one.needed(lambda client: client.fetch(TOPIC)) == 0


async def test_a_consumer_of_committed_records_is_served_without_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka's: it has no fetch session, and waits for the next transaction again and again."""
    rounds = 60
    async with stand(tmp_path, monkeypatch) as found:
        (writer,) = found.writers
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": f"127.0.0.1:{found.one.broker.addresses.listening[0].port}",
                "group.id": "none",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])

        async def take() -> bytes:
            message = await trio.to_thread.run_sync(consumer.poll, PATIENCE_S)
            assert message is not None
            assert message.error() is None
            value: bytes = message.value()
            return value

        counted = Counted(found.one, FETCH.key)
        assert await take() == b"plain"
        for number in range(rounds):
            await found.write(writer, b"%d" % number)
            await found.end(writer, commit=number % 3 != 0)
            if number % 3:
                assert await take() == b"%d" % number
        await trio.to_thread.run_sync(consumer.close)
        assert counted.count() >= rounds / 2
        assert counted.share_without_python() >= 0.95


async def test_a_consumer_of_several_partitions_is_served_without_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka asks for all of them at once, and waits for any."""
    rounds, partitions = 120, 3
    async with started(tmp_path, monkeypatch) as one:
        await one.create(TOPIC, partitions)
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": f"127.0.0.1:{one.broker.addresses.listening[0].port}",
                "group.id": "none",
                "enable.auto.commit": False,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, index, 0) for index in range(partitions)])
        counted = Counted(one, FETCH.key)
        for number in range(rounds):
            records, partition = batch(b"%d" % number), number % partitions
            await one.talk(
                lambda client, records=records, partition=partition: client.produce(
                    TOPIC, records, partition=partition, acks=1
                )
            )
            message = await trio.to_thread.run_sync(consumer.poll, PATIENCE_S)
            assert (message.partition(), message.value()) == (partition, b"%d" % number)
        await trio.to_thread.run_sync(consumer.close)
        assert counted.count() >= rounds / 2
        assert counted.share_without_python() >= 0.9


async def test_idempotent_producers_are_served_without_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They want acks=all: served so where nothing else is waited for."""
    rounds = 200
    async with started(tmp_path, monkeypatch, **{"log.flush.on.acks.all": "false"}) as one:
        partition = await one.create(TOPIC)
        await one.writes_quickly()
        await one.talk(lambda client: produce(client, TOPIC, b"first"))
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{one.broker.addresses.listening[0].port}",
                "enable.idempotence": True,
                "linger.ms": 0,
            }
        )

        def write() -> None:
            for number in range(rounds):
                producer.produce(TOPIC, b"%d" % number, partition=0)
                assert producer.flush(PATIENCE_S) == 0

        counted = Counted(one, PRODUCE.key)
        await trio.to_thread.run_sync(write)
        assert partition.log.high_watermark == 1 + rounds
        assert counted.count() == rounds
        assert counted.share_without_python() >= 0.9
