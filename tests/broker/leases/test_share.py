"""How many Fetches of other people's clients are served without Python: 95 of 100 at least, with their defaults."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.wire.k01_fetch import FETCH
from tests.peers.apache import tool
from tests.support.leased import One, produce, started
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.trio, pytest.mark.usefixtures("leases_on")]

TOPIC, COPY = "data", "copy"
BATCHES, RECORDS, VALUE = 120, 90, bytes(10_000)
COUNT = BATCHES * RECORDS
SHARE = 0.95


def java(port: int, folder: Path, **settings: str) -> None:
    file = folder / "consumer.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    report = tool(
        "3.9.2",
        "consumer-perf-test",
        *("--bootstrap-server", f"127.0.0.1:{port}", "--topic", TOPIC, "--messages", str(COUNT)),
        *("--consumer.config", str(file), "--timeout", str(1000 * PATIENCE_S), "--hide-header"),
    )
    # Start, end, megabytes, megabytes a second, records, ...
    assert int(report.splitlines()[-1].split(",")[4]) >= COUNT, report


def java_committed(port: int, folder: Path) -> None:
    java(port, folder, **{"isolation.level": "read_committed"})


def consumer(port: int, **settings: object) -> Consumer:
    found = Consumer(
        {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "g", "enable.auto.commit": False, **settings}
    )
    found.assign([TopicPartition(TOPIC, 0, 0)])
    return found


def librdkafka(port: int, folder: Path) -> None:
    reader = consumer(port)
    seen = 0
    while seen < COUNT:
        seen += len(reader.consume(1000, 1.0))
    reader.close()


def transactional_copy(port: int, folder: Path) -> None:
    reader = consumer(port, **{"isolation.level": "read_committed"})
    writer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "transactional.id": "copy"})
    writer.init_transactions(PATIENCE_S)
    seen = 0
    while seen < COUNT:
        writer.begin_transaction()
        for record in reader.consume(500, 1.0):
            writer.produce(COPY, record.value())
            seen += 1
            writer.poll(0)
        offsets = reader.position([TopicPartition(TOPIC, 0)])
        writer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), PATIENCE_S)
        writer.commit_transaction(PATIENCE_S)
    reader.close()


@pytest.mark.parametrize(
    "read", [java, pytest.param(java_committed, marks=pytest.mark.judge), librdkafka, transactional_copy]
)
async def test_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[int, Path], None]) -> None:
    settings = {
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    async with started(tmp_path / "data", monkeypatch, **settings) as one:
        hub = one.broker.server.hub
        hub.measure(one.broker.logs.directories.traffic)
        await one.create(TOPIC)
        await one.create(COPY)
        await one.talk(lambda client: [produce(client, TOPIC, *[VALUE] * RECORDS) for _ in range(BATCHES)])
        asked, served = await fetches(one, read, tmp_path)
        assert served >= BATCHES, "as many as there are megabytes, or it says little"
        assert asked <= (1 - SHARE) * served, f"{asked} of {served} came to Python"


async def fetches(one: One, read: Callable[[int, Path], None], folder: Path) -> tuple[int, int]:
    """How many Fetches came to Python, and how many were answered in all."""

    def answered() -> int:
        return sum(api.total_us.count for api in one.broker.server.hub.measured() if api.key == FETCH.key)

    asked, before = one.asked_of[FETCH.key], answered()
    port = one.broker.addresses.listening[0].port
    with trio.fail_after(4 * PATIENCE_S):
        await trio.to_thread.run_sync(read, port, folder)
    return one.asked_of[FETCH.key] - asked, answered() - before
