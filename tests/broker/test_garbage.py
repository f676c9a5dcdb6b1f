"""What is frozen, and that garbage is found all the same; in processes of their own, since the collector is one's."""

import subprocess
import sys
from pathlib import Path


def run(program: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, timeout=60)


BEGIN = """
import gc, weakref
from ottla.broker.garbage import Freezer
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


PARTITIONS = """
import gc, sys, trio
from ottla.broker.broker import Broker
from ottla.config import BrokerConfig
from ottla.controller import NewTopic, create_topic
from tests.support.waiting import comes_true

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
        with trio.fail_after(50):
            # The controller has heard that the broker knows, and forgets what it told.
            await comes_true("the end of most of what was watched", lambda: watched() <= before + 1.5 * 500)
        assert watched() > before + 500, "the partitions themselves"

trio.run(main)
"""


def test_a_partition_is_one_object_for_the_collector(tmp_path: Path) -> None:
    run(PARTITIONS, str(tmp_path / "data"))
