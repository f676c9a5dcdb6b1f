"""The common part of pipelines from topics to topics: a stream into the exactly-once sink, and topics made ready for
it.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from ottla.client import Admin, Cluster
from ottla.errors import TopicAlreadyExists
from ottla.pipelines.frame.clients import ask
from ottla.pipelines.frame.progress import Progress
from ottla.pipelines.frame.streaming import STARTS_MAX, TOO_SLOW, Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# How often a running stream is looked at.
LOOK_S = 0.05
REPORT_S_MAX = 5.0


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Brokers that are written to. `options` are any of `writeStream.format("ottla")`."""

    bootstrap: str
    options: dict[str, str] = {}
    partitions: Annotated[int, msgspec.Meta(ge=-1)] = -1
    """Of topics that are not there yet; -1 leaves it to the brokers."""

    def writing(self) -> dict[str, str]:
        """The options for Spark's writer."""
        return {"kafka.bootstrap.servers": self.bootstrap, **self.options}

    def ensure(self, topic: str, partitions: int | None = None, settings: Mapping[str, str] | None = None) -> int:
        """Creates a topic that is not there, and says how many partitions it has.

        Raises:
            PipelineError: it cannot be had.
        """

        async def ensure(cluster: Cluster) -> int:
            with contextlib.suppress(TopicAlreadyExists):
                await Admin(cluster).create_topic(topic, partitions or self.partitions, -1, settings)
            return len(await cluster.partitions(topic))

        return ask(f"cannot have topic {topic!r} at {self.bootstrap}", self.bootstrap, self.options, ensure)


def into_topics(results: "DataFrame", writing: Mapping[str, str]) -> "DataStreamWriter":
    """Rows with the sink's columns (`ottla.spark.sink.rows`) into topics, once for readers of committed records."""
    # Spark looks for a stream's sink in the thread's session, which other threads than the one that made it have only
    # once they have made a frame.
    results.sparkSession.createDataFrame([], "value binary")
    return results.writeStream.format("ottla").options(**writing)


def run(
    writer: "DataStreamWriter",
    stream: Stream,
    progress: Progress,
    also: Callable[[Mapping[str, Any]], object] | None = None,
) -> int:
    """Runs a stream until all is read, or for ever with `every_s`. `also` is given Spark's report of each batch.
    Returns how many records were read.
    """
    from pyspark.errors import StreamingQueryException

    checkpoint = Path(stream.checkpoint).resolve()
    writer = writer.outputMode("append").option("checkpointLocation", str(checkpoint))
    trigger = {"processingTime": f"{stream.every_s} seconds"} if stream.every_s else {"availableNow": True}
    writer = writer.trigger(**trigger)  # type: ignore[arg-type, unused-ignore]
    for attempt in range(1, STARTS_MAX + 1):
        shown = _Shown(checkpoint, progress, also)
        query = writer.start()
        try:
            while query.isActive:
                shown.look(query)
                time.sleep(LOOK_S)
            # What it failed with.
            query.awaitTermination()
            shown.look(query)
            return progress.records
        except StreamingQueryException as problem:
            if attempt == STARTS_MAX or TOO_SLOW not in str(problem):
                raise
        finally:
            if query.isActive:
                query.stop()
    raise AssertionError("not reached")


class _Shown:
    """Tells `progress` of batches: one has begun when its offsets are in the checkpoint, and is done when Spark says
    so there.
    """

    def __init__(
        self, checkpoint: Path, progress: Progress, also: Callable[[Mapping[str, Any]], object] | None
    ) -> None:
        self._checkpoint = checkpoint
        self._also = also
        self._progress = progress
        # A batch that was in flight when the last run ended is repeated, and begins once more.
        self._done = self._newest("commits")
        self._begun = self._done

    def _newest(self, kind: str) -> int:
        return max(
            (int(path.name) for path in (self._checkpoint / kind).glob("[0-9]*") if path.name.isdigit()), default=-1
        )

    def look(self, query: "StreamingQuery") -> None:
        """Says what has happened since the last look."""
        done, begun = self._newest("commits"), self._newest("offsets")
        while self._done < done:
            self._done += 1
            self._begin(self._done)
            report = self._report(query, self._done)
            if report is not None and self._also is not None:
                self._also(report)
            self._progress.done(self._done + 1, 0 if report is None else int(report["numInputRows"]))
        self._begin(begun)

    def _begin(self, batch: int) -> None:
        if batch > self._begun:
            self._begun = batch
            self._progress.begins(batch + 1, None)

    def _report(self, query: "StreamingQuery", batch: int) -> Mapping[str, Any] | None:
        """Spark makes the report at about the same time as the commit: it may not be there yet."""
        deadline = time.monotonic() + REPORT_S_MAX
        while time.monotonic() < deadline:
            for each in query.recentProgress:
                if each["batchId"] == batch:
                    return each
            time.sleep(LOOK_S)
        return None
