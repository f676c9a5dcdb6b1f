"""`make demo`, its second part: pipelines on real data, through a broker, with a picture of each result.

    python -m ottla.pipelines.demo.three --data DIRECTORY

The directory has `web_access.log`, web requests in the combined format, and `nginx_ops.jsonl`, status snapshots of
NGINX Plus.
"""

import tempfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
import trio

from ottla.client import Admin, Cluster, Producer
from ottla.pipelines.demo import broker, weblog
from ottla.pipelines.frame.catalog import find
from ottla.pipelines.frame.config import parse
from ottla.pipelines.frame.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG, SNAPSHOTS = "web_access.log", "nginx_ops.jsonl"
Records = Iterable[tuple[bytes, bytes, int]]

STREAM = """
picture = "{output}/{name}.png"
table = "{folder}/{name}/table"
format = "{format}"
{more}
[source]
bootstrap = "{bootstrap}"
topics = ["{topic}"]
[stream]
checkpoint = "{folder}/{name}/checkpoint"
late_s = {late_s}
"""
LOAD = """
picture = "{output}/{name}.png"
[source]
bootstrap = "{bootstrap}"
topics = ["web-requests"]
[table]
location = "{folder}/{name}/table"
values = "binary"
"""
# Name, configuration, and what is filled in.
PIPELINES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("warehouse_load", LOAD, {}),
    ("abuse_rate", STREAM, {"format": "access_log", "topic": "web-requests", "late_s": 3600, "more": ""}),
    ("sessionize", STREAM, {"format": "access_log", "topic": "web-requests", "late_s": 3600, "more": ""}),
    (
        "ops_monitoring",
        STREAM,
        {
            "format": "nginx_plus",
            "topic": "server-status",
            "late_s": 60,
            "more": 'alerts_table = "{folder}/ops_monitoring/alerts"\n[limits]\nno_data_s = 300\n',
        },
    ),
)


def requests(file: Path) -> Iterator[tuple[bytes, bytes, int]]:
    """Address, line and time in milliseconds of each web request of a log."""
    for line in weblog.read(file):
        text = line.partition("[")[2].partition("]")[0]
        time = datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z")
        yield line.partition(" ")[0].encode(), line.encode("utf-8", "surrogateescape"), round(time.timestamp() * 1000)


def snapshots(file: Path) -> Iterator[tuple[bytes, bytes, int]]:
    """Address, JSON and time of each snapshot."""
    for line in file.read_bytes().splitlines():
        snapshot = msgspec.json.decode(line)
        yield snapshot["address"].encode(), line, snapshot["timestamp"]


def produce(bootstrap: str, topic: str, records: Records) -> None:
    """Into a topic that keeps old records, with the times that they have."""

    async def main() -> None:
        async with Cluster(bootstrap, client_id="ottla-demo") as cluster:
            await Admin(cluster).create_topic(topic, 4, 1, {"retention.ms": "-1"})
            async with Producer(cluster) as producer:
                for key, value, time_ms in records:
                    await producer.send(topic, value, key=key, timestamp_ms=time_ms)
                await producer.flush()

    trio.run(main)


def run(spark: "SparkSession", bootstrap: str, data: Path, folder: Path, output: Path) -> dict[str, str]:
    """Produces the data and runs the pipelines: what each says of its result. Pictures are in `output`."""
    produce(bootstrap, "web-requests", requests(data / LOG))
    produce(bootstrap, "server-status", snapshots(data / SNAPSHOTS))
    said = {}
    for name, text, filled in PIPELINES:
        pipeline = find(name)
        values = {"name": name, "bootstrap": bootstrap, "folder": folder, "output": output}
        more = {key: value.format(**values) if isinstance(value, str) else value for key, value in filled.items()}
        config = parse(text.format(**values, **more), pipeline.Config)
        progress = Progress(name)
        try:
            said[name] = str(pipeline.run(spark, config, progress))
        finally:
            progress.close()
        click.echo(f"✓ {name}: {said[name]} ({output}/{name}.png)")
    return said


@click.command()
@click.option("--data", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--output", default="demo-output", show_default=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--cores", type=click.IntRange(1), help="Cores for Spark; all unless given.")
def main(data: Path, output: Path, cores: int | None) -> None:
    """Runs pipelines on real web requests and server status."""
    from ottla.pipelines.demo.__main__ import quiet
    from ottla.spark import session

    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as name, broker.running(Path(name)) as bootstrap:
        folder = Path(name)
        with quiet(folder / "spark.log"):
            spark = session("ottla demo", cores=cores)
            spark.sparkContext.setLogLevel("ERROR")
        try:
            run(spark, bootstrap, data, folder, output)
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
