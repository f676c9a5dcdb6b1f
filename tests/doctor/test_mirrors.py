"""The doctor's findings about mirrors: that nobody copies, that nothing beats, what lags, and whose checkpoints are
old.
"""

import sys
import time
from pathlib import Path

import pytest
import trio

from ottla.client import Producer
from ottla.client.groups import Committed
from ottla.doctor import mirrors as checked
from ottla.doctor.findings import Finding, Level, Report
from ottla.doctor.mirrors import Mirrors, check_mirrors
from ottla.kafka import TopicPartition
from ottla.mirror.formats import Checkpoint, Heartbeat
from ottla.mirror.status import Progress, Status
from tests.mirror.sides import Side, holds, mirror, running, sides
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio
T = TopicPartition("t", 0)
FILE = "m.properties"


async def look(*both: Side, **settings: str) -> Finding:
    """The only finding."""
    report = Report("a test")
    await check_mirrors(report, Mirrors(FILE, mirror(*both, **settings).config), PATIENCE_S, 1000)
    (found,) = report.findings
    return found


async def test_a_flow_that_nobody_copies(tmp_path: Path) -> None:
    async with sides(tmp_path) as (one, two):
        found = await look(one, two)
        assert (found.level, found.found) == (Level.PROBLEM, "A->B is copied by no instance")
        assert found.todo == "start one: `ottla mirror m.properties`"
        # Somebody does.
        async with Producer(two.cluster) as producer:
            await two.admin.create_topic("heartbeats", 1, 1)
            beat = Heartbeat("A", "B", int(time.time() * 1000))
            await producer.send_and_wait("heartbeats", beat.value(), key=beat.key())
        found = await look(one, two)
        assert (found.level, "MirrorMaker 2 seems to copy it" in found.found) == (Level.SKIPPED, True)


async def test_one_that_is_well(tmp_path: Path) -> None:
    async with sides(tmp_path) as (one, two):
        await one.admin.create_topic("t", 1, 1)
        async with Producer(one.cluster) as producer:
            await producer.send_and_wait("t", b"1")
        async with running(copies := mirror(one, two)):
            await two.records("A.t", 1)
            await two.records("heartbeats", 1)
            await holds(lambda: copies.figures["A->B"].positions.get(T) == 1)
            found = await look(one, two)
            assert (found.level, found.found) == (Level.OK, "A->B is copied by 1 instance, lag 0")


async def test_heartbeats_that_do_not_come(tmp_path: Path) -> None:
    async with sides(tmp_path) as (one, two):
        await one.admin.create_topic("t", 1, 1)
        async with running(copies := mirror(one, two, emit_heartbeats_interval_seconds="600")):
            await holds(lambda: T in copies.figures["A->B"].positions)
            found = await look(one, two, emit_heartbeats_interval_seconds="2")
            assert found.level is Level.WARNING
            assert found.found == "A->B has no heartbeat of the last 16 s, and is to have one every 2 s"
            assert "`ottla mirror status m.properties`" in found.todo
            # Where none are to be written, none are missed.
            assert (await look(one, two, emit_heartbeats_enabled="false")).level is Level.OK


async def test_checkpoints_that_are_old(tmp_path: Path) -> None:
    async with sides(tmp_path) as (one, two):
        await one.admin.create_topic("t", 1, 1)
        async with Producer(one.cluster) as producer:
            for _ in range(20):
                await producer.send("t", b"v")
        settings = {"emit.heartbeats.enabled": "false", "emit.checkpoints.interval.seconds": "60"}
        async with running(mirror(one, two, emit_heartbeats_enabled="false", emit_checkpoints_interval_seconds="600")):
            await two.records("A.t", 20)
            await one.admin.groups.commit("g", {T: Committed(10)})
            await told(two, Checkpoint("g", TopicPartition("A.t", 0), 10, 10))
            with trio.fail_after(PATIENCE_S):
                while (await look(one, two, **settings)).level is not Level.OK:
                    await trio.lowlevel.checkpoint()
            await one.admin.groups.commit("g", {T: Committed(15)})
            found = await look(one, two, **settings)
            assert found.level is Level.WARNING
            assert found.found.startswith("A->B: 1 checkpoint is older than 60 s, and the groups have moved: g in t-0")
            assert "`ottla mirror m.properties`" in found.todo


async def told(side: Side, checkpoint: Checkpoint) -> None:
    """A checkpoint of ten minutes ago."""
    async with Producer(side.cluster) as producer:
        before_ms = int((time.time() - 600) * 1000)
        topic = "A.checkpoints.internal"
        await producer.send_and_wait(topic, checkpoint.value(), key=checkpoint.key(), timestamp_ms=before_ms)


async def test_partitions_that_lag_or_are_not_begun(tmp_path: Path) -> None:
    async with sides(tmp_path) as (one, two):
        flow = mirror(one, two).config.flows[0]
        partitions = {
            T: Progress(5, 5000),
            TopicPartition("t", 1): Progress(4900, 5000),
            TopicPartition("t", 2): Progress(None, 7),
            TopicPartition("t", 3): Progress(None, 0),
        }
        report = Report("a test")
        status = Status("A->B", 1, "Stable", partitions)
        checked._Flow(report, FILE, flow, status, one.cluster, two.cluster).check_lag(1000)
        late, waiting = report.findings
        assert late.found == "A->B: 1 partition is more than 1,000 offsets behind: t-0 (4,995)"
        assert "`ottla mirror status m.properties`" in late.todo
        assert waiting.found == "A->B: 1 partition is not begun: t-2"
        assert {late.level, waiting.level} == {Level.WARNING}


async def test_clusters_that_do_not_answer(tmp_path: Path) -> None:
    async with sides(tmp_path) as (one, two):
        away = two._replace(bootstrap="127.0.0.1:1")
        report = Report("a test")
        await check_mirrors(report, Mirrors(FILE, mirror(one, away).config), 0.5, 1000)
        (found,) = report.findings
        assert (found.level, found.found.startswith("A->B cannot be looked at: ")) == (Level.PROBLEM, True)
        assert "`ottla doctor`" in found.todo


async def test_the_command(tmp_path: Path) -> None:
    async with sides(tmp_path) as (one, two):
        file = tmp_path / FILE
        file.write_text(
            "clusters = A, B\nA->B.enabled = true\n"
            f"A.bootstrap.servers = {one.bootstrap}\nB.bootstrap.servers = {two.bootstrap}\n"
        )
        command = [sys.executable, "-m", "ottla", "doctor", one.bootstrap, "--mirror"]
        done = await trio.run_process([*command, str(file)], capture_stdout=True, check=False)
        assert (done.returncode, "mirror" in done.stdout.decode()) == (2, True)
        assert f"start one: `ottla mirror {file}`" in done.stdout.decode()
        done = await trio.run_process([*command, "none"], capture_stderr=True, capture_stdout=True, check=False)
        assert done.returncode == 1
        assert "cannot look at the mirrors" in done.stderr.decode()
