"""Objects are frozen, and garbage is found all the same; in processes of their own, since the collector is one's."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S


def run(program: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, timeout=PATIENCE_S)


BEGIN = """
import gc, weakref
from ottla.garbage import Freezer
gc.disable()
class Thing: pass
def things(count):
    made = [Thing() for _ in range(count)]
    for each in made: each.cycle = each
    return made
Freezer(many=2000).start()
began = gc.get_freeze_count()
"""


def test_what_stays_is_looked_at_once() -> None:
    run(
        BEGIN
        + """
gc.collect()
assert gc.get_freeze_count() == began, "few objects are not worth it"
kept = things(3000)
gc.collect()
assert gc.get_freeze_count() > began + 2999
"""
    )


def test_garbage_of_what_was_frozen_is_found_when_there_may_be_much_of_it() -> None:
    run(
        BEGIN
        + """
kept = things(3000)
gc.collect()
lost = weakref.ref(kept[0])
del kept
gc.collect()
assert lost() is not None, "it was frozen"
more = things(began)
gc.collect()
gc.collect()
assert lost() is None
assert gc.get_freeze_count() > 1.5 * began
"""
    )


def test_rows_of_a_large_request_are_not_looked_at_again() -> None:
    run(
        BEGIN
        + """
from ottla import garbage
lost = things(3000)
gc.collect()
lost = weakref.ref(lost[0])
garbage.hold()
rows = things(2 * began)
gc.collect()
gc.collect()
assert lost() is not None
del rows
garbage.let_go()
more = things(3000)
gc.collect()
gc.collect()
assert lost() is None
"""
    )


PARTITIONS = """
import gc, sys, trio
from ottla.broker.broker import Broker
from ottla.config import BrokerConfig
from ottla.controller import NewTopic, create_topic
from tests.support.waiting import PATIENCE_S, comes_true

def watched():
    gc.collect()
    return len(gc.get_objects())

async def main():
    config = BrokerConfig({"log.dirs": sys.argv[1], "listeners": "PLAINTEXT://127.0.0.1:0"})
    async with Broker.start(config) as broker:
        await create_topic(broker.tree, NewTopic("first", 1, 1))
        await broker.metadata.wait_until(lambda: "first" in broker.metadata.topics)
        before = watched()
        await create_topic(broker.tree, NewTopic("many", 500, 1))
        await broker.metadata.wait_until(lambda: len(broker.metadata.topics.get("many", ())) == 500)
        with trio.fail_after(PATIENCE_S):
            # The controller has heard that the broker knows, and forgets what it told.
            await comes_true("the end of most of what was watched", lambda: watched() <= before + 1.5 * 500)
        assert watched() > before + 500, "the partitions themselves"

trio.run(main)
"""


def test_a_partition_is_one_object_for_the_collector(tmp_path: Path) -> None:
    run(PARTITIONS, str(tmp_path / "data"))


LARGE_REQUEST = """
import gc, sys, trio
from ottla import slices
from ottla.garbage import Freezer

slices.LOOKS_MAX = 0
if sys.argv[1] == "owner":
    Freezer().start()
before = gc.get_freeze_count()
rows = [[] for _ in range(1000)]
trio.run(slices.Slices().end)
frozen = gc.get_freeze_count() - before
assert frozen > 1000 if sys.argv[1] == "owner" else frozen == before == 0, frozen
"""


@pytest.mark.parametrize("who", ["owner", "guest"])
def test_the_collector_is_left_alone_in_a_process_of_somebody_else(who: str) -> None:
    run(LARGE_REQUEST, who)
