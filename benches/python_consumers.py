"""Records read as members of groups, from Python: our consumer, as objects and as Arrow batches, beside
confluent-kafka, aiokafka and kafka-python.

    .venv/bin/python benches/python_consumers.py [--records 1000000] [--rounds 3] [--only ottla,ottla-arrow]

Every client reads the same records of 100 bytes with keys, from the same broker, one client after the other, each in a
process and a group of its own. Time is from the first record or batch that is given until the last one. Figures are
the best of the rounds, since others only ever take time away.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

VALUE = b"x" * 100
KEYS = [b"key-%d" % number for number in range(1000)]
PARTITIONS = 4
TOPIC = "read"
#: Of the targets: records a second, as objects and as Arrow batches.
TARGETS = {"ottla": 600_000, "ottla-arrow": 3_000_000}

Figures = tuple[int, float, float]
"""Records that were counted, seconds, and seconds of the client's processor."""


class _Counter:
    """Counts from the first batch on, without it: joining the group is not reading."""

    def __init__(self, records: int) -> None:
        self.left = records
        self.counted = 0
        self._begun: tuple[float, float] | None = None

    def saw(self, count: int) -> bool:
        """Counts records that were read; True if these were the last."""
        self.left -= count
        if self._begun is None:
            if count:
                self._begun = time.perf_counter(), time.process_time()
        else:
            self.counted += count
        return self.left <= 0

    def figures(self) -> Figures:
        assert self._begun is not None
        return self.counted, time.perf_counter() - self._begun[0], time.process_time() - self._begun[1]


def ottla(bootstrap: str, group: str, records: int) -> Figures:
    import trio

    from ottla.client import Cluster, Consumer

    async def main() -> Figures:
        counter = _Counter(records)
        async with Cluster(bootstrap) as cluster, Consumer(cluster, group=group, start="earliest") as consumer:
            consumer.subscribe([TOPIC])
            while not counter.saw(len(await consumer.poll())):
                pass
            return counter.figures()

    return trio.run(main)


def ottla_arrow(bootstrap: str, group: str, records: int) -> Figures:
    import trio

    from ottla.client import Cluster, Consumer

    async def main() -> Figures:
        counter = _Counter(records)
        async with Cluster(bootstrap) as cluster, Consumer(cluster, group=group, start="earliest") as consumer:
            consumer.subscribe([TOPIC])
            async for batch in consumer.batches():
                if counter.saw(batch.records.num_rows):
                    break
            return counter.figures()

    return trio.run(main)


def confluent(bootstrap: str, group: str, records: int) -> Figures:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    counter = _Counter(records)
    while not counter.saw(len([(each.key(), each.value()) for each in consumer.consume(10_000, 0.1)])):
        pass
    figures = counter.figures()
    consumer.close()
    return figures


def aio(bootstrap: str, group: str, records: int) -> Figures:
    import aiokafka

    async def main() -> Figures:
        consumer = aiokafka.AIOKafkaConsumer(
            TOPIC, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
        )
        counter = _Counter(records)
        async with consumer:
            while not counter.saw(sum(map(len, (await consumer.getmany(timeout_ms=500)).values()))):
                pass
            return counter.figures()

    return asyncio.run(main())


def kafka_python(bootstrap: str, group: str, records: int) -> Figures:
    import kafka

    consumer = kafka.KafkaConsumer(
        TOPIC, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", max_poll_records=10_000
    )
    counter = _Counter(records)
    while not counter.saw(sum(map(len, consumer.poll(500).values()))):
        pass
    figures = counter.figures()
    consumer.close()
    return figures


CLIENTS: dict[str, tuple[Callable[[str, str, int], Figures], float]] = {
    # The slow ones read fewer records.
    "ottla": (ottla, 1),
    "ottla-arrow": (ottla_arrow, 1),
    "confluent-kafka": (confluent, 1),
    "aiokafka": (aio, 0.2),
    "kafka-python": (kafka_python, 0.2),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CLIENTS), metavar="NAMES")
    parser.add_argument("--one", nargs=3, metavar=("CLIENT", "BOOTSTRAP", "GROUP"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, bootstrap, group = options.one
        print(json.dumps(CLIENTS[name][0](bootstrap, group, options.records)))
        return
    # Where this file runs alone, the tests' servers are found from the project's root.
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import trio

    from ottla.client import Admin, Cluster, Producer
    from tests.peers.ottla import Brokers

    async def fill(bootstrap: str) -> None:
        async with Cluster(bootstrap) as cluster, Producer(cluster) as producer:
            await Admin(cluster).create_topic(TOPIC, PARTITIONS)
            for number in range(options.records):
                await producer.send(TOPIC, VALUE, key=KEYS[number % len(KEYS)])

    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder, Brokers(Path(folder)) as brokers:
        broker = brokers(settings={"group.initial.rebalance.delay.ms": 0})
        trio.run(fill, broker.bootstrap)
        for turn in range(options.rounds):
            for name in options.only:
                records = int(options.records * CLIENTS[name][1])
                group = f"{name}-{turn}"
                command = [sys.executable, __file__, "--records", str(records), "--one", name, broker.bootstrap, group]
                answer = subprocess.run(command, check=True, capture_output=True).stdout
                counted, seconds, cpu = json.loads(answer)
                found.setdefault(name, []).append((counted / seconds, cpu / counted * 1e6))
    print(f"{'client':<18}{'records/s':>12}{'CPU us/record':>16}")
    for name, runs in found.items():
        print(f"{name:<18}{max(run[0] for run in runs):>12,.0f}{min(run[1] for run in runs):>16.2f}")
    for name, target in TARGETS.items():
        if name in found:
            best = max(run[0] for run in found[name])
            print(f"{name}: {best:,.0f} records/s, {'reaches' if best >= target else 'misses'} {target:,}")


if __name__ == "__main__":
    main()
