"""Files of a load without Spark: records with any time, topics with any name."""

from pathlib import Path

import pytest

from ottla.pipelines.frame.config import PipelineError
from tests.peers.skips import module

pa = module("arrow", "pyarrow")


def test_a_time_that_no_calendar_has_stops_no_load(tmp_path: Path) -> None:
    """The broker takes any time from producers; Spark's column of microseconds ends in the year 294247."""
    from ottla.pipelines.warehouse_load.files import Files

    files = Files(tmp_path, prefix="", epoch=1, task=0, compression="zstd")
    times = [-(2**63), -1, 0, 1_767_578_400_000_000, 2**63 - 1]
    batch = pa.record_batch({"offset": pa.array(range(5), pa.int64())})
    done = [*files.add("t", batch, pa.array(times, pa.timestamp("us", tz="UTC"))), *files.finish()]
    found = {(file.date, file.hour): file.rows for file, _ in done}
    assert found == {
        ("0001-01-01", 0): 1,
        ("1969-12-31", 23): 1,
        ("1970-01-01", 0): 1,
        ("2026-01-05", 2): 1,
        ("9999-12-31", 23): 1,
    }
    assert all((tmp_path / file.path).exists() for file, _ in done)


@pytest.mark.parametrize("topic", ["../../evil", "a/b", "..", "", "x" * 250, "snow\u2603"])
def test_a_name_that_no_topic_has_leaves_no_file(tmp_path: Path, topic: str) -> None:
    """Names come from brokers, and go into paths."""
    from ottla.pipelines.tables.table import folder

    with pytest.raises(PipelineError, match="the brokers named a topic that cannot be"):
        folder(topic, "2026-01-05", 3)
