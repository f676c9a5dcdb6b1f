"""How long a run of faults lasts and which seed decides what happens in it: the environment says, or a default."""

import os
import random
from collections.abc import Iterator
from time import monotonic

#: One partition for each of the coordinators' topics: a restart loads little.
COORDINATORS = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}


def seconds(short: float) -> float:
    """$OTTLA_FAULT_SECONDS, else `short`."""
    return float(os.environ.get("OTTLA_FAULT_SECONDS", short))


def seed() -> int:
    """$OTTLA_FAULT_SEED, else a new one. Printed, so that a failed test shows it."""
    chosen = int(os.environ.get("OTTLA_FAULT_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"OTTLA_FAULT_SEED={chosen}")
    return chosen


def until(end: float) -> Iterator[int]:
    """Counts until the monotonic clock shows `end`, once at least."""
    number = 0
    while number == 0 or monotonic() < end:
        yield number
        number += 1
