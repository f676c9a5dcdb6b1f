"""Lines into a topic, keyed by the address in front, as fast as the client can.

The client is confluent-kafka where it is installed, so that the demonstration shows somebody else's client at work;
without it, our own.
"""

from collections.abc import Callable, Sequence
from typing import Any

import trio

from ottla.client import Admin, Cluster, Producer

# Large batches and a queue that does not run dry between two looks at it.
LINGER_MS = 50
BATCH_BYTES = 1 << 20
QUEUE_RECORDS = 400_000
PROGRESS_RECORDS = 20_000

Progress = Callable[[int], object]


class ProduceFailed(Exception):
    """Not every record was acknowledged."""


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Creates the topic and waits until it has leaders."""

    async def create() -> None:
        async with Cluster(bootstrap) as cluster:
            await Admin(cluster).create_topic(topic, partitions=partitions, replicas=1)

    trio.run(create)


def produce(bootstrap: str, topic: str, lines: Sequence[str], repeat: int, progress: Progress) -> str:
    """Produces all lines `repeat` times, acknowledged; tells `progress` about records as they are handed over.

    Returns the name of the client. Raises `ProduceFailed` unless each record was acknowledged.
    """
    records = [(line.partition(" ")[0].encode(), line.encode("utf-8", "surrogateescape")) for line in lines]
    try:
        import confluent_kafka
    except ImportError:
        trio.run(_with_our_client, bootstrap, topic, records, repeat, progress)
        return "ottla's own client"
    _with_confluent(confluent_kafka, bootstrap, topic, records, repeat, progress)
    return f"confluent-kafka {confluent_kafka.__version__}"


def _with_confluent(
    module: Any, bootstrap: str, topic: str, records: Sequence[tuple[bytes, bytes]], repeat: int, progress: Progress
) -> None:
    failures: list[str] = []

    def delivered(error: Any, _: Any) -> None:
        failures.append(str(error))

    producer = module.Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "ottla-demo",
            "acks": "all",
            "partitioner": "murmur2_random",
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": QUEUE_RECORDS,
            "queue.buffering.max.kbytes": 512 * 1024,
            # Only failures call back into Python: three million successes would cost more than the sending.
            "delivery.report.only.error": True,
            "on_delivery": delivered,
        }
    )
    handed = 0
    for _ in range(repeat):
        for key, value in records:
            while True:
                try:
                    producer.produce(topic, value, key)
                    break
                except BufferError:
                    producer.poll(0.05)
            handed += 1
            if handed % PROGRESS_RECORDS == 0:
                progress(PROGRESS_RECORDS)
                producer.poll(0)
                if failures:
                    raise ProduceFailed(failures[0])
    left = producer.flush(120)
    progress(handed % PROGRESS_RECORDS)
    if failures or left:
        raise ProduceFailed(failures[0] if failures else f"{left} records were not acknowledged within two minutes")


async def _with_our_client(
    bootstrap: str, topic: str, records: Sequence[tuple[bytes, bytes]], repeat: int, progress: Progress
) -> None:
    async with (
        Cluster(bootstrap, client_id="ottla-demo") as cluster,
        Producer(cluster, linger_ms=LINGER_MS) as producer,
    ):
        handed = 0
        for _ in range(repeat):
            for key, value in records:
                await producer.send(topic, value, key=key)
                handed += 1
                if handed % PROGRESS_RECORDS == 0:
                    progress(PROGRESS_RECORDS)
        await producer.flush()
        progress(handed % PROGRESS_RECORDS)
