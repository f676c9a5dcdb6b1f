"""Generated events into a topic or a file."""

import contextlib
from collections.abc import Callable
from typing import BinaryIO

from ottla.client import Admin, Cluster, Producer
from ottla.errors import TopicAlreadyExists
from ottla.pipelines.generator.activity import Chunk, chunks
from ottla.pipelines.generator.lines import lines
from ottla.pipelines.generator.settings import Settings

LINGER_MS = 50
# Half of what a broker takes by default: the record that fills a batch may go beyond.
BATCH_BYTES = 512 * 1024

Advance = Callable[[int], object]
Seen = Callable[[Chunk], object]


def nothing(_: object) -> None:
    """Where nobody looks."""


def to_file(settings: Settings, file: BinaryIO, *, advance: Advance = nothing, seen: Seen = nothing) -> None:
    """Writes each event's JSON as a line.

    `advance` is told how many events were written, `seen` is given each chunk (see `Answers.add`).
    """
    for chunk in chunks(settings):
        file.write(b"".join(value + b"\n" for _, value, _ in lines(settings, chunk)))
        seen(chunk)
        advance(len(chunk))


async def to_topic(
    settings: Settings,
    cluster: Cluster,
    topic: str,
    *,
    partitions: int = 4,
    compression: str = "none",
    advance: Advance = nothing,
    seen: Seen = nothing,
) -> None:
    """Produces each event, with its key and time, acknowledged by all replicas. Creates the topic if it is not there.

    Raises:
        KafkaError, OSError: the records could not be produced; some may have been.
    """
    await ensure_topic(cluster, topic, partitions)
    async with Producer(cluster, linger_ms=LINGER_MS, batch_bytes=BATCH_BYTES, compression=compression) as producer:
        for chunk in chunks(settings):
            for key, value, time_ms in lines(settings, chunk):
                await producer.send(topic, value, key=key, timestamp_ms=time_ms)
            seen(chunk)
            advance(len(chunk))
        await producer.flush()


async def ensure_topic(cluster: Cluster, topic: str, partitions: int) -> None:
    """Creates a topic whose records are never deleted for their age: invented times lie in the past."""
    with contextlib.suppress(TopicAlreadyExists):
        await Admin(cluster).create_topic(topic, partitions, 1, {"retention.ms": "-1"})
