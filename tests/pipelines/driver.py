"""Runs pipelines, each with its configuration, at the same time in one Spark session: what tests kill.

    python driver.py NAME CONFIG NAME CONFIG ...

What their progress says goes to stdout, a line each. Each starts when the one before is in its first batch: Spark gives
a stream's new Python process ten seconds to say hello, which is not enough for many at once on a busy machine.
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


class Begun(Progress):
    """Progress that others can wait for: `first` is set by the first batch."""

    def __init__(self, name: str) -> None:
        super().__init__(name, sys.stdout)
        self.first = threading.Event()

    def begins(self, batch: int, records: int | None, left: int | None = None) -> None:
        super().begins(batch, records, left)
        self.first.set()


def main(arguments: list[str]) -> int:
    """Returns how many failed."""
    settings = {"spark.scheduler.mode": "FAIR", "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS}
    spark = session("killed", cores=2, memory="1g", settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    failed = []

    def run(name: str, file: Path, progress: Begun) -> None:
        try:
            pipeline = find(name)
            result = pipeline.run(spark, load(file, pipeline.Config), progress)
            print(f"{file.stem}: finished: {result}", flush=True)
        except Exception as problem:
            print(f"{file.stem}: failed: {problem!r}", flush=True)
            failed.append(name)
            raise
        finally:
            progress.first.set()

    threads = []
    for name, file in zip(arguments[::2], map(Path, arguments[1::2]), strict=True):
        progress = Begun(file.stem)
        thread = threading.Thread(target=run, args=(name, file, progress))
        thread.start()
        threads.append(thread)
        progress.first.wait()
    for thread in threads:
        thread.join()
    spark.stop()
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
