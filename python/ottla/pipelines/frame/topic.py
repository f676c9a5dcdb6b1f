"""Results into a topic, each once: what `foreachBatch` gives, through the exactly-once sink.

A batch that Spark repeats after a crash has the same number. The sink notes the number of the last batch of each output
with the batch's own transactions and leaves out what it has already (options `txnAppId` and `txnVersion`), so that a
query can write to a table and to topics, and each of them has every result once.
"""

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ottla.client import Admin, Cluster
from ottla.errors import TopicAlreadyExists
from ottla.pipelines.frame.clients import ask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic of the brokers `bootstrap`; it is created if it is not there. `options` are any of
    `write.format("ottla")`, e.g. {"kafka.security.protocol" = "SSL"}.
    """

    bootstrap: str
    topic: str
    options: dict[str, str] = {}

    def create(self, settings: Mapping[str, str] | None = None) -> None:
        """Makes sure that it is there; `settings` are for one that was not.

        Raises:
            PipelineError: the brokers cannot be reached, or refuse.
        """

        async def create(cluster: Cluster) -> None:
            with contextlib.suppress(TopicAlreadyExists):
                await Admin(cluster).create_topic(self.topic, settings=settings)

        ask(f"cannot create the topic {self.topic!r}", self.bootstrap, self.options, create)

    def write(self, rows: "DataFrame", query_id: str, batch: int) -> None:
        """Rows with the columns `key` and `value`, once: nothing if this batch of this query is there already. They
        become visible together, to readers of committed records.
        """
        (
            rows.coalesce(1)
            .write.format("ottla")
            .mode("append")
            .options(**self.options)
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("topic", self.topic)
            .option("txnAppId", f"{query_id}-{self.topic}")
            .option("txnVersion", batch)
            .save()
        )
