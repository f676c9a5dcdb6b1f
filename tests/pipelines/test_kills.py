"""Pipelines over generated activity, killed while a batch is in flight, restarted, and their whole output compared.

One driver runs several of them at once, since a JVM costs eight seconds to start.
"""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trio
from pyarrow import dataset

from ottla.client import Cluster, Consumer, TopicPartition
from ottla.kafka import EARLIEST
from ottla.pipelines.generator.answers import Answers
from ottla.pipelines.generator.output import to_topic
from ottla.pipelines.generator.settings import HOUR_MS, Settings
from tests.peers.ottla import Brokers
from tests.peers.skips import require
from tests.pipelines.killing import Drivers

pytestmark = pytest.mark.spark
SETTINGS = Settings(events=100_000, seed=11)
FEWER = Settings(events=30_000, seed=11)
#: The gate has fewer events, and batches: a batch takes as long with ten times as many records.
LARGE, SMALL = 15_000, 10_000
TABLES = ("parquet", "delta", "iceberg")
STREAMS = ("rates", "clients", "visits", "services")
#: Of them in the gate: one with two tables and a topic.
SOME = ("services",)


WAREHOUSE = """
[source]
bootstrap = "{bootstrap}"
topics = ["activity"]
[table]
location = "{folder}/{name}"
format = "{name}"
[load]
records_per_batch = {batch}
"""

STREAM = """
table = "{folder}/{name}/table"
[source]
bootstrap = "{bootstrap}"
topics = ["activity"]
[stream]
checkpoint = "{folder}/{name}/checkpoint"
records_per_batch = {batch}
late_s = 1800
"""
TOPIC = """
[{name}]
bootstrap = "{{bootstrap}}"
topic = "{name}"
"""
OPS = (
    """
alerts_table = "{folder}/{name}/alerts"
window_s = 600
"""
    + STREAM
)
# Loads are much quicker than streams, and begin when those are on their way.
CONFIGURATIONS = {
    "rates": ("relevance_counts", STREAM + TOPIC.format(name="rates")),
    "clients": ("abuse_rate", STREAM + TOPIC.format(name="verdicts")),
    "visits": ("sessionize", STREAM),
    "services": ("ops_monitoring", OPS + TOPIC.format(name="alerts")),
    "parquet": ("warehouse_load", WAREHOUSE),
    "delta": ("warehouse_load", WAREHOUSE),
    "iceberg": ("warehouse_load", WAREHOUSE),
}
# Seven times as many events a day: the busiest people ask as often as crawlers do otherwise.
BUSIER = """
[limits]
per_10_s = 40
per_minute = 120
per_hour = 2800
"""
LATE_MS = 1_800_000
PAGES_ERROR_MAX = 0.05


@pytest.fixture(autouse=True)
def _packages() -> None:
    for name in ("pyspark", "deltalake", "pyiceberg"):
        try:
            __import__(name)
        except ImportError:
            require("spark", f"{name} is not installed")


@pytest.mark.parametrize(
    ("names", "settings", "batch", "kills"),
    [
        pytest.param(SOME, FEWER, LARGE, [1], id="some"),
        pytest.param(TABLES, SETTINGS, SMALL, [3, 7], id="loads", marks=pytest.mark.judge),
        pytest.param(STREAMS, SETTINGS, SMALL, [3, 7], id="streams", marks=pytest.mark.judge),
    ],
)
def test_killed(names: Sequence[str], settings: Settings, batch: int, kills: list[int], tmp_path: Path) -> None:
    """Drivers are killed in these batches, one after the other."""
    run(tmp_path, names, settings, batch, kills=kills)


@pytest.mark.soak
@pytest.mark.parametrize("names", [TABLES, STREAMS], ids=["loads", "streams"])
def test_killed_with_five_million_events(tmp_path: Path, names: Sequence[str]) -> None:
    settings = Settings(events=5_000_000, seed=12, span_ms=7 * 24 * HOUR_MS)
    run(tmp_path, names, settings, 400_000, kills=[3, 6, 9], heap="4g", limits=BUSIER)


def run(
    folder: Path,
    names: Sequence[str],
    settings: Settings,
    batch: int,
    kills: list[int],
    heap: str | None = None,
    limits: str = "",
) -> None:
    answers = Answers(settings)
    with Brokers(folder) as brokers:
        broker = brokers()

        async def generate() -> None:
            async with Cluster(broker.bootstrap) as cluster:
                await to_topic(settings, cluster, "activity", partitions=4, seen=answers.add)

        trio.run(generate)
        pipelines = []
        for name in names:
            pipeline, text = CONFIGURATIONS[name]
            file = folder / f"{name}.toml"
            text = text.format(bootstrap=broker.bootstrap, folder=folder, name=name, batch=batch)
            text += limits if pipeline == "abuse_rate" else ""
            file.write_text(text)
            pipelines.append((pipeline, file))
        drivers = Drivers(pipelines, folder / "driver.log", heap)
        are_streams = set(names) <= set(STREAMS)
        for batch_number in kills:
            drivers.run(kill_in=batch_number, held=are_streams)
            # Each stream is in the middle of a batch; of the loads all but one that has just done its own may be.
            assert drivers.killed_in.keys() >= (set(names) if are_streams else set()), drivers.killed_in
            assert drivers.killed_in
        drivers.run()
        assert drivers.finished == set(names)
        for name in names:
            done = "_offsets/*.json" if name == "parquet" else "checkpoint/commits/[0-9]*"
            if name not in ("delta", "iceberg"):
                assert len(list((folder / name).glob(done))) >= settings.events // batch
        if set(TABLES) <= set(names):
            check_warehouse(folder, answers)
        if "visits" in names:
            check_visits(folder, answers)
        if "clients" in names:
            check_clients(folder, answers, broker.bootstrap)
        if "services" in names:
            check_services(folder, answers, broker.bootstrap)
        if "rates" in names:
            check_rates(folder, answers, broker.bootstrap)


def check_warehouse(folder: Path, answers: Answers) -> None:
    """Each record once, in its hour, and the offsets behind the last."""
    from deltalake import DeltaTable

    from ottla.pipelines.tables.iceberg import NAME, Iceberg
    from ottla.pipelines.tables.manifest import Manifest

    ids = Counter(answers.column("id").tolist())
    columns = ["id", "type", "_partition", "_offset"]
    plain = dataset.dataset(folder / "parquet", partitioning="hive").to_table(columns=[*columns, "date", "hour"])
    delta = DeltaTable(folder / "delta").to_pyarrow_table(columns=[*columns, "date", "hour"])
    iceberg = Iceberg(folder / "iceberg").catalog.load_table(NAME).scan(selected_fields=tuple(columns)).to_arrow()
    for table in (plain, delta, iceberg):
        assert Counter(table["id"].to_pylist()) == ids
        assert len(set(zip(*(table[name].to_pylist() for name in columns[2:]), strict=True))) == answers.records()
    for table in (plain, delta):
        hours = zip(table["date"].to_pylist(), table["hour"].to_pylist(), strict=True)
        assert Counter(f"{date} {hour:02}" for date, hour in hours) == answers.records_of_hours()
    schema = Manifest(folder / "parquet").schema()
    assert schema is not None
    assert schema.field("referrer").type == pa.string(), "a column that the producers' newer version brought"


def results(folder: Path) -> list[dict[str, Any]]:
    """All rows of a stream's table, read by somebody who knows nothing of us; times in milliseconds."""
    rows: list[dict[str, Any]] = dataset.dataset(folder / "table").to_table().to_pylist()
    return [
        {name: round(cell.timestamp() * 1000) if isinstance(cell, datetime) else cell for name, cell in row.items()}
        for row in rows
    ]


def check_visits(folder: Path, answers: Answers) -> None:
    """All visits that were over, each once, with late events in them and duplicates not."""
    rows = results(folder / "visits")
    found = {(row["client"], row["start"]): (row["end"], row["events"]) for row in rows}
    assert len(found) == len(rows) > 1000
    assert found == answers.visits(gap_ms=1_800_000, over_by_ms=answers.watermark_ms(LATE_MS))


def check_clients(folder: Path, answers: Answers, bootstrap: str) -> None:
    """The rates of each client and hour, and who the crawlers are: those that the generator calls so."""
    rows = results(folder / "clients")
    columns = ("requests", "peak_minute", "peak_10_s", "pages")
    found = {(row["client"], row["start"]): tuple(row[name] for name in columns) for row in rows}
    assert len(found) == len(rows) > 1000
    expected = answers.rates(over_by_ms=answers.watermark_ms(LATE_MS))
    assert {key: counts[:3] for key, counts in found.items()} == {key: counts[:3] for key, counts in expected.items()}
    assert all(abs(found[key][3] - pages) <= PAGES_ERROR_MAX * pages for key, (*_, pages) in expected.items())
    crawlers = {row["client"] for row in rows if row["verdict"] == "crawler"}
    assert crawlers == answers.crawlers()
    told = consumed(bootstrap, "verdicts")
    judged = {(row["client"], row["start"] // 1000) for row in rows if row["verdict"] != "normal"}
    assert Counter((verdict["client"], verdict["start"]) for verdict in told) == Counter(judged)


def check_services(folder: Path, answers: Answers, bootstrap: str) -> None:
    """Counts and percentiles of each window; and the bad spell of one service, which the generator has put there."""
    rows = results(folder / "services")
    columns = ("requests", "errors", "p50_ms", "p99_ms")
    found = {(row["service"], row["start"]): tuple(row[name] for name in columns) for row in rows}
    assert len(found) == len(rows) > 100
    assert found == answers.services(600_000, over_by_ms=answers.watermark_ms(LATE_MS))
    alerts = dataset.dataset(folder / "services" / "alerts").to_table().to_pylist()
    told = [(alert["service"], alert["start"], alert["kind"]) for alert in alerts]
    assert len(told) == len(set(told))
    sent = consumed(bootstrap, "alerts")
    assert Counter(
        (alert["service"], datetime.fromisoformat(alert["start"]), alert["kind"]) for alert in sent
    ) == Counter(told)
    bad = {service for service, _, kind in told if kind == "slow"}
    assert bad == {"web-2"}


def check_rates(folder: Path, answers: Answers, bootstrap: str) -> None:
    """Impressions and clicks of each item and hour that no click can be added to any more."""
    rows = results(folder / "rates")
    found = {(row["item"], row["start"]): (row["impressions"], row["clicks"]) for row in rows}
    assert len(found) == len(rows) > 1000
    expected = answers.rates_of_items(HOUR_MS, 600_000)
    over = answers.watermark_ms(LATE_MS) - 600_000 - HOUR_MS
    assert all(expected[key] == counts for key, counts in found.items())
    assert found.keys() >= {(item, start) for item, start in expected if start + HOUR_MS <= over}
    assert sum(clicks for _, clicks in found.values()) > 1000
    sent = Counter(
        (row["item"], row["start"] * 1000, row["impressions"], row["clicks"]) for row in consumed(bootstrap, "rates")
    )
    assert sent == Counter((*key, *counts) for key, counts in found.items())


def consumed(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """All values of a topic that are committed."""
    found: list[dict[str, Any]] = []

    async def main() -> None:
        async with Cluster(bootstrap) as cluster:
            consumer = Consumer(cluster, read_committed=True)
            await consumer.assign(
                {TopicPartition(topic, number): EARLIEST for number in await cluster.partitions(topic)}
            )
            ends = await consumer.ends()
            while any(consumer.positions[partition] < end for partition, end in ends.items()):
                found.extend(json.loads(record.value or b"{}") for record in await consumer.poll())

    trio.run(main)
    return found
