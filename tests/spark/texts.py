"""Streams of text files into a topic: an input that is the same at each replay."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery


def fill(folder: Path, files: range, rows: int = 50) -> Counter[str]:
    """Text files for `start`; gives the lines."""
    (folder / "in").mkdir(exist_ok=True)
    found: Counter[str] = Counter()
    for file in files:
        lines = [f"file {file} row {row}" for row in range(rows)]
        (folder / "in" / f"{file}.txt").write_text("".join(f"{line}\n" for line in lines))
        found.update(lines)
    return found


def start(
    spark: "SparkSession",
    folder: Path,
    bootstrap: str,
    topic: str,
    *,
    files: int = 1,
    tasks: int | None = None,
    **options: str,
) -> "StreamingQuery":
    """Writes the lines of `folder`/in that are new, `files` per batch, with so many tasks; the query ends by itself."""
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", files).load(str(folder / "in"))
    if tasks is not None:
        lines = lines.repartition(tasks)
    return (
        lines.writeStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
