"""A stream of committed records from log files, of our broker and of Apache Kafka 3.9, that is stopped and goes on."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
import trio

from ottla.client import Cluster, Prepared, end_transaction
from ottla.spark.sink import options as sink
from ottla.spark.sink.task import Transaction, write
from tests.peers.skips import module
from tests.spark.topics import Topics

module("spark", "pyspark")

from ottla.spark.stream import StreamReader
from tests.support.stream_reader import EVERYTHING, offsets, reader
from tests.support.waiting import eventually

pytestmark = pytest.mark.spark
NAME = "committed-stream"


@pytest.fixture(params=["ottla", pytest.param("apache", marks=pytest.mark.java)])
def here(request: pytest.FixtureRequest) -> Topics:
    """Our broker and Apache Kafka 3.9."""
    found: Topics = request.getfixturevalue("topics" if request.param == "ottla" else "apache_topics")
    return found


def opened(topics: Topics, transactional_id: str, values: Sequence[str]) -> Transaction:
    """A transaction with these records that stays open."""
    given = sink.parse({"kafka.bootstrap.servers": topics.bootstrap, "topic": NAME})
    batch = pa.record_batch({"value": pa.array(values)})
    transaction = write(given, iter([batch]), f"{NAME}-{transactional_id}").transaction
    assert transaction is not None
    return transaction


def end(topics: Topics, transaction: Transaction, *, commit: bool) -> None:
    async def main() -> None:
        async with Cluster(topics.bootstrap) as cluster:
            producer = transaction.producer_id, transaction.producer_epoch
            await end_transaction(cluster, Prepared(transaction.transactional_id, *producer, False), commit=commit)

    trio.run(main)


def until(source: StreamReader, start: dict[str, Any], wanted: int) -> dict[str, Any]:
    """The end of the next batch, once the broker has written as much of its high watermark to disk."""
    found: dict[str, Any] = {}

    def is_written() -> bool:
        found.update(source.latestOffset(start, EVERYTHING))
        assert found[NAME]["0"] <= wanted, "it reads past an open transaction"
        return found == {NAME: {"0": wanted}}

    eventually(f"{wanted} is written", is_written, facts=lambda: found)
    return found


def test_committed_records_of_log_files(here: Topics) -> None:
    here.make(NAME, [5])
    end(here, opened(here, "a", ["5", "6", "7"]), commit=True)  # and its marker, 8
    end(here, opened(here, "b", ["9", "10", "11"]), commit=False)  # and 12
    left_open = opened(here, "c", ["13", "14"])
    options = {"subscribe": NAME, "startingOffsets": "earliest", "isolation.level": "read_committed"}
    first = reader(here, "path", **options)
    start = first.initialOffset()
    middle = until(first, start, 13)
    assert offsets(first, start, middle) == list(range(8))
    del first

    end(here, left_open, commit=True)  # and 15
    second = reader(here, "path", **options)
    assert offsets(second, start, middle) == list(range(8)), "the same batch again"
    assert offsets(second, middle, until(second, middle, 16)) == [13, 14]
