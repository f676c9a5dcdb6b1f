"""The audit of tables of other kinds, and a mirror whose target has another number of partitions."""

from collections import defaultdict
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka as ck
import pytest
import trio
from pyarrow import dataset, parquet

from ottla.client import Cluster, Producer
from ottla.pipelines import audit, mirror_transform
from ottla.pipelines.audit.report import Audited
from ottla.pipelines.audit.warehouse import Warehouse
from ottla.pipelines.frame.config import parse
from ottla.pipelines.frame.progress import Progress
from ottla.pipelines.generator.output import ensure_topic
from ottla.pipelines.tables.table import Format
from tests.peers.ottla import Broker
from tests.pipelines.auditing import load
from tests.spark.committed import messages
from tests.support.lanes import judged_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
START_MS = 1_431_853_200_000
HOUR_MS = 3_600_000
RECORDS = 600
AUDIT = """
table = "{folder}/report-{number}"
window_s = 3600
span_s = 86400
id = ""
[source]
bootstrap = "{bootstrap}"
topics = ["audited-{form}"]
[tallies]
bootstrap = "{bootstrap}"
topics = ["tallies-{form}"]
[warehouse]
location = "{folder}/warehouse"
format = "{form}"
"""
MIRROR = """
source_name = "three"
target_name = "five"
rename = "{{topic}}.copy"
partitioning = "key"
[source]
bootstrap = "{bootstrap}"
topics = ["keyed"]
[target]
bootstrap = "{bootstrap}"
partitions = 5
[stream]
checkpoint = "{folder}/checkpoint"
records_per_batch = 700
"""


@pytest.mark.parametrize("form", judged_by(["delta", "iceberg"], ["iceberg"]))
def test_what_is_missing_from_a_table(spark: "SparkSession", broker: Broker, tmp_path: Path, form: Format) -> None:
    async def produce() -> None:
        tally = audit.Tally("web", window_s=HOUR_MS // 1000)
        async with Cluster(broker.bootstrap) as cluster:
            await ensure_topic(cluster, f"audited-{form}", 2)
            await ensure_topic(cluster, f"tallies-{form}", 1)
            async with Producer(cluster, linger_ms=50) as producer:
                for number in range(RECORDS):
                    time_ms, value = START_MS + number * 4 * HOUR_MS // RECORDS, b"record %d" % number
                    tally.add(f"audited-{form}", value, time_ms)
                    await producer.send(f"audited-{form}", value, timestamp_ms=time_ms, partition=number % 2)
                for key, value in tally.take():
                    await producer.send(f"tallies-{form}", value, key=key)
                await producer.flush()

    def audited(number: int) -> Audited:
        text = AUDIT.format(folder=tmp_path, bootstrap=broker.bootstrap, form=form, number=number)
        return audit.run(spark, parse(text, audit.Config), Progress("audit", StringIO()))

    trio.run(produce)
    load(tmp_path / "warehouse", broker.bootstrap, f"audited-{form}", has_json=False, form=form)
    whole = audited(1).totals
    assert (whole["produced"], whole["broker"], whole["warehouse"]) == (RECORDS, RECORDS, RECORDS)
    assert whole["warehouse_missing"] == whole["warehouse_double"] == whole["warehouse_foreign"] == 0

    file = Path(Warehouse(str(tmp_path / "warehouse"), form).look([]).files[0].removeprefix("file://"))
    lost = parquet.ParquetFile(file).metadata.num_rows
    hour = next(int(part.removeprefix("hour=")) for part in file.parts if part.startswith("hour="))
    file.unlink()
    spoilt = audited(2).totals
    assert spoilt["warehouse_missing"] == lost > 0
    assert spoilt["warehouse"] == RECORDS - lost
    rows = dataset.dataset(tmp_path / "report-2").to_table().to_pylist()
    assert [row["start"].hour for row in rows if row["warehouse_missing"]] == [hour]


@pytest.mark.judge
def test_keys_keep_their_order_in_more_partitions(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    records = [(b"key-%d" % (number * 7 % 41), b"%d" % number) for number in range(2000)]
    theirs = ck.Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})

    async def topics() -> None:
        async with Cluster(broker.bootstrap) as cluster:
            await ensure_topic(cluster, "keyed", 3)
            await ensure_topic(cluster, "keyed.theirs", 5)

    trio.run(topics)
    for key, value in records:
        theirs.produce("keyed", value, key)
        theirs.produce("keyed.theirs", value, key)
    assert not theirs.flush(30)

    config = parse(MIRROR.format(folder=tmp_path, bootstrap=broker.bootstrap), mirror_transform.Config)
    mirrored = mirror_transform.run(spark, config, Progress("mirror", StringIO()))
    assert mirrored.copied == len(records)
    assert len(mirrored.batches) >= 3
    assert by_key(broker.bootstrap, "keyed.copy") == by_key(broker.bootstrap, "keyed.theirs")


def by_key(bootstrap: str, topic: str) -> dict[object, list[tuple[object, object]]]:
    """The partition and value of each of a key's records, in order."""
    found: dict[object, list[tuple[object, object]]] = defaultdict(list)
    for message in sorted(messages(bootstrap, topic), key=lambda each: (each.partition(), each.offset())):
        found[message.key()].append((message.partition(), message.value()))
    return found
