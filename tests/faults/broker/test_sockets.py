"""Wrong bytes of every kind against a running broker: it answers or closes, says no word of a mistake of its own, needs
no more memory, and other clients do not notice.

Every failure names the seed; a case that was found stands below as a test of its own.
"""

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.faults.broker import settings
from tests.faults.broker.assailant import Assailant
from tests.faults.broker.load import CLIENT, CONSUMER, PRODUCER
from tests.faults.broker.plausible import ALTER_CLIENT_QUOTAS, BETWEEN_BROKERS, FOR_CLIENTS, Plausible
from tests.peers.ottla import Broker, Brokers
from tests.peers.skips import require
from tests.support.client import connect
from tests.support.waiting import PATIENCE_S

try:
    import confluent_kafka as ck
except ImportError:
    ck = None

pytestmark = pytest.mark.clients
SECONDS = 10.0
GROWTH_BYTES_MAX = 50 << 20
WARM_UP = 300
SETTINGS = {
    "num.partitions": 2,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": False,
    "log.cleaner.dedupe.buffer.size": 4 << 20,  # memory that compaction would take sooner or later
}


class Honest(threading.Thread):
    """Sends and reads all the time. A record that is not acknowledged within 15 s counts as lost."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.stop = threading.Event()
        self.sent = 0
        self.errors: list[object] = []
        self.received: list[int] = []

    def run(self) -> None:
        try:
            self.live()
        except Exception as error:
            self.errors.append(error)

    def live(self) -> None:
        address = {"bootstrap.servers": self.bootstrap, **CLIENT}
        producer = ck.Producer({**address, **PRODUCER, "message.timeout.ms": 60_000})
        consumer = ck.Consumer({**address, **CONSUMER, "group.id": "honest"})
        consumer.subscribe(["honest"])
        deadline = time.monotonic() + 3600
        while time.monotonic() < deadline and not (self.stop.is_set() and len(self.received) >= self.sent):
            if not self.stop.is_set():
                for _ in range(10):
                    producer.produce("honest", str(self.sent), partition=0, on_delivery=self.delivered)
                    self.sent += 1
                deadline = time.monotonic() + PATIENCE_S
            producer.poll(0)
            for message in consumer.consume(100, 0.05):
                assert message.error() is None, message.error()
                self.received.append(int(message.value()))
        consumer.close()
        assert producer.flush(PATIENCE_S) == 0

    def delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.errors.append(error)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Broker]:
    if ck is None:
        require("clients", "confluent-kafka is absent")
    with Brokers(tmp_path) as brokers:
        broker = brokers(settings=SETTINGS)
        with connect(broker) as client:
            client.create("honest", 1)
            client.create("one", 2)
            client.create("two", 2)
            client.create("compacted", 1, cleanup_policy="compact")
        yield broker


def resident_bytes(broker: Broker) -> int:
    return int(psutil.Process(broker.pid).memory_info().rss)


def assail(broker: Broker, requests: Plausible, seconds: float) -> None:
    """Attacks until the time is over; the broker is asked for its health now and then."""
    first = settings.seed()
    before, end = 0, time.monotonic() + seconds
    with contextlib.closing(Assailant(broker.port, requests)) as assailant:
        for number in settings.until(end):
            assailant.attack(first + number)
            if number == WARM_UP:
                before = resident_bytes(broker)
            if number % 100 == 0:
                assert broker.running, f"it ended at case {first + number}, after {[*assailant.last]}"
                assert "Traceback" not in broker.output(), complaint(broker, first + number)
    with connect(broker) as client:
        client.fetch("honest")
    assert "Traceback" not in broker.output(), complaint(broker, first + number)
    grown = resident_bytes(broker) - before
    print(f"{number + 1} cases, {dict(assailant.counts)}, {grown >> 10} KiB more memory")
    if before and grown >= GROWTH_BYTES_MAX:
        pytest.fail(f"{grown >> 20} MiB more after {number} cases from {first}, in:\n" + mappings(broker))


def mappings(broker: Broker) -> str:
    """Where its memory is."""
    maps = psutil.Process(broker.pid).memory_maps(grouped=False)
    largest = sorted(maps, key=lambda one: one.rss, reverse=True)[:10]
    return "\n".join(f"{one.rss >> 10} of {one.size >> 10} KiB at {one.addr} {one.perms} {one.path}" for one in largest)


def complaint(broker: Broker, seed: int) -> str:
    said = broker.output()
    start = said.index("Traceback")
    return f"before case {seed}:\n{said[max(0, start - 300) : start + 2500]}"


def beside_an_honest_client(target: Broker, seconds: float) -> None:
    honest = Honest(target.bootstrap)
    honest.start()
    try:
        assail(target, Plausible(FOR_CLIENTS, internal=False), seconds)
    finally:
        honest.stop.set()
        honest.join(PATIENCE_S)
    assert honest.errors == []
    assert honest.received == [*range(honest.sent)]
    assert honest.sent > 100


def test_clients_requests_beside_an_honest_client(target: Broker) -> None:
    beside_an_honest_client(target, settings.seconds(SECONDS))


def test_requests_between_brokers(target: Broker) -> None:
    """Here nobody else is served: a request of a controller that nobody elected may say what it likes."""
    assail(
        target,
        Plausible([*BETWEEN_BROKERS * 3, *FOR_CLIENTS, ALTER_CLIENT_QUOTAS], internal=True),
        settings.seconds(SECONDS),
    )


@pytest.mark.soak
def test_for_a_long_time(tmp_path: Path) -> None:
    """In rounds, since the topics and groups that are made are memory too."""
    chance = random.Random(settings.seed())
    for number in settings.until(time.monotonic() + settings.seconds(900)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Brokers(folder) as brokers:
            broker = brokers(settings=SETTINGS)
            with connect(broker) as client:
                for topic in ("honest", "one", "two"):
                    client.create(topic, 1)
            if chance.random() < 0.5:
                beside_an_honest_client(broker, 60)
            else:
                assail(broker, Plausible([*BETWEEN_BROKERS * 3, *FOR_CLIENTS, ALTER_CLIENT_QUOTAS], internal=True), 60)
