"""What is frozen, and that garbage is found all the same; in processes of their own, since the collector is one's."""

import subprocess
import sys


def run(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


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
