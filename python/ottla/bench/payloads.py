"""Values and batches. A batch is encoded once and sent many times: nothing is done per record while the load runs."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any

from ottla._core import encode_batch, encode_produce_request
from ottla.kafka import TopicPartition
from ottla.wire.k00_produce import PRODUCE, ProduceResponse
from ottla.wire.schema import Api

LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# Length, attributes, deltas, key and header count.
RECORD_OVERHEAD_BYTES = 8
TIMEOUT_MS = 30_000
# Old enough to be encoded anew: its records carry the time.
BATCH_AGE_S = 1.0
# The newest that the encoder in Rust writes; newer ones say the same.
PRODUCE_VERSION = 7


def random_values(size_bytes: int, count: int, seed: int = 0) -> list[bytes]:
    """Capital letters, as Kafka's tool sends them: compressible, but not absurdly."""
    source = random.Random(seed)
    return [bytes(source.choices(LETTERS, k=size_bytes)) for _ in range(count)]


@dataclass
class Batches:
    """The batch that is sent to every partition.

    values: what a batch holds. acks: 0, 1 or -1.
    """

    values: list[bytes]
    acks: int
    compression: str
    _bodies: dict[TopicPartition, bytes] = field(default_factory=dict)
    _encoded_at: float = -BATCH_AGE_S

    @property
    def value_bytes(self) -> int:
        return sum(map(len, self.values))

    def body(self, partition: TopicPartition) -> bytes:
        """A whole Produce request for a partition."""
        now = time.monotonic()
        if now - self._encoded_at >= BATCH_AGE_S:
            self._bodies.clear()
            self._encoded_at = now
        if (body := self._bodies.get(partition)) is None:
            now_ms = time.time_ns() // 1_000_000
            batch = encode_batch([(now_ms, None, value, ()) for value in self.values], compression=self.compression)
            rows = [(partition.topic, partition.partition, batch)]
            body = encode_produce_request(PRODUCE_VERSION, None, self.acks, TIMEOUT_MS, rows)
            self._bodies[partition] = body
        return body


class _Encoded(Api[Any, ProduceResponse]):
    """Produce whose requests are bytes already."""

    def encode_request(self, version: int, message: bytes) -> bytes:
        return message


ENCODED_PRODUCE = _Encoded(
    PRODUCE.key,
    PRODUCE.name,
    f"{PRODUCE.versions[0]}-{PRODUCE.versions[-1]}",
    flexible=PRODUCE.flexible_from,
    request=PRODUCE.request,
    response=PRODUCE.response,
)
