"""The demonstration's input and its direct count, without broker or Spark."""

import re
from collections import Counter
from pathlib import Path

from ottla.pipelines.demo import direct, weblog
from ottla.pipelines.demo.job import REQUEST
from ottla.pipelines.demo.summary import Hour, Page

LINES = [
    '1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET /a?x=1 HTTP/1.1" 200 10 "-" "agent"',
    '1.2.3.4 - joe [17/May/2015:10:59:59 +0000] "POST /a HTTP/1.1" 404 - "http://x/" "an agent with \\"quotes\\""',
    '1.2.3.5 - - [17/May/2015:12:00:00 +0000] "GET /b HTTP/1.0" 503 0 "-" "-"',
    "not a request",
    '1.2.3.5 - - [17/May/2015:12:00:00 +0000] "-" 408 0 "-" "-"',
]


def test_direct_count() -> None:
    summary = direct.count(LINES, 3)
    assert summary.hours == (Hour.parse("17/May/2015:10", 6, 3), Hour.parse("17/May/2015:12", 3, 3))
    assert summary.pages == (Page("/a", 6), Page("/b", 3))
    assert (summary.requests, summary.errors, summary.malformed) == (9, 6, 6)


def test_the_invented_log_is_always_the_same_and_in_order() -> None:
    lines = list(weblog.lines(2000, 7))
    assert lines == list(weblog.lines(2000, 7))
    assert lines != list(weblog.lines(2000, 8))
    times = [line.split("[")[1][:20] for line in lines]
    assert times == sorted(times)
    summary = direct.count(lines)
    assert summary.malformed == 0
    assert 0 < summary.errors < summary.requests == 2000


def test_the_real_log_reads_the_same_by_both_ways(test_data: Path) -> None:
    """The job's expression and the direct count see the same hours and errors in each of the real lines."""
    lines = weblog.read(test_data / "web_access.log")
    found = [re.search(REQUEST, line) for line in lines]
    summary = direct.count(lines)
    assert summary.requests + summary.malformed == len(lines)
    assert sum(match is None for match in found) == summary.malformed
    hours = Counter(match[1] for match in found if match)
    assert sorted(Hour.parse(hour, count, 0).start for hour, count in hours.items()) == [
        hour.start for hour in summary.hours
    ]
    assert sum(match[3] >= "400" for match in found if match) == summary.errors
