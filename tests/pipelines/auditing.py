"""Activity of which some is lost, doubled and invented on its way, and what an audit has to say about it."""

import base64
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyarrow import dataset, parquet

from ottla.client import Cluster, Producer
from ottla.pipelines.audit import Tally
from ottla.pipelines.frame.config import Source
from ottla.pipelines.generator.activity import SERVICES, chunks
from ottla.pipelines.generator.lines import lines
from ottla.pipelines.generator.output import ensure_topic
from ottla.pipelines.generator.settings import HOUR_MS, Settings
from ottla.pipelines.tables import Position, open_table
from ottla.pipelines.tables.arrow import merged
from ottla.pipelines.tables.table import Format
from ottla.pipelines.warehouse_load import tasks
from ottla.spark.filters import Wanted
from ottla.spark.options import parse
from ottla.spark.places import place

WINDOW_MS = 600_000
COLUMNS = (
    "produced", "broker", "broker_missing", "broker_double", "broker_foreign", "broker_swapped",
    "warehouse", "warehouse_missing", "warehouse_double", "warehouse_foreign",
)  # fmt: skip
CONFIGURATION = """
table = "{folder}/{name}/report"
window_s = 600
span_s = {span_s}
producer = "service"
picture = "{folder}/{name}/audit.png"
[source]
bootstrap = "{bootstrap}"
topics = ["produced"]
[tallies]
bootstrap = "{bootstrap}"
topics = ["tallies"]
[warehouse]
location = "{folder}/{name}/warehouse"
"""
# A record: its id, its service and the window it belongs to.
Record = tuple[int, str, int]


def load(table: Path, bootstrap: str, topic: str, *, has_json: bool, form: Format = "parquet") -> None:
    """Loads a topic as a task of a load does, without Spark."""
    source = Source(topics=(topic,), bootstrap=bootstrap)
    options = parse(source.reading())
    ranges = place(options).resolve(options, Wanted())
    warehouse = open_table(form, table)
    no_columns = base64.b64encode(pa.schema([]).serialize().to_pybytes()).decode()
    job = tasks.Job(
        reading=source.reading(),
        ranges=ranges,
        location=str(table),
        prefix=warehouse.staged_prefix,
        epoch=1,
        has_json=has_json,
        has_topic=warehouse.has_topic_column,
        compression="zstd",
        columns=no_columns,
    )
    found = list(tasks.write(job, 0, ranges))
    position = Position(1, {each.partition: each.end for each in ranges})
    warehouse.commit(position, [file for file, _ in found], merged(None, [schema for _, schema in found]))


class Audit:
    """The count of each record: how often it was meant, is in the log and is in the warehouse."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.produced: set[Record] = set()
        self.logged: Counter[Record] = Counter()
        self.loaded: Counter[Record] = Counter()

    def _window(self, time_ms: int) -> int:
        return time_ms // WINDOW_MS * WINDOW_MS

    def _is_lost(self, number: int, service: str, time_ms: int) -> bool:
        hour = (time_ms - self.settings.start_ms) // HOUR_MS
        return service == "web-2" and 6 <= hour < 8 and number % 7 == 0

    def _sent(self, tallies: dict[str, Tally]) -> Iterator[tuple[bytes, bytes, int]]:
        """The records that reach the log, and the rest of the truth."""
        swapped = strange = False
        strange_ms = self.settings.start_ms + 10 * HOUR_MS
        for chunk in chunks(self.settings):
            columns = (chunk.id.tolist(), chunk.service.tolist(), lines(self.settings, chunk))
            for number, index, (key, value, time_ms) in zip(*columns, strict=True):
                if not strange and time_ms >= strange_ms:
                    strange = True
                    yield from self._strangers(strange_ms)
                service = SERVICES[index]
                record = (number, service, self._window(time_ms))
                if record not in self.produced:
                    self.produced.add(record)
                    tallies[service].add("produced", b"%d" % number, time_ms)
                if self._is_lost(number, service, time_ms):
                    continue
                if not swapped and service == "web-3" and number > 5000:
                    # Another one arrives in its place.
                    swapped, number = True, -number
                    value = value.replace(b'{"id":', b'{"id":-', 1)
                    record = (number, *record[1:])
                for _ in range(2 if number % 101 == 0 else 1):
                    self.logged[record] += 1
                    yield key, value, time_ms

    def _strangers(self, time_ms: int) -> Iterator[tuple[bytes, bytes, int]]:
        for number in range(5):
            record = (-1_000_000_000 - number, "web-1", self._window(time_ms))
            self.logged[record] += 1
            value = b'{"id":%d,"type":"page_view","time":%d,"service":"web-1"}' % (record[0], time_ms)
            yield b"stranger", value, time_ms

    async def produce(self, bootstrap: str) -> None:
        """Produces all of it, with the tallies."""
        tallies = {service: Tally(service) for service in SERVICES}
        async with Cluster(bootstrap) as cluster:
            await ensure_topic(cluster, "produced", 4)
            await ensure_topic(cluster, "tallies", 1)
            async with Producer(cluster, linger_ms=50, batch_bytes=512 * 1024) as producer:
                for key, value, time_ms in self._sent(tallies):
                    await producer.send("produced", value, key=key, timestamp_ms=time_ms)
                for tally in tallies.values():
                    messages = list(tally.take())
                    for key, value in [*messages, messages[0]]:
                        await producer.send("tallies", value, key=key)
                await producer.flush()

    def load(self, table: Path, bootstrap: str) -> None:
        """Loads the warehouse, and spoils it."""
        load(table, bootstrap, "produced", has_json=True)
        files = sorted((table / "topic=produced").rglob("*.parquet"))
        files[3].unlink()
        twice = parquet.ParquetFile(files[5]).read()
        parquet.write_table(pa.concat_tables([twice, twice.slice(0, 20)]), files[5])
        other = parquet.ParquetFile(files[9]).read()
        column = other.schema.get_field_index("id")
        ids = pa.array([-2_000_000_000 - row if row < 3 else each for row, each in enumerate(other["id"].to_pylist())])
        parquet.write_table(other.set_column(column, "id", ids), files[9])
        rows = dataset.dataset(table / "topic=produced").to_table(columns=["id", "service", "_timestamp"])
        for number, service, time in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            self.loaded[number, service, self._window(round(time.timestamp() * 1000))] += 1

    def expected(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """The report's counts by service and window."""
        of: dict[tuple[str, int], list[Record]] = defaultdict(list)
        for record in self.produced | self.logged.keys() | self.loaded.keys():
            of[record[1:]].append(record)
        found = {}
        for window, records in of.items():
            meant = {record for record in records if record in self.produced}
            arrived = {record for record in records if self.logged[record]}
            more = {record: self.loaded[record] - self.logged[record] for record in records}
            found[window] = (
                len(meant),
                sum(self.logged[record] for record in records),
                max(0, len(meant) - len(arrived)),
                sum(self.logged[record] for record in records) - len(arrived),
                max(0, len(arrived) - len(meant)),
                len(meant) == len(arrived) and meant != arrived,
                sum(self.loaded[record] for record in records),
                -sum(count for count in more.values() if count < 0),
                sum(count for record, count in more.items() if count > 0 and self.logged[record]),
                sum(count for record, count in more.items() if count > 0 and not self.logged[record]),
            )
        return found

    def check(self, report: Path, spans_min: int) -> None:
        """Each window of each service, as somebody reads it who knows nothing of us."""
        assert len(list(report.glob("span-*.parquet"))) >= spans_min
        rows = dataset.dataset(report).to_table().to_pylist()
        assert {row["start"].tzinfo is not None for row in rows} == {True}
        found = {
            (row["producer"], round(row["start"].astimezone(UTC).timestamp() * 1000)): tuple(
                row[name] for name in COLUMNS
            )
            for row in rows
        }
        expected = self.expected()
        assert len(found) == len(rows) > 500
        assert found == expected
        sums = dict(zip(COLUMNS, map(sum, zip(*expected.values(), strict=True)), strict=True))
        assert sums["produced"] > 0.98 * self.settings.events
        assert all(sums[name] > 0 for name in COLUMNS), f"{json.dumps(sums)}: each kind of harm was done"
        assert sums["broker_swapped"] == 1
        bad = {datetime.fromtimestamp(start / 1000, UTC).hour for (_, start), row in expected.items() if row[2]}
        assert bad == {6, 7}
