"""Runs pipelines, each with its configuration, at the same time in one Spark session: what tests kill.

    python driver.py NAME CONFIG NAME CONFIG ...

What their progress says goes to stdout, a line each.
"""

import sys
import threading
from pathlib import Path

from ottla.pipelines.frame.catalog import find
from ottla.pipelines.frame.config import load
from ottla.pipelines.frame.progress import Progress
from ottla.spark import session

# Without Hadoop's file contexts, which start processes to learn about users: half the time of a small batch.
CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
SETTINGS = {
    "spark.scheduler.mode": "FAIR",
    "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
    # Few rows, many batches: a state store less for each operator, and a compiler that is done sooner.
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:TieredStopAtLevel=1",
}


def main(arguments: list[str]) -> int:
    """Returns how many failed."""
    spark = session("killed", cores=2, memory="1g", settings=SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    failed = []

    def run(name: str, file: Path) -> None:
        # One for each thread: then a line is one write.
        with open(sys.stdout.fileno(), "w", buffering=1, closefd=False) as out:
            try:
                pipeline = find(name)
                result = pipeline.run(spark, load(file, pipeline.Config), Progress(file.stem, out))
                print(f"{file.stem}: finished: {result}", file=out)
            except Exception as problem:
                text = str(problem).partition("\n")[0]
                print(f"{file.stem}: failed: {type(problem).__name__}: {text}", file=out)
                failed.append(name)
                raise

    pairs = zip(arguments[::2], map(Path, arguments[1::2]), strict=True)
    threads = [threading.Thread(target=run, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spark.stop()
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
