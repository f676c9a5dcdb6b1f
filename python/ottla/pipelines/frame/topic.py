"""Small results into a topic: verdicts and alerts, as JSON with a key."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import trio

from ottla.client import Admin, Cluster, Producer
from ottla.errors import KafkaError, TopicAlreadyExists
from ottla.pipelines.frame.config import PipelineError


class Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic of the brokers `bootstrap`; it is created if it is not there."""

    bootstrap: str
    topic: str

    def produce(self, rows: Sequence[tuple[str, dict[str, Any]]], settings: Mapping[str, str] | None = None) -> None:
        """Produces (key, value) pairs, acknowledged by all replicas; `settings` are for a topic that is not there yet.

        Raises:
            PipelineError: they could not be produced; some may have been.
        """
        if not rows:
            return
        try:
            trio.run(self._produce, rows, settings)
        except* (KafkaError, OSError) as problems:
            raise PipelineError(f"cannot produce to topic {self.topic!r}: {problems.exceptions[0]}") from None

    async def _produce(self, rows: Sequence[tuple[str, dict[str, Any]]], settings: Mapping[str, str] | None) -> None:
        async with Cluster(self.bootstrap, client_id="ottla-pipeline") as cluster:
            with contextlib.suppress(TopicAlreadyExists):
                await Admin(cluster).create_topic(self.topic, settings=settings)
            async with Producer(cluster) as producer:
                for key, value in rows:
                    await producer.send(self.topic, msgspec.json.encode(value), key=key.encode())
                await producer.flush()
