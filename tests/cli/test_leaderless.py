"""Commands that read offsets and records go on with what there is where one partition has no leader."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
import trio

from ottla.kafka import TopicPartition
from tests.client.scripted_cluster import World
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio
HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)
NO_LEADER = "t-0 has no leader now"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Partition 0 of `t` has no leader, partition 1 two records."""
    made = World(1, 2)
    made.topic("t", None, 2)
    made.topic("__consumer_offsets", 1)
    made[THERE].add(b"a", b"b")
    async with made.serving():
        yield made


async def ottla(world: World, *arguments: str, code: int = 0) -> tuple[str, str]:
    """The command's output on stdout and stderr."""
    command = [sys.executable, "-m", "ottla", *arguments, "--bootstrap", world.bootstrap]
    with trio.fail_after(PATIENCE_S):
        found = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    out, err = found.stdout.decode(), found.stderr.decode()
    assert found.returncode == code, (out, err)
    return out, err


async def test_consume_prints_the_others(world: World) -> None:
    out, _ = await ottla(world, "consume", "t", "--from-beginning", "-n", "2")
    assert out == "a\nb\n"


async def test_consume_names_it_and_prints_it_when_it_has_one(world: World) -> None:
    command = [sys.executable, "-m", "ottla", "consume", "t", "--from-beginning", "-n", "3"]
    with trio.fail_after(PATIENCE_S):
        process = await trio.lowlevel.open_process(
            [*command, "--bootstrap", world.bootstrap], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stderr is not None
        told = b""
        while NO_LEADER.encode() not in told:
            told += await process.stderr.receive_some()
        world[HERE].moves(1)
        world[HERE].add(b"late")
        printed = b""
        while data := await process.stdout.receive_some():
            printed += data
        assert await process.wait() == 0
    assert sorted(printed.split()) == [b"a", b"b", b"late"]


async def test_consume_to_the_end_says_what_is_missing(world: World) -> None:
    out, err = await ottla(world, "consume", "t", "--from-beginning", "-e", "--timeout-ms", "1000", code=1)
    assert out == "a\nb\n"
    assert f"Error: cannot consume 't': {NO_LEADER}" in err
    assert "2 records were printed" in err


async def test_describe_shows_the_rest_and_a_mark(world: World) -> None:
    world.committed |= {HERE: 5, THERE: 1}
    out, _ = await ottla(world, "group", "describe", "g")
    lines = [line.split() for line in out.splitlines()]
    assert ["t", "0", "5", "-", "-", "-", "-"] in lines
    assert ["t", "1", "1", "2", "1", "-", "-"] in lines
    assert out.splitlines()[-1].strip().startswith(NO_LEADER)


async def test_reset_leaves_it_as_it_is(world: World) -> None:
    world.committed |= {HERE: 5, THERE: 1}
    out, err = await ottla(world, "group", "reset", "g", "--to-latest", "--yes")
    assert world.committed == {HERE: 5, THERE: 2}
    assert f"t-0 stays as it is: {NO_LEADER}" in err
    assert "t-0" not in out
    world[THERE].moves(None)
    _, err = await ottla(world, "group", "reset", "g", "--to-earliest", "--yes", code=1)
    assert "none of the offsets of group 'g' can be set now" in err
