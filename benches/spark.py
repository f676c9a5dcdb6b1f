"""Spark with Ottla's source and sink beside Spark's own Kafka connector: `make bench-spark`, or
`python benches/spark.py [--only NAME,NAME] [--records N] [--out FOLDER] [--quick]`.

| name        | what                                                                                             |
|-------------|--------------------------------------------------------------------------------------------------|
| `count`     | count() of all seven columns, from a data directory (the connector's from a broker) and a broker |
| `warehouse` | `warehouse_load` from a directory, values as they are; the connector's Parquet write             |
| `write`     | cached rows to a topic in transactions; the connector's at least once                            |
| `sink`      | a stream of Parquet files to a topic, exactly once; the connector's at least once                |
| `stream`    | a stream into `noop`, 1 M rows per trigger                                                       |
| `latency`   | from append to visible, through a stream from topic to topic, exactly once, at 1,000/s           |
| `memory`    | the largest Python worker that reads, writes or loads a partition of 100 MB and of 1 GB          |

Records of 100 bytes (a key of 16), in four partitions, two cores. The connector reads the same topic in the same run,
in turns with ours; where its jars cannot be had, stored figures stand in, and the page says so. Each speed is the
median of some rounds after some to warm up. What is measured replaces its own part of docs/benchmarks/spark/.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from spark_cases import CASES, WRITTEN, Case, Place, Turns
from spark_connector import fetch
from spark_read import PARTITIONS, produce, write_directory
from spark_write import create

from ottla._core import DEBUG_BUILD
from ottla.pipelines.demo import broker
from ottla.spark import session

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benches.suite import report  # noqa: E402
from benches.suite.figures import Result  # noqa: E402
from benches.suite.machine import facts  # noqa: E402
from benches.suite.targets import SPARK  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = ROOT / "docs" / "benchmarks" / "spark"
HEAD = """\
# Spark: Ottla's source and sink beside Spark's own Kafka connector

Written by `make bench-spark`; [../method.md](../method.md) says how to read and repeat it. Median [least,
greatest] of the rounds. A ratio is ours to the connector's in the same round; (own) is a figure of ours alone, wanted
of a machine on which the connector counts 1.31 M rows a second, writes 0.87 M to Parquet and 1.30 M to a topic.
"""


@click.command()
@click.option("--only", default="", help="Names, with commas.")
@click.option("--records", type=click.IntRange(100_000), default=6_000_000, show_default=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Default: docs/benchmarks/spark.")
@click.option("--quick", is_flag=True, help="Few records and one round, to see that it works; no figures.")
def main(only: str, records: int, out: Path | None, quick: bool) -> None:
    """Measures Spark with Ottla beside Spark's own Kafka connector."""
    console = Console()
    chosen = [name.strip() for name in only.split(",") if name.strip()] or list(CASES)
    if unknown := sorted(set(chosen) - CASES.keys()):
        raise click.UsageError(f"there is no {', '.join(unknown)}; there are {', '.join(CASES)}")
    if DEBUG_BUILD and not quick:
        raise click.ClickException("the native module is a debug build: make build")
    if quick:
        records = 200_000
        out = out or Path(tempfile.mkdtemp(prefix="ottla-quick-"))
    out = out or PAGE
    records = records // PARTITIONS * PARTITIONS
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as name, broker.running(Path(name)) as bootstrap:
        folder = Path(name)
        jars, connector = fetch(folder)
        spark = _session(jars)
        place = Place(spark, folder, folder / "written", bootstrap, records, bool(jars))
        machine = facts() | {"spark": spark.version, "connector": connector, "records": f"{records:,}"}
        place.directory.mkdir()
        write_directory(place.directory, records)
        create(bootstrap, WRITTEN)
        if any(CASES[each].reads_topic for each in chosen):
            produce(bootstrap, records)
        turns = Turns(*((1, 1) if quick else (3, 5)))
        for each in chosen:
            _measure(each, CASES[each], place, turns, machine, out, console)
        spark.stop()
    report.show_targets(
        [report.load(path)[0] for path in sorted(out.glob("*.json")) if path.stem in CASES], console, SPARK
    )
    console.print(f"{time.perf_counter() - begin:.0f} s; written to {out}", soft_wrap=True)


def _session(jars: str) -> SparkSession:
    spark = session("bench", cores=2, memory="2g", settings={"spark.jars": jars} if jars else None)
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _measure(
    name: str, case: Case, place: Place, turns: Turns, machine: dict[str, str], out: Path, console: Console
) -> None:
    """One case, shown and kept."""
    started = time.perf_counter()
    result = Result(name, case.title, case.load)
    case.measure(place, turns, result)
    result.seconds = time.perf_counter() - started
    report.save(result, machine, [], out)
    report.write_page(out, list(CASES), SPARK, HEAD)
    report.show(result, console)
    console.print(f"{result.seconds:.0f} s", style="dim")


if __name__ == "__main__":
    main()
