"""`spark.readStream`: from micro-batch to micro-batch.

One process per run of a query holds the reader; tasks get pickled copies, of which they use options and columns alone.
What a query has read stands in its checkpoint, nowhere else: after a crash Spark asks for exactly the batch that was
under way, by the offsets in its log.

| Spark calls                                | so here                                                                |
|--------------------------------------------|------------------------------------------------------------------------|
| `initialOffset` (no checkpoint yet; twice) | where `startingOffsets` and the like say, the same both times          |
| `latestOffset(start, limit)`               | the ends of the partitions now, or what the limits allow of it         |
| `reportLatestOffset`                       | the ends, for the lag in the progress report                           |
| `partitions(start, end)`                   | what is in between, as tasks; here data that is gone is noticed        |
| `commit(end)`                              | nothing: it comes one batch late and not for the last one              |

Spark writes down where a batch ends, but not where the first one begins: to repeat that one after a restart, it asks
for the initial offset anew. A partition that begins at its end (`startingOffsets=latest`) would then begin somewhere
else. So the first batch has nothing of such a partition: it ends where it begins, which puts the beginning into the
checkpoint, and when it is repeated, its end is what it began with.

`Trigger.Once` passes `ReadAllAvailable`, which lifts all limits. `Trigger.AvailableNow` reads up to the ends that the
first `latestOffset` saw, in batches as the limits say; the limit from below does not hold then, since nothing would
ever reach it.
"""

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.client import TopicPartition
from ottla.errors import KafkaError, ProtocolError
from ottla.reading.bounds import Beginning, DataLoss
from ottla.spark.batch import read, tasks
from ottla.spark.groups import commit
from ottla.spark.offsets import from_json, limited, spans, to_json, waiting
from ottla.spark.options import ReadOptions
from ottla.spark.places import place
from ottla.spark.sentences import plain_errors

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


@plain_errors
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One run of a streaming query."""

    def __init__(self, options: ReadOptions, names: tuple[str, ...]) -> None:
        self.options = options
        self.names = names
        self._beginning: Beginning | None = None
        self._repeats_first = False
        self._planned_on = False
        self._latest: dict[TopicPartition, int] | None = None
        self._target: dict[TopicPartition, int] | None = None
        self._published: dict[TopicPartition, int] = {}
        self._available_now = False
        # As in Spark: the first batch comes at once, however little there is.
        self._triggered_s = 0.0

    def initialOffset(self) -> dict[str, Any]:
        """Where a query begins whose checkpoint has no finished batch."""
        if self._beginning is None:
            self._beginning = place(self.options).starting(self.options)
        return to_json(self._beginning.offsets)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit that the options set; Spark passes it back, or `ReadAllAvailable`. It has no limit for both sides,
        so `latestOffset` looks at minOffsetsPerTrigger itself.
        """
        if self.options.offsets_per_trigger_max is not None:
            return ReadMaxRows(self.options.offsets_per_trigger_max)
        if self.options.offsets_per_trigger_min is not None:
            return ReadMinRows(self.options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """The next ends that are asked are those of the whole run."""
        self._available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends; `start` if there is nothing to read or not enough."""
        begin = from_json(start)
        self._publish(begin)
        ends = self._ends(begin, limit)
        if self._beginning is not None and not self._repeats_first and not self._planned_on:
            ends = {each: begin[each] if each in self._beginning.at_end else end for each, end in ends.items()}
        self._planned_on = True
        return start if ends == begin else to_json(ends)

    def _ends(self, begin: dict[TopicPartition, int], limit: ReadLimit) -> dict[TopicPartition, int]:
        ends = self._target if self._target is not None else place(self.options).latest(self.options, begin)
        if self._available_now:
            self._target = ends
        self._latest = ends
        if not ends:
            return begin
        if isinstance(limit, ReadAllAvailable):
            return ends
        if not self._available_now and self._too_few(waiting(begin, ends)):
            return begin
        if isinstance(limit, ReadMaxRows):
            new = place(self.options).earliest(self.options, [each for each in ends if each not in begin])
            return limited(limit.max_rows, begin, ends, new)
        return ends

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The ends as last seen."""
        return to_json(self._latest) if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of a micro-batch.

        Raises:
            DataLoss: some of it is gone, and failOnDataLoss is on.
        """
        begin, until = from_json(start), from_json(end)
        if self._beginning is not None and not self._planned_on:
            # Nobody has asked where it ends: that stands in the checkpoint.
            self._repeats_first = True
            begin = self._repeated(begin, until)
        here = place(self.options)
        if self._target is not None:
            self._still_there(until)
        new = here.earliest(self.options, [each for each in until if each not in begin])
        found, lost = spans(begin, until, new)
        if lost:
            self._lost("; ".join(lost))
        return tasks(self.options, here.ranges(self.options, found))

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The records of one task's ranges."""
        yield from read(self.options, self.names, partition)

    def _repeated(
        self, begin: dict[TopicPartition, int], until: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Where the first batch of a query began, which an earlier run has not finished: partitions that `until` lacks
        are newer than it.
        """
        assert self._beginning is not None
        moves = self._beginning.moves
        return {
            each: min(offset, until[each]) if each in moves else offset
            for each, offset in begin.items()
            if each in until
        }

    def _publish(self, done: dict[TopicPartition, int]) -> None:
        """Commits what has been written to the group of commitGroup. Spark asks for the next batch when the one before
        is done with, and `done` is where that one ended.
        """
        group = self.options.commit_group
        if group is None or self.options.bootstrap_servers is None or done == self._published:
            return
        try:
            commit(self.options.bootstrap_servers, group, done, self.options.client_id, self.options.security)
        except (KafkaError, ProtocolError, OSError, ValueError) as problem:
            log.warning("the offsets do not reach the group %s (commitGroup): %s", group, problem)
        else:
            self._published = done

    def _too_few(self, offsets: int) -> bool:
        """True if the trigger is to wait for more offsets, by minOffsetsPerTrigger and maxTriggerDelay."""
        least = self.options.offsets_per_trigger_min
        now_s = time.time()
        if least is not None and offsets < least and now_s - self._triggered_s < self.options.trigger_delay_ms / 1000:
            return True
        self._triggered_s = now_s
        return False

    def _still_there(self, until: dict[TopicPartition, int]) -> None:
        """A topic that was deleted or made anew under a run with a fixed end, which would wait for it for ever."""
        ends = place(self.options).latest(self.options, until)
        if missing := [each for each in until if each not in ends]:
            self._fail(f"{', '.join(map(str, sorted(missing)))} have been lost", ends, until)
        if any(ends[each] < offset for each, offset in until.items()):
            self._fail("some partitions end before that", ends, until)

    def _fail(self, what: str, ends: dict[TopicPartition, int], until: dict[TopicPartition, int]) -> None:
        raise DataLoss(
            f"while Trigger.AvailableNow reads up to {to_json(until)}, {what}; they end at {to_json(ends)} now. "
            "This may pass: restart the query"
        )

    def _lost(self, what: str) -> None:
        message = (
            f"{what}. Some data may have been missed: it was deleted by age or size, or its topic was, before it was "
            "read"
        )
        if self.options.fail_on_data_loss:
            raise DataLoss(f"{message}. If the query shall go on all the same, set failOnDataLoss to false")
        log.warning("%s. failOnDataLoss is false, so the query goes on", message)
