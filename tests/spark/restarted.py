"""A streaming query, also as a process to be killed: `python -m tests.spark.restarted SERVERS TOPIC FOLDER`. That one
stays in its fourth batch for ever once it has read it.
"""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

STUCK_BATCH = 3


def start(spark: "SparkSession", servers: str, topic: str, folder: Path, *, stuck: bool = False) -> "StreamingQuery":
    """Reads what is there, a hundred offsets at a time; the rows of each batch go to a file of its number."""

    def write(frame: "DataFrame", batch: int) -> None:
        rows = sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())
        waits = stuck and batch == STUCK_BATCH
        path = folder / (f"{batch}.stuck" if waits else f"{batch}")
        path.with_suffix(".part").write_text(json.dumps(rows))
        path.with_suffix(".part").rename(path)
        while waits:
            time.sleep(1)

    frame = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "100")
        .load()
    )
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start()


if __name__ == "__main__":
    from ottla.spark import session

    spark = session("restarted", cores=2, memory="512m")
    Path(sys.argv[3], "jvm").write_text(str(spark.sparkContext._gateway.proc.pid))
    start(spark, sys.argv[1], sys.argv[2], Path(sys.argv[3]), stuck=True).awaitTermination()
