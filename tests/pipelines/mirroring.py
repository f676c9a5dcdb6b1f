"""Records of every kind in two clusters that mirror each other, and what each has to have in the end."""

from collections import defaultdict
from typing import Any

import trio

from ottla.client import Cluster, Producer
from ottla.pipelines.generator.activity import chunks
from ottla.pipelines.generator.lines import lines
from ottla.pipelines.generator.output import ensure_topic
from ottla.pipelines.generator.settings import Settings
from tests.spark.committed import messages

THERE = """
source_name = "east"
target_name = "west"
picture = "{folder}/{name}/mirror.png"
[source]
bootstrap = "{east}"
topics = ["orders"]
[target]
bootstrap = "{west}"
[stream]
checkpoint = "{folder}/{name}/checkpoint"
records_per_batch = {batch}
"""
BACK = """
source_name = "west"
target_name = "east"
where = "text not like '%secret%'"
value = "regexp_replace(text, 'token=[0-9]+', 'token=x')"
picture = "{folder}/{name}/mirror.png"
[source]
bootstrap = "{west}"
topics = ["orders"]
[target]
bootstrap = "{east}"
[stream]
checkpoint = "{folder}/{name}/checkpoint"
records_per_batch = {batch}
"""
PARTITIONS = 3
HEADER = "ottla.mirror.from"

# Key, value, time and headers.
Record = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]


class Mirrors:
    """`east` and `west` have, by partition, what was produced there."""

    def __init__(self, settings: Settings) -> None:
        self.east: dict[int, list[Record]] = defaultdict(list)
        self.west: dict[int, list[Record]] = defaultdict(list)
        number = 0
        for chunk in chunks(settings):
            for key, value, time_ms in lines(settings, chunk):
                number += 1
                headers: list[tuple[str, bytes | None]] = []
                if number % 3 == 0:
                    headers = [("trace", b"%d" % number), ("trace", b""), ("empty", None)]
                self.east[number * 7 % 11 % PARTITIONS].append(
                    (None if number % 13 == 0 else key, None if number % 50 == 0 else value, time_ms, headers)
                )
        for number in range(999):
            text = b"token=%d %s" % (number, b"secret" if number % 4 == 0 else b"plain")
            self.west[number % PARTITIONS].append((b"w%d" % number, text, settings.start_ms + number, []))

    async def produce(self, bootstrap: str, records: dict[int, list[Record]]) -> None:
        async with Cluster(bootstrap) as cluster:
            await ensure_topic(cluster, "orders", PARTITIONS)
            async with Producer(cluster, linger_ms=50, batch_bytes=256 * 1024) as producer:
                for partition, of in records.items():
                    for key, value, time_ms, headers in of:
                        await producer.send(
                            "orders", value, key=key, timestamp_ms=time_ms, headers=headers, partition=partition
                        )
                await producer.flush()

    def begin(self, east: str, west: str) -> None:
        trio.run(self.produce, east, self.east)
        trio.run(self.produce, west, self.west)

    def check(self, east: str, west: str) -> None:
        """Each cluster has its own records, and behind them, in their order, those that came from the other."""
        copies: dict[int, list[Record]] = {
            partition: [(key, value, time_ms, [*headers, (HEADER, b"east")]) for key, value, time_ms, headers in of]
            for partition, of in self.east.items()
        }
        back: dict[int, list[Record]] = {
            partition: [
                (key, b"token=x plain", time_ms, [(HEADER, b"west")])
                for key, value, time_ms, _ in of
                if value is not None and b"secret" not in value
            ]
            for partition, of in self.west.items()
        }
        assert sum(map(len, back.values())) > 700
        for bootstrap, own, others in ((west, self.west, copies), (east, self.east, back)):
            found: dict[int, list[Any]] = defaultdict(list)
            for message in messages(bootstrap, "orders"):
                record = (message.key(), message.value(), message.timestamp()[1], message.headers() or [])
                found[message.partition()].append(record)
            assert found.keys() == own.keys()
            for partition, records in found.items():
                expected = [*own[partition], *others[partition]]
                assert len(records) == len(expected)
                wrong = next((pair for pair in zip(records, expected, strict=True) if pair[0] != pair[1]), None)
                assert wrong is None, wrong
