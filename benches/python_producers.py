"""One `send` per record, with keys, from Python: our producer beside confluent-kafka, aiokafka and kafka-python.

    .venv/bin/python benches/python_producers.py [--records 500000] [--rounds 3] [--only ottla,confluent-kafka]

Every client sends the same records to the same broker, one client after the other, each in a process of its own and
with acks=all and idempotence where it has it. Time is from the first `send` until all is acknowledged; the client has
connected by then. Figures are the best of the rounds, since others only ever take time away.
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
LINGER_MS = 5
#: Of the targets: records a second with one `send` each.
TARGET = 400_000

Figures = tuple[float, float]
"""Seconds, and seconds of the client's processor."""


class _Clock:
    def __init__(self) -> None:
        self._begun = time.perf_counter(), time.process_time()

    def figures(self) -> Figures:
        return time.perf_counter() - self._begun[0], time.process_time() - self._begun[1]


def ottla(bootstrap: str, topic: str, records: int) -> Figures:
    import trio

    from ottla.client import Cluster, Producer

    async def main() -> Figures:
        async with Cluster(bootstrap) as cluster, Producer(cluster, linger_ms=LINGER_MS) as producer:
            await producer.send_and_wait(topic, VALUE)
            clock = _Clock()
            for number in range(records):
                await producer.send(topic, VALUE, key=KEYS[number % len(KEYS)])
            await producer.flush()
            return clock.figures()

    return trio.run(main)


def confluent(bootstrap: str, topic: str, records: int) -> Figures:
    import confluent_kafka

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": LINGER_MS,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.produce(topic, VALUE)
    producer.flush()
    clock = _Clock()
    for number in range(records):
        while True:
            try:
                producer.produce(topic, VALUE, KEYS[number % len(KEYS)])
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush()
    return clock.figures()


def aio(bootstrap: str, topic: str, records: int) -> Figures:
    import aiokafka

    async def main() -> Figures:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=LINGER_MS, max_batch_size=256 * 1024
        )
        async with producer:
            await producer.send_and_wait(topic, VALUE)
            clock = _Clock()
            for number in range(records):
                await producer.send(topic, VALUE, KEYS[number % len(KEYS)])
            await producer.flush()
            return clock.figures()

    return asyncio.run(main())


def kafka_python(bootstrap: str, topic: str, records: int) -> Figures:
    import kafka

    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, acks="all", linger_ms=LINGER_MS, batch_size=256 * 1024
    )
    producer.send(topic, VALUE).get(30)
    clock = _Clock()
    for number in range(records):
        producer.send(topic, VALUE, KEYS[number % len(KEYS)])
    producer.flush()
    figures = clock.figures()
    producer.close()
    return figures


CLIENTS: dict[str, tuple[Callable[[str, str, int], Figures], float]] = {
    # The slow ones get fewer records.
    "ottla": (ottla, 1),
    "confluent-kafka": (confluent, 1),
    "aiokafka": (aio, 0.2),
    "kafka-python": (kafka_python, 0.2),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CLIENTS), metavar="NAMES")
    parser.add_argument("--one", nargs=3, metavar=("CLIENT", "BOOTSTRAP", "TOPIC"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, bootstrap, topic = options.one
        print(json.dumps(CLIENTS[name][0](bootstrap, topic, options.records)))
        return
    # Where this file runs alone, the tests' servers are found from the project's root.
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import trio

    from ottla.client import Admin, Cluster
    from tests.peers.ottla import Brokers

    async def create(bootstrap: str, topic: str) -> None:
        async with Cluster(bootstrap) as cluster:
            await Admin(cluster).create_topic(topic, PARTITIONS)

    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder, Brokers(Path(folder)) as brokers:
        broker = brokers()
        for turn in range(options.rounds):
            for name in options.only:
                records = int(options.records * CLIENTS[name][1])
                topic = f"{name}-{turn}"
                trio.run(create, broker.bootstrap, topic)
                command = [sys.executable, __file__, "--records", str(records), "--one", name, broker.bootstrap, topic]
                seconds, cpu = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
                found.setdefault(name, []).append((records / seconds, cpu / records * 1e6))
    print(f"{'client':<18}{'records/s':>12}{'CPU us/record':>16}")
    for name, runs in found.items():
        print(f"{name:<18}{max(run[0] for run in runs):>12,.0f}{min(run[1] for run in runs):>16.2f}")
    if "ottla" in found:
        best = max(run[0] for run in found["ottla"])
        print(f"ottla: {best:,.0f} records/s, {'reaches' if best >= TARGET else 'misses'} {TARGET:,}")


if __name__ == "__main__":
    main()
