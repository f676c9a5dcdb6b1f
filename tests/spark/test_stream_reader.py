"""The reader of a stream as Spark calls it, without Spark: what comes, what goes, and when to wait."""

from collections.abc import Callable
from typing import Any

import pytest
import trio

from ottla.client import Admin, Cluster
from ottla.client.groups import Groups
from ottla.spark.bounds import DataLoss
from ottla.spark.limits import Use
from ottla.spark.options import parse
from tests.peers.ottla import Broker
from tests.peers.skips import module
from tests.spark.topics import Topics

module("spark", "pyspark")

from pyspark.sql.streaming.datasource import ReadMaxRows, ReadMinRows

from ottla.spark import stream
from ottla.spark.stream import StreamReader
from tests.support.stream_reader import EVERYTHING, offsets, reader

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
