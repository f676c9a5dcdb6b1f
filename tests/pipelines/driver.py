"""Runs pipelines, each with its configuration, at the same time in one Spark session: what tests kill.

    python driver.py [--heap 1g] [--few] [--hold BATCH] NAME CONFIG NAME CONFIG ...

With --few Spark is set up for few rows. What their progress says goes to stdout, a line each. With --hold they wait for
each other inside batch BATCH (or the first later one), go on together once all are there, and the first whose results
are written stays there, before Spark notes that the batch is done: `NAME: held`. All are inside a batch then, at
different places.
"""

import argparse
import sys
import threading
from pathlib import Path
from typing import TextIO

from ottla.pipelines.frame.catalog import find
from ottla.pipelines.frame.config import load
from ottla.pipelines.frame.progress import Progress
from ottla.spark import session

SETTINGS = {"spark.scheduler.mode": "FAIR"}
# Many batches of them: a state store less for each operator.
FEW_ROWS = {"spark.sql.shuffle.partitions": "1"}


class Gate:
    """Where pipelines wait for each other; those that have finished are not waited for."""

    def __init__(self, batch: int, pipelines: int) -> None:
        self.batch = batch
        self._missing = pipelines
        self._changed = threading.Condition()

    def passed(self) -> None:
        """One is there, or will never be."""
        with self._changed:
            self._missing -= 1
            self._changed.notify_all()

    def wait(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._missing <= 0)


class Held(Progress):
    """Of a pipeline that tells it of a batch from inside the batch, as those with `frame.streaming` do."""

    def __init__(self, name: str, out: TextIO, gate: Gate) -> None:
        super().__init__(name, out)
        self.gate = gate
        self.arrived = False

    def begins(self, batch: int, records: int | None, left: int | None = None) -> None:
        super().begins(batch, records, left)
        if batch >= self.gate.batch and not self.arrived:
            self.arrived = True
            self.gate.passed()
            self.gate.wait()

    def done(self, batch: int, records: int, text: str = "") -> None:
        if self.arrived:
            self.note("held")
            threading.Event().wait()
        super().done(batch, records, text)


def main() -> int:
    """Returns how many failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heap", default="1g")
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--hold", type=int)
    parser.add_argument("pairs", nargs="+")
    given = parser.parse_args()
    names, files = given.pairs[::2], [*map(Path, given.pairs[1::2])]
    gate = None if given.hold is None else Gate(given.hold, len(names))
    settings = SETTINGS | (FEW_ROWS if given.few else {})
    spark = session("killed", cores=2, memory=given.heap, settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    failed = []

    def run(name: str, file: Path) -> None:
        # One for each thread: then a line is one write.
        with open(sys.stdout.fileno(), "w", buffering=1, closefd=False) as out:
            progress = Progress(file.stem, out) if gate is None else Held(file.stem, out, gate)
            try:
                pipeline = find(name)
                result = pipeline.run(spark, load(file, pipeline.Config), progress)
                print(f"{file.stem}: finished: {result}", file=out)
            except Exception as problem:
                text = str(problem).partition("\n")[0]
                print(f"{file.stem}: failed: {type(problem).__name__}: {text}", file=out)
                failed.append(name)
                raise
            finally:
                if isinstance(progress, Held) and not progress.arrived:
                    progress.arrived = True
                    progress.gate.passed()

    threads = [threading.Thread(target=run, args=pair) for pair in zip(names, files, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spark.stop()
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
