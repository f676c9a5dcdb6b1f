"""How long a record is on its way through a stream: from its append to a topic until a reader of committed records sees
what the exactly-once sink made of it in another one. Records have the time at which they were sent as their value.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ottla.client import LATEST, Admin, Cluster, Consumer, Producer, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PER_SECOND = 1_000
WARM_UP_S, MEASURED_S = 30, 30
LIMIT_S = 3 * (WARM_UP_S + MEASURED_S)
PARTITIONS = 4


def latencies(spark: "SparkSession", bootstrap: str, folder: Path, number: int = 1) -> tuple[float, float]:
    """Median and 99th percentile in seconds; `number` tells this time from others with the same broker."""
    sent, seen = f"sent-{number}", f"seen-{number}"

    async def create() -> None:
        async with Cluster(bootstrap) as cluster:
            for topic in (sent, seen):
                await Admin(cluster).create_topic(topic, PARTITIONS)

    trio.run(create)
    source = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap).option("subscribe", sent)
    query = (
        source.option("startingOffsets", "earliest")
        .load()
        .select("value")
        .writeStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", seen)
        .option("checkpointLocation", str(folder / f"latency-{number}"))
        .start()
    )
    try:
        found = sorted(trio.run(_through, bootstrap, sent, seen))
    finally:
        query.stop()
    return found[len(found) // 2], found[len(found) * 99 // 100]


async def _through(bootstrap: str, sent: str, seen: str) -> list[float]:
    found: list[float] = []
    begin = time.time() + WARM_UP_S
    end = begin + MEASURED_S

    # Connections of its own: a broker answers those of one connection in turn, and a consumer's requests wait there.
    async def send() -> None:
        async with Cluster(bootstrap) as cluster, Producer(cluster, linger_ms=2) as producer:
            number = 0
            start = time.time()
            while (now := time.time()) < end + 2:
                while number < (now - start) * PER_SECOND:
                    await producer.send(sent, b"%.6f" % time.time(), partition=number % PARTITIONS)
                    number += 1
                await trio.sleep(0.002)

    async with Cluster(bootstrap) as cluster, trio.open_nursery() as nursery:
        consumer = Consumer(cluster, read_committed=True, wait_ms=100)
        await consumer.assign({TopicPartition(seen, number): LATEST for number in range(PARTITIONS)})
        nursery.start_soon(send)
        last = 0.0
        nursery.cancel_scope.deadline = trio.current_time() + LIMIT_S
        while last < end:
            for record in await consumer.poll():
                last = float(record.value or b"0")
                if begin <= last < end:
                    found.append(time.time() - last)
    if not found:
        raise TimeoutError(f"no record of the first {WARM_UP_S + MEASURED_S} s was seen within {LIMIT_S} s")
    return found
