"""How fast a stream reads: `python benches/spark_stream.py [--records N] [--bootstrap HOST:PORT | --no-broker]`.

The records of `spark_read.py` as a streaming query into Spark's `noop`, in micro-batches of 1,000, 100,000 and 1 M rows
(`maxOffsetsPerTrigger`): the median time of a batch and the rows per second in the steady state, that is without the
first batches, in which Java compiles and the Python processes start. What one batch costs whatever its size is seen in
the smallest ones; Spark's part of it is mostly its own logs of offsets and commits.
"""

import argparse
import json
import statistics
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from spark_read import PARTITIONS, TOPIC, facts, produce, write_directory

from ottla.pipelines.demo import broker
from ottla.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WARM_UPS = 3
# Rows per micro-batch, and how many batches are measured at most.
SIZES = ((1_000, 20), (100_000, 15), (1_000_000, 100))


def measure(
    spark: "SparkSession", where: str, here: tuple[str, str], records: int, size: tuple[int, int], folder: Path
) -> None:
    rows, batches = size
    start = max(0, records - rows * (batches + WARM_UPS)) // PARTITIONS
    starts = json.dumps({TOPIC: {str(number): start for number in range(PARTITIONS)}})
    reader = spark.readStream.format("ottla").option("subscribe", TOPIC).option(*here)
    frame = reader.option("startingOffsets", starts).option("maxOffsetsPerTrigger", rows).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder / f"{where}-{rows}"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [each for each in query.recentProgress if each.numInputRows >= rows * 0.9][WARM_UPS:]
    if not progress:
        print(f"{where}, {rows:9,} rows a batch: too few records")
        return
    batch_ms = statistics.median(each.durationMs["triggerExecution"] for each in progress)
    total_s = sum(each.durationMs["triggerExecution"] for each in progress) / 1000
    speed = sum(each.numInputRows for each in progress) / total_s / 1e6
    print(
        f"{where}, {rows:9,} rows a batch: {batch_ms:6.0f} ms a batch, {speed:6.3f} M rows/s, {len(progress)} batches",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=12_000_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--bootstrap", help="a broker to use instead of one of our own; the topic must not exist")
    parser.add_argument("--no-broker", action="store_true", help="only the directory")
    arguments = parser.parse_args()
    records = arguments.records // PARTITIONS * PARTITIONS
    print(facts())
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as place:
        folder = Path(place)
        root = folder / "written"
        root.mkdir()
        write_directory(root, records)
        spark = session("ottla bench", cores=arguments.cores)
        spark.sparkContext.setLogLevel("ERROR")
        print(f"Spark {spark.version}, {arguments.cores} cores, {records:,} records")
        for size in SIZES:
            measure(spark, "a directory", ("path", str(root)), records, size, folder)
        if not arguments.no_broker:
            given = arguments.bootstrap
            with nullcontext(given) if given else broker.running(folder) as bootstrap:
                produce(bootstrap, records)
                for size in SIZES:
                    measure(spark, "a broker", ("kafka.bootstrap.servers", bootstrap), records, size, folder)
        spark.stop()


if __name__ == "__main__":
    main()
