"""Partitions on real logs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import _core
from ottla.replication.in_sync import Proposal
from ottla.replication.partition import Partition
from tests.replication.one_partition import ME, Recording, append, state


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    directory = _core.LogDirectory.open(tmp_path)
    (log,) = directory.create("t", [0], _core.LogConfig())
    yield Partition("t", 0, ME, log)
    directory.close(clean=True)


@pytest.fixture
def proposals() -> list[Proposal]:
    return []


@pytest.fixture
def led(tmp_path: Path, proposals: list[Proposal]) -> Iterator[Partition]:
    """A partition of three replicas that are all in sync, with three records that none but the leader has."""
    directory = _core.LogDirectory.open(tmp_path)
    (log,) = directory.create("t", [0], _core.LogConfig())
    partition = Partition("t", 0, ME, log, Recording(proposals))
    partition.apply(state(0, replicas=(ME, 2, 3)))
    for _ in range(3):
        append(partition)
    partition.appended()
    yield partition
    directory.close(clean=True)


@pytest.fixture
def flushes(led: Partition) -> list[Partition]:
    """Who asked for a flush."""
    asked: list[Partition] = []
    led.owner.flush = asked.append
    return asked
