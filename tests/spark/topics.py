"""Topics with known contents for the Spark source, written once through our own client."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from ottla.client import Admin, Cluster, Producer, TopicPartition
from ottla.reading.segments import read_checkpoint
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BASE_MS = 1_700_000_000_000


@dataclass
class Topics:
    """Makes topics of `rows`, and readers of them from both sides."""

    bootstrap: str
    data: Path
    made: dict[str, dict[int, list[tuple[Any, ...]]]] = field(default_factory=dict)

    def make(
        self, name: str, counts: list[int], *, codec: str = "none", settings: dict[str, str] | None = None
    ) -> None:
        """A topic whose partition n has counts[n] records; made only once."""
        if name in self.made:
            return
        rows = {number: [_row(name, number, offset) for offset in range(count)] for number, count in enumerate(counts)}

        async def write() -> None:
            async with Cluster(self.bootstrap) as cluster:
                await Admin(cluster).create_topic(name, len(counts), 1, {"retention.ms": "-1"} | (settings or {}))
                await self._send(cluster, name, rows, codec)

        trio.run(write)
        self._until_checkpointed(name, counts)
        self.made[name] = rows

    def append(self, name: str, counts: list[int]) -> None:
        """That many records more in partition n, numbered on from those that are there; new partitions are made."""
        made = self.made[name]
        new = {
            number: [_row(name, number, offset) for offset in range(first, first + count)]
            for number, count in enumerate(counts)
            for first in [len(made.get(number, []))]
        }

        async def write() -> None:
            async with Cluster(self.bootstrap) as cluster:
                if len(counts) > len(made):
                    await Admin(cluster).create_partitions(name, len(counts))
                await self._send(cluster, name, new, "none")

        trio.run(write)
        for number, rows in new.items():
            made.setdefault(number, []).extend(rows)
        self._until_checkpointed(name, [len(rows) for rows in made.values()])

    async def _send(self, cluster: Cluster, name: str, rows: dict[int, list[tuple[Any, ...]]], codec: str) -> None:
        async with Producer(cluster, compression=codec, batch_bytes=20_000) as producer:
            for number, of in rows.items():
                for key, value, _, _, offset, _, _, headers in of:
                    await producer.send(
                        name,
                        value,
                        key=key,
                        headers=headers or (),
                        partition=number,
                        timestamp_ms=BASE_MS + offset,
                    )

    def _until_checkpointed(self, name: str, counts: list[int]) -> None:
        def is_written() -> bool:
            marks = read_checkpoint(self.data / "replication-offset-checkpoint")
            return all(marks.get(TopicPartition(name, number), 0) == count for number, count in enumerate(counts))

        eventually(f"the broker writes the high watermarks of {name}", is_written)

    def rows(self, name: str, *, headers: bool = False) -> list[tuple[Any, ...]]:
        """All rows of a topic as Spark should show them, in the order of partition and offset."""
        width = 8 if headers else 7
        return [row[:width] for of in self.made[name].values() for row in of]

    def read(self, spark: "SparkSession", side: str, **options: object) -> "DataFrame":
        """A DataFrame of the source, from "brokers" or from the "path"."""
        return self._load(spark.read.format("ottla"), side, options)

    def stream(self, spark: "SparkSession", side: str, **options: object) -> "DataFrame":
        """A streaming DataFrame of the source, from "brokers" or from the "path"."""
        return self._load(spark.readStream.format("ottla"), side, options)

    def _load(self, reader: Any, side: str, options: dict[str, object]) -> "DataFrame":
        here = ("kafka.bootstrap.servers", self.bootstrap) if side == "brokers" else ("path", str(self.data))
        for name, value in (here, *options.items()):
            reader = reader.option(name, str(value))
        found: DataFrame = reader.load()
        return found


def _row(topic: str, partition: int, offset: int) -> tuple[Any, ...]:
    key = None if offset % 3 == 0 else b"key %d" % (offset % 100)
    value = None if offset % 50 == 1 else b"%d:%d " % (partition, offset) * (offset % 7)
    headers = [("one", b"1"), ("two", None)] if offset % 10 == 0 else None
    time = datetime.fromtimestamp((BASE_MS + offset) / 1000, UTC).replace(tzinfo=None)
    return (key, value, topic, partition, offset, time, 0, headers)


def collected(frame: "DataFrame") -> list[tuple[Any, ...]]:
    """A DataFrame's rows as plain values, in the order of partition and offset."""
    rows = frame.orderBy("partition", "offset").collect()
    return [
        tuple(
            [tuple(pair) for pair in value] if name == "headers" and value is not None
            else bytes(value) if isinstance(value, bytearray)
            else value
            for name, value in row.asDict().items()
        )
        for row in rows
    ]  # fmt: skip
