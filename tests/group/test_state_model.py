"""The group's state machine under thousands of random interleavings (see model.py)."""

import logging
import os

import pytest

from tests.group.model import World

STEPS = 150


def run(seed: int) -> World:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.settle()
    return world


def test_random_lives_of_a_group() -> None:
    first = int(os.environ.get("OTTLA_SEED", "0"))
    worlds = [run(seed) for seed in range(first, first + 2_000)]
    # The lives must be worth it: generations, assignments, commits.
    assert sum(world.generation for world in worlds) > 2_000
    assert sum(bool(world.assigned) for world in worlds) > 500
    assert sum(world.committed for world in worlds) > 500


@pytest.mark.soak
def test_many_more_lives(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # pytest would keep what they log: 700 MB
    for seed in range(10_000, 100_000):
        run(seed)
