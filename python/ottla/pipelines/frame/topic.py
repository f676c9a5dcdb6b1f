"""Results into a topic, each once: what `foreachBatch` gives, through the exactly-once sink.

A batch that Spark repeats after a crash has the same number. The sink notes the number of the last batch of each output
with the batch's own transactions and leaves out what it has already (options `txnAppId` and `txnVersion`), so that a
query can write to a table and to topics, and each of them has every result once.
"""

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
import trio

from ottla.client import Admin, Cluster
from ottla.errors import KafkaError, TopicAlreadyExists
from ottla.pipelines.frame.config import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic of the brokers `bootstrap`; it is created if it is not there."""

    bootstrap: str
    topic: str

    def create(self, settings: Mapping[str, str] | None = None) -> None:
        """Makes sure that it is there; `settings` are for one that was not.

        Raises:
            PipelineError: the brokers cannot be reached, or refuse.
        """
        try:
            trio.run(self._create, settings)
        except* (KafkaError, OSError) as problems:
            raise PipelineError(f"cannot create the topic {self.topic!r}: {problems.exceptions[0]}") from None

    async def _create(self, settings: Mapping[str, str] | None) -> None:
        async with Cluster(self.bootstrap, client_id="ottla-pipeline") as cluster:
            with contextlib.suppress(TopicAlreadyExists):
                await Admin(cluster).create_topic(self.topic, settings=settings)

    def write(self, rows: "DataFrame", query_id: str, batch: int) -> None:
        """Rows with the columns `key` and `value`, once: nothing if this batch of this query is there already. They
        become visible together, to readers of committed records.
        """
        (
            rows.coalesce(1)
            .write.format("ottla")
            .mode("append")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("topic", self.topic)
            .option("txnAppId", f"{query_id}-{self.topic}")
            .option("txnVersion", batch)
            .save()
        )
