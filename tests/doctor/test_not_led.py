"""A partition whose leader does not lead it: Metadata says that all is well, and only the leader itself can tell."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from ottla.broker.broker import Broker
from ottla.broker.watching import readiness
from ottla.broker.watching.metrics import BrokerMetrics
from ottla.config import BrokerConfig
from ottla.controller.topic_changes import NewTopic, create_topic
from ottla.doctor.examine import Options, examine
from ottla.doctor.findings import Level
from ottla.metrics.families import NOT_LED
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio

SAYS_NO = "its leader 1 says that it does not lead it"


@asynccontextmanager
async def started(path: Path) -> AsyncIterator[Broker]:
    """A broker with three partitions, of which it has given up the second, and a topic that is well."""
    given = {"broker.id": "1", "log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0"}
    async with Broker.start(BrokerConfig(given)) as broker:
        for name, count in (("t", 3), ("well", 1)):
            await create_topic(broker.tree, NewTopic(name, count, 1))
            await broker.metadata.wait_until(lambda name=name: broker.metadata.has_leaders(name, [0]))
        broker.replicas.partitions["t", 1].resign()
        yield broker


def port(broker: Broker) -> int:
    return broker.addresses.listening[0].port


async def test_the_doctor_finds_it(tmp_path: Path) -> None:
    async with started(tmp_path) as broker:
        report = await examine("127.0.0.1", port(broker), Options(timeout_s=PATIENCE_S))
    (found,) = [finding for finding in report.findings if finding.check == "served"]
    assert (found.level, report.exit_code) == (Level.PROBLEM, 2)
    assert found.found == f"1 of 4 partitions have a leader that does not serve them: t-1 ({SAYS_NO})"
    assert "broker 1" in found.todo
    (metadata,) = [finding for finding in report.findings if finding.check == "partitions"]
    assert metadata.level is Level.OK, "as far as Metadata tells"


async def test_describe_says_so(tmp_path: Path) -> None:
    async with started(tmp_path) as broker:
        command = [sys.executable, "-m", "ottla", "topic", "describe", "-b", f"127.0.0.1:{port(broker)}"]
        plain = await trio.run_process(command, capture_stdout=True)
        rows = await trio.run_process([*command, "--json"], capture_stdout=True)
    lines = plain.stdout.decode().splitlines()
    assert [line for line in lines if "not served" in line] == [f"  partition 1 is not served: {SAYS_NO}"]
    topics = [json.loads(line) for line in rows.stdout.splitlines()]
    assert {topic["name"]: [each["not_served"] for each in topic["partitions"]] for topic in topics} == {
        "t": [None, SAYS_NO, None],
        "well": [None],
    }


async def test_a_metric_counts_it(tmp_path: Path) -> None:
    async with started(tmp_path) as broker:
        serving = readiness.Readiness()
        serving.serves(broker)

        def told() -> list[object]:
            return [row for family, rows in BrokerMetrics(serving)() if family is NOT_LED for row in rows]

        assert told() == [({}, 1)]
        del broker.replicas.partitions["t", 2]
        assert told() == [({}, 2)]
