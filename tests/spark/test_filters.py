"""The ranges that filters leave to be read, without Spark's planner: `test_read.py` has them as Spark pushes them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.peers.skips import module

module("spark", "pyspark")

from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringContains,
)

from ottla.client import TopicPartition
from ottla.spark.filters import Wanted

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
SPANS = {A0: (10, 100), A1: (0, 50), B0: (5, 6)}


@pytest.mark.parametrize(
    ("filters", "left", "residual"),
    [
        ([], SPANS, 0),
        ([IsNotNull(("offset",))], SPANS, 0),
        ([IsNotNull(("value",))], SPANS, 1),
        ([EqualTo(("topic",), "b")], {B0: (5, 6)}, 0),
        ([In(("topic",), ("b", "c")), In(("topic",), ("a", "c"))], {}, 0),
        ([EqualTo(("partition",), 0)], {A0: (10, 100), B0: (5, 6)}, 0),
        ([GreaterThan(("partition",), 0), LessThanOrEqual(("partition",), 1)], {A1: (0, 50)}, 0),
        ([GreaterThanOrEqual(("offset",), 20), LessThan(("offset",), 60)], {A0: (20, 60), A1: (20, 50)}, 0),
        ([EqualTo(("offset",), 5)], {A1: (5, 6), B0: (5, 6)}, 0),
        ([In(("offset",), (20, 22))], {A0: (20, 23), A1: (20, 23)}, 1),
        ([StringContains(("topic",), "a")], SPANS, 1),
        ([GreaterThan(("offset",), None)], SPANS, 1),
        ([LessThan(("timestamp",), datetime(2026, 1, 1, tzinfo=UTC))], SPANS, 1),
    ],
)
def test_what_is_left(filters: list[Any], left: dict[TopicPartition, tuple[int, int]], residual: int) -> None:
    wanted = Wanted()
    assert len(wanted.push(filters)) == residual
    assert wanted.narrow(SPANS, {}) == left
    assert wanted.since_ms is None


def test_a_time_is_a_lower_bound_that_spark_checks_again() -> None:
    wanted = Wanted()
    since = GreaterThan(("timestamp",), datetime(2026, 1, 1, 0, 0, 0, 5999, tzinfo=UTC))
    assert wanted.push([since]) == [since]
    assert wanted.since_ms == 1767225600005
    assert wanted.narrow(SPANS, {A0: 40, A1: None, B0: 3}) == {A0: (40, 100), B0: (5, 6)}
