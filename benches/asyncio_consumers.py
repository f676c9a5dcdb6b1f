"""Records read one by one under asyncio, as members of groups: `async for` of ottla.client.aio and of aiokafka, and the
consumer for asyncio of confluent-kafka, which has no iterator and is asked for lists.

    .venv/bin/python benches/asyncio_consumers.py [--records 1000000] [--rounds 3] [--only ottla,aiokafka]

Every client reads the same records of 100 bytes, with keys and a header, and looks at value and headers of each. They
read from the same broker, one client after the other, each in a process and a group of its own. Time is from the first
record until the last one. Figures are the best of the rounds, since others only ever take time away.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

VALUE = b"x" * 100
KEYS = [b"key-%d" % number for number in range(1000)]
HEADERS = [("trace", b"00f067aa0ba902b7")]
PARTITIONS = 4
TOPIC = "read"
#: Of the targets: records a second of ours.
TARGET = 300_000
#: The threads of confluent-kafka's pool, and how many records it is asked for at once.
THREADS, LIST = 2, 1000

Figures = tuple[int, float, float]
"""Records that were counted, seconds, and seconds of the client's processor."""


async def timed(records: AsyncIterator[Any], count: int, look: Callable[[Any], object]) -> Figures:
    left = count
    began = cpu_began = 0.0
    async for record in records:
        if left == count:
            began, cpu_began = time.perf_counter(), time.process_time()
        look(record)
        left -= 1
        if not left:
            break
    return count - 1, time.perf_counter() - began, time.process_time() - cpu_began


async def ottla(bootstrap: str, group: str, count: int) -> Figures:
    from ottla.client.aio import Cluster, Consumer

    async with Cluster(bootstrap) as cluster, Consumer(cluster, group=group, start="earliest") as consumer:
        consumer.subscribe([TOPIC])
        return await timed(aiter(consumer), count, lambda record: (record.value, record.headers))


async def aiokafka(bootstrap: str, group: str, count: int) -> Figures:
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(TOPIC, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest")
    async with consumer:
        return await timed(aiter(consumer), count, lambda record: (record.value, record.headers))


async def confluent(bootstrap: str, group: str, count: int) -> Figures:
    from confluent_kafka.aio import AIOConsumer

    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = AIOConsumer(settings, max_workers=THREADS)
    await consumer.subscribe([TOPIC])

    async def records() -> AsyncIterator[Any]:
        while True:
            for record in await consumer.consume(LIST, 0.1):
                yield record

    figures = await timed(records(), count, lambda record: (record.value(), record.headers()))
    await consumer.close()
    return figures


CLIENTS = {
    # The slow ones read fewer records.
    "ottla": (ottla, 1.0),
    "aiokafka": (aiokafka, 0.2),
    "confluent": (confluent, 0.2),
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
        print(json.dumps(asyncio.run(CLIENTS[name][0](bootstrap, group, options.records))))
        return
    # Where this file runs alone, the tests' servers are found from the project's root.
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.peers.ottla import Brokers

    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder, Brokers(Path(folder)) as brokers:
        broker = brokers(settings={"group.initial.rebalance.delay.ms": 0})
        asyncio.run(fill(broker.bootstrap, options.records))
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
    if "ottla" in found:
        best = max(run[0] for run in found["ottla"])
        print(f"ottla: {best:,.0f} records/s, {'reaches' if best >= TARGET else 'misses'} {TARGET:,}")


async def fill(bootstrap: str, count: int) -> None:
    from ottla.client.aio import Admin, Cluster, Producer

    async with Cluster(bootstrap) as cluster, Producer(cluster) as producer:
        await Admin(cluster).create_topic(TOPIC, PARTITIONS)
        for number in range(count):
            await producer.send(TOPIC, VALUE, key=KEYS[number % len(KEYS)], headers=HEADERS)


if __name__ == "__main__":
    main()
