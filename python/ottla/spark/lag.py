"""Commits the progress of a streaming query as offsets of a consumer group, so that lag tools see it.

Spark keeps its offsets in the checkpoint and no group knows of them. A listener on the driver copies the end of each
batch that has been written into a group, after the fact; nothing ever reads from it. Spark's `commit` on the source
would come one batch late and never for the last one.
"""

import json
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from ottla.client import TopicPartition
from ottla.errors import KafkaError, ProtocolError
from ottla.spark.given import security
from ottla.spark.groups import commit
from ottla.spark.offsets import from_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

log = logging.getLogger(__name__)

PREFIX = "spark-kafka-source"
# Brokers forget the offsets of a group that is silent for long (a week unless told otherwise).
REPEAT_SECONDS = 3600.0


def offsets_behind(progress: "StreamingQueryProgress") -> dict[str, float]:
    """How far a query is behind the ends of the partitions, by its `lastProgress` or another one: the least, the most
    and the average number of offsets of a partition, under the names that Spark's Kafka source gives them. Empty
    without a source of ours. A Python source cannot put them into the progress itself.
    """
    behind: list[int] = []
    for source in progress.sources:
        try:
            ends, latest = (from_json(json.loads(each)) for each in (source.endOffset, source.latestOffset))
        except (TypeError, ValueError):
            continue  # a source of another kind
        behind += [max(0, offset - ends.get(partition, 0)) for partition, offset in latest.items()]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": min(behind),
        "maxOffsetsBehindLatest": max(behind),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }


class OffsetPublisher(StreamingQueryListener):
    """Commits the end offsets of finished batches. A failure is a warning: the query does not depend on it."""

    def __init__(self, options: Mapping[str, str], query: str | None = None) -> None:
        """`options` are those of the source, `query` is the name or id of the one query that is meant; None: all.

        Raises:
            ValueError: the options have no brokers, or a group for more than one query; or a setting of
                kafka.security.protocol, kafka.ssl.* or kafka.sasl.* is wrong.
        """
        given = {key.lower(): value for key, value in options.items()}
        if "kafka.bootstrap.servers" not in given:
            raise ValueError("the offsets need brokers to go to: the option kafka.bootstrap.servers")
        if "kafka.group.id" in given and query is None:
            raise ValueError(
                "kafka.group.id is for one query: say which, or use groupIdPrefix, which gives each query its group"
            )
        self._servers = given["kafka.bootstrap.servers"]
        self._security = security(given)
        self._client_id = given.get("kafka.client.id", "ottla-spark")
        self._group = given.get("kafka.group.id")
        self._prefix = given.get("groupidprefix", PREFIX)
        self._query = query
        self._published: dict[str, tuple[float, dict[TopicPartition, int]]] = {}

    def group(self, query_id: str) -> str:
        """The group of a query. With a prefix it is named after the query's id, which is the same in all its runs."""
        return self._group or f"{self._prefix}-{query_id}"

    def onQueryStarted(self, event: Any) -> None:
        """Nothing has been read yet."""

    def onQueryProgress(self, event: Any) -> None:
        """A batch has been written."""
        progress = event.progress
        if self._query is not None and self._query not in (progress.name, str(progress.id)):
            return
        ends: dict[TopicPartition, int] = {}
        for source in progress.sources:
            try:
                ends.update(from_json(json.loads(source.endOffset)))
            except (TypeError, ValueError):
                continue  # a source of another kind
        group = self.group(str(progress.id))
        when, known = self._published.get(group, (0.0, {}))
        if not ends or (ends == known and time.monotonic() - when < REPEAT_SECONDS):
            return
        try:
            commit(self._servers, group, ends, self._client_id, self._security)
        except (KafkaError, ProtocolError, OSError, ValueError) as problem:
            log.warning("the offsets of query %s do not reach group %s: %s", progress.id, group, problem)
        else:
            self._published[group] = time.monotonic(), ends

    def onQueryIdle(self, event: Any) -> None:
        """Nothing new."""

    def onQueryTerminated(self, event: Any) -> None:
        """The group keeps what it has: the query may be started again."""
        self._published.pop(self.group(str(event.id)), None)
