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


def main(arguments: list[str]) -> int:
    """Returns how many failed."""
    spark = session("killed", cores=2, memory="768m", settings={"spark.scheduler.mode": "FAIR"})
    spark.sparkContext.setLogLevel("ERROR")
    failed = []

    def run(name: str, file: Path) -> None:
        try:
            pipeline = find(name)
            result = pipeline.run(spark, load(file, pipeline.Config), Progress(file.stem, sys.stdout))
            print(f"{file.stem}: finished: {result}", flush=True)
        except Exception as problem:
            print(f"{file.stem}: failed: {problem!r}", flush=True)
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
