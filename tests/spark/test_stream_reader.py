"""The reader of a stream as Spark calls it, without Spark: what comes, what goes, and when to wait."""

from collections.abc import Callable
from typing import Any

import pytest
import trio

from ottla.client import Admin, Cluster
from ottla.client.groups import Groups
from ottla.reading.bounds import DataLoss
from ottla.spark.limits import Use
from ottla.spark.options import parse
from tests.peers.ottla import Broker
from tests.peers.skips import module
from tests.spark.topics import BASE_MS, Topics

module("spark", "pyspark")

from pyspark.sql.streaming.datasource import ReadMaxRows, ReadMinRows

from ottla.spark import stream
from ottla.spark.stream import StreamReader
from tests.support.stream_reader import EVERYTHING, offsets, reader
from tests.support.waiting import eventually

pytestmark = pytest.mark.spark


def administer(topics: Topics, do: Callable[[Admin], Any]) -> None:
    async def main() -> None:
        async with Cluster(topics.bootstrap) as cluster:
            await do(Admin(cluster))

    trio.run(main)


@pytest.fixture
def own(broker: Broker) -> Topics:
    """Topics of a broker that no other test sees."""
    return Topics(broker.bootstrap, broker.data)


SIDES = pytest.mark.parametrize("side", ["brokers", "path"])


@SIDES
def test_where_a_stream_starts(own: Topics, side: str) -> None:
    own.make("t", [10, 20])
    assert reader(own, side, subscribe="t").initialOffset() == {"t": {"0": 10, "1": 20}}
    assert reader(own, side, subscribe="t", startingOffsets="earliest").initialOffset() == {"t": {"0": 0, "1": 0}}
    named = '{"t":{"0":-1,"1":7}}'
    assert reader(own, side, subscribe="t", startingOffsets=named).initialOffset() == {"t": {"0": 10, "1": 7}}
    with pytest.raises(DataLoss, match="t-1 is 21, but it has offsets 0 to 20"):
        reader(own, side, subscribe="t", startingOffsets='{"t":{"0":-1,"1":21}}').initialOffset()
    assert reader(own, side, subscribePattern="nothing-.*").initialOffset() == {}
    with pytest.raises(Exception, match="nowhere"):
        reader(own, side, subscribe="nowhere").initialOffset()


@SIDES
def test_topics_that_come_and_go(own: Topics, side: str) -> None:
    own.make("t-1", [5])
    source = reader(own, side, subscribePattern="t-.*", startingOffsets="earliest")
    lenient = reader(own, side, subscribePattern="t-.*", failOnDataLoss="false")
    start = source.latestOffset({}, EVERYTHING)
    assert offsets(source, {}, start) == [0, 1, 2, 3, 4]
    own.make("t-2", [3])
    own.append("t-1", [2, 4])
    end = source.latestOffset(start, EVERYTHING)
    assert end == {"t-1": {"0": 7, "1": 4}, "t-2": {"0": 3}}
    assert source.reportLatestOffset() == end
    assert sorted(offsets(source, start, end)) == [0, 0, 1, 1, 2, 2, 3, 5, 6]
    administer(own, lambda admin: admin.delete_topic("t-1"))
    later = source.latestOffset(end, EVERYTHING)
    assert later == {"t-2": {"0": 3}}
    with pytest.raises(DataLoss, match=r"t-1-0, t-1-1 are gone\. Some data may have been missed.*failOnDataLoss"):
        source.partitions(end, later)
    assert lenient.partitions(end, later) == []
    own.made.pop("t-1")
    own.make("t-1", [2])
    again = source.latestOffset(end, EVERYTHING)
    with pytest.raises(DataLoss, match="t-1-1 are gone; the offset of t-1-0 was changed from 7 to 2"):
        source.partitions(end, again)
    # Where it goes on, the batch after next begins: only what came since then is read.
    assert lenient.partitions(end, again) == []
    assert offsets(lenient, later, again) == [0, 1]


def test_limits_of_a_trigger(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    topics.make("limits", [100, 300])
    start = {"limits": {"0": 0, "1": 0}}
    every = {"limits": {"0": 100, "1": 300}}
    now_s = 1e9
    monkeypatch.setattr(stream.time, "time", lambda: now_s)

    most = reader(topics, subscribe="limits", maxOffsetsPerTrigger=40)
    assert most.getDefaultReadLimit() == ReadMaxRows(40)
    assert most.latestOffset(start, ReadMaxRows(40)) == {"limits": {"0": 10, "1": 30}}
    assert most.latestOffset(start, EVERYTHING) == every  # Trigger.Once

    least = reader(topics, subscribe="limits", minOffsetsPerTrigger=500, maxTriggerDelay="10s")
    assert least.getDefaultReadLimit() == ReadMinRows(500)
    assert least.latestOffset(start, ReadMinRows(500)) == every  # the first one at once
    assert least.latestOffset(start, ReadMinRows(500)) == start
    now_s += 9.9
    assert least.latestOffset(start, ReadMinRows(500)) == start
    now_s += 0.1
    assert least.latestOffset(start, ReadMinRows(500)) == every
    assert least.latestOffset(start, EVERYTHING) == every

    both = reader(topics, subscribe="limits", minOffsetsPerTrigger=20, maxOffsetsPerTrigger=40)
    assert both.getDefaultReadLimit() == ReadMaxRows(40)
    assert both.latestOffset(start, ReadMaxRows(40)) == {"limits": {"0": 10, "1": 30}}
    almost = {"limits": {"0": 95, "1": 286}}
    assert both.latestOffset(almost, ReadMaxRows(40)) == almost


@SIDES
def test_what_is_available_now_does_not_grow(own: Topics, side: str) -> None:
    own.make("t", [10])
    source = reader(own, side, subscribe="t", maxOffsetsPerTrigger=6, minOffsetsPerTrigger=5)
    source.prepareForTriggerAvailableNow()
    first = source.latestOffset({"t": {"0": 0}}, source.getDefaultReadLimit())
    own.append("t", [10])
    second = source.latestOffset(first, source.getDefaultReadLimit())
    assert (first, second) == ({"t": {"0": 6}}, {"t": {"0": 10}})
    assert source.latestOffset(second, source.getDefaultReadLimit()) == second
    assert offsets(source, first, second) == [6, 7, 8, 9]
    administer(own, lambda admin: admin.delete_topic("t"))
    own.made.pop("t")
    own.make("t", [3])
    with pytest.raises(DataLoss, match=r"some partitions end before that; they end at .*'0': 3.* restart the query"):
        source.partitions(first, second)


def test_a_checkpoint_of_something_else(topics: Topics) -> None:
    topics.make("limits", [100, 300])
    with pytest.raises(ValueError, match=r"the checkpoint has no offsets of topics.*logOffset"):
        reader(topics, subscribe="limits").latestOffset({"logOffset": 3}, EVERYTHING)


def test_brokers_that_nobody_runs(free_port: int) -> None:
    servers = f"127.0.0.1:{free_port}"
    options = {"kafka.default.api.timeout.ms": "300", "fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "1"}
    given = {"kafka.bootstrap.servers": servers, "subscribe": "t", **options}
    with pytest.raises(OSError, match=f"no broker answers at {servers}"):
        StreamReader(parse(given, Use.STREAM), ("offset",)).initialOffset()


def test_what_was_read_is_committed_to_a_group(topics: Topics, caplog: pytest.LogCaptureFixture) -> None:
    async def committed() -> dict[str, int]:
        async with Cluster(topics.bootstrap) as cluster:
            return {str(each): found.offset for each, found in (await Groups(cluster).committed("lag")).items()}

    topics.make("limits", [100, 300])
    source = reader(topics, subscribe="limits", commitGroup="lag")
    source.latestOffset({"limits": {"0": 10, "1": 20}}, EVERYTHING)
    assert trio.run(committed) == {"limits-0": 10, "limits-1": 20}
    source.latestOffset({"limits": {"0": 10, "1": 30}}, EVERYTHING)
    assert trio.run(committed) == {"limits-0": 10, "limits-1": 30}
    # The query does not depend on it.
    source.latestOffset({"limits": {"0": 10, "1": 30, "7": 5}}, EVERYTHING)
    assert "the offsets do not reach the group lag (commitGroup)" in caplog.text


@SIDES
def test_where_a_stream_starts_is_decided_once(own: Topics, side: str) -> None:
    """Spark asks twice, and the topic grows meanwhile."""
    own.make("t", [10, 20])
    source = reader(own, side, subscribe="t")
    start = source.initialOffset()
    own.append("t", [3, 4])
    assert source.initialOffset() == start == {"t": {"0": 10, "1": 20}}
    # Where the query begins stands in its checkpoint before anything is read.
    first = source.latestOffset(start, EVERYTHING)
    assert first == start
    assert offsets(source, source.initialOffset(), first) == []
    second = source.latestOffset(first, EVERYTHING)
    assert second == {"t": {"0": 13, "1": 24}}
    assert offsets(source, first, second) == [10, 11, 12, 20, 21, 22, 23]


@SIDES
def test_only_what_begins_at_its_end_waits_for_the_second_batch(own: Topics, side: str) -> None:
    """`Trigger.Once` has no second one."""
    own.make("t", [10, 20])
    named = '{"t":{"0":-1,"1":17}}'
    source = reader(own, side, subscribe="t", startingOffsets=named)
    start = source.initialOffset()
    own.append("t", [3, 4])
    first = source.latestOffset(start, EVERYTHING)
    assert first == {"t": {"0": 10, "1": 24}}
    assert offsets(source, start, first) == [17, 18, 19, 20, 21, 22, 23]
    every = reader(own, side, subscribe="t", startingOffsets="earliest")
    assert every.latestOffset(every.initialOffset(), EVERYTHING) == {"t": {"0": 13, "1": 24}}


@SIDES
@pytest.mark.parametrize("start", ["latest", "no record is that late"])
def test_a_first_batch_that_failed_is_repeated(own: Topics, side: str, start: str) -> None:
    """Its end is in the checkpoint, and Spark asks for its beginning anew."""
    own.make("t", [10, 20])
    options: dict[str, object] = {"subscribe": "t", "startingOffsets": "latest"}
    if start != "latest":
        options = {"subscribe": "t", "startingTimestamp": BASE_MS + 22, "startingOffsetsByTimestampStrategy": "latest"}
    failed = reader(own, side, **options)
    end = failed.latestOffset(failed.initialOffset(), EVERYTHING)
    assert end == {"t": {"0": 10, "1": 20}}
    own.append("t", [3, 4, 2])  # the last partition is new
    again = reader(own, side, **options)
    assert offsets(again, again.initialOffset(), end) == []
    following = again.latestOffset(end, EVERYTHING)
    assert sorted(offsets(again, end, following)) == [0, 1, 10, 11, 12, 20, 21, 22, 23]


@SIDES
def test_a_first_batch_with_rows_is_repeated_as_it_was(own: Topics, side: str) -> None:
    own.make("t", [3])
    options = {"subscribePattern": "t.*", "startingOffsets": "earliest"}
    failed = reader(own, side, **options)
    end = failed.latestOffset(failed.initialOffset(), EVERYTHING)
    own.append("t", [2, 1])
    own.make("t2", [4])
    again = reader(own, side, **options)
    assert offsets(again, again.initialOffset(), end) == [0, 1, 2]
    assert sorted(offsets(again, end, again.latestOffset(end, EVERYTHING))) == [0, 0, 1, 2, 3, 3, 4]


@SIDES
def test_a_named_topic_that_is_deleted_under_a_stream(own: Topics, side: str, caplog: pytest.LogCaptureFixture) -> None:
    own.make("a", [5])
    own.make("b", [3])
    strict = reader(own, side, subscribe="a,b", startingOffsets="earliest")
    lenient = reader(own, side, subscribe="a,b", startingOffsets="earliest", failOnDataLoss="false")
    start = lenient.initialOffset()
    planned = lenient.latestOffset(start, EVERYTHING)
    tasks = {source: source.partitions(start, planned) for source in (strict, lenient)}
    delete(own, "a")
    # Between planning and reading,
    with pytest.raises(DataLoss, match=r"a-0 is gone, .*failOnDataLoss=false"):
        read_all(strict, tasks[strict])
    assert read_all(lenient, tasks[lenient]) == [("b", 0), ("b", 1), ("b", 2)]
    assert "a-0 is gone: offsets 0 to 5 are left out" in caplog.text
    # between the end of a batch and its planning,
    with pytest.raises(Exception, match=r"a-0|topic '?a|has no a"):
        strict.partitions(start, planned)
    assert read_all(lenient, lenient.partitions(start, planned)) == [("b", 0), ("b", 1), ("b", 2)]
    # and between batches.
    with pytest.raises(Exception, match=r"topic '?a|has no a"):
        strict.latestOffset(planned, EVERYTHING)
    later = lenient.latestOffset(planned, EVERYTHING)
    assert later == {"b": {"0": 3}}
    caplog.clear()
    assert lenient.partitions(planned, later) == []
    assert "a-0 are gone" in caplog.text
    own.append("b", [2])
    last = lenient.latestOffset(later, EVERYTHING)
    assert offsets(lenient, later, last) == [3, 4]
    # A new query with a name that is none is an error all the same.
    with pytest.raises(Exception, match=r"topic '?a|has no a"):
        reader(own, side, subscribe="a,b", failOnDataLoss="false").initialOffset()


@SIDES
def test_a_topic_that_is_made_anew_between_planning_and_reading(
    own: Topics, side: str, caplog: pytest.LogCaptureFixture
) -> None:
    own.make("t", [7])
    sources = [reader(own, side, subscribe="t", failOnDataLoss=lost) for lost in ("true", "false")]
    tasks = [source.partitions({"t": {"0": 5}}, {"t": {"0": 7}}) for source in sources]
    delete(own, "t")
    own.make("t", [3])
    with pytest.raises(DataLoss, match="failOnDataLoss=false"):
        read_all(sources[0], tasks[0])
    assert read_all(sources[1], tasks[1]) == []
    assert "5 to 7 are left out" in caplog.text


def delete(topics: Topics, name: str) -> None:
    administer(topics, lambda admin: admin.delete_topic(name))
    topics.made.pop(name)
    eventually("its folder is gone", lambda: not (topics.data / f"{name}-0").exists())


def read_all(source: StreamReader, tasks: list[Any]) -> list[tuple[str, int]]:
    return sorted(
        row
        for task in tasks
        for batch in source.read(task)
        for row in zip(batch["topic"].to_pylist(), batch["offset"].to_pylist(), strict=True)
    )
