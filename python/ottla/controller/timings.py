"""How long the controller's events wait and take, by kind: plain numbers, written at each event, read by metrics.

Kinds are Kafka's (`ControllerState.scala` of 2.7), in the names that its timers have; each of the `events` says of
which it is. Brokers that come, leave or change are `leaderelection`, because that is when leaders are elected. Kafka
has three more, for what is no event here: listing moves, features, and the controller's own end.

Quantiles are of the last five to ten minutes, as those of requests: two tables of counts, of which the older goes when
the younger is five minutes old. A table has one place for each sixteenth of a power of two, so what is read from it is
off by 3 % at most, and it stays small whatever comes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

#: As those of requests (`rust/net/meter.rs`).
QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
TABLE_S: Final = 300.0
_BITS: Final = 5

CONTROLLER_CHANGE: Final = "controllerchange"
LEADER_ELECTION: Final = "leaderelection"
TOPIC_CHANGE: Final = "topicchange"
TOPIC_DELETION: Final = "topicdeletion"
REASSIGNMENT: Final = "partitionreassignment"
AUTO_BALANCE: Final = "autoleaderbalance"
MANUAL_BALANCE: Final = "manualleaderbalance"
SHUTDOWN: Final = "controlledshutdown"
ISR_CHANGE: Final = "isrchange"
ROLES_ANSWERED: Final = "leaderandisrresponsereceived"
LOG_DIR_CHANGE: Final = "logdirchange"
UNCLEAN_ENABLED: Final = "uncleanleaderelectionenable"
UNCLEAN_ENABLED_OF_TOPIC: Final = "topicuncleanleaderelectionenable"

KINDS: Final = (
    CONTROLLER_CHANGE,
    LEADER_ELECTION,
    TOPIC_CHANGE,
    TOPIC_DELETION,
    REASSIGNMENT,
    AUTO_BALANCE,
    MANUAL_BALANCE,
    SHUTDOWN,
    ISR_CHANGE,
    ROLES_ANSWERED,
    LOG_DIR_CHANGE,
    UNCLEAN_ENABLED,
    UNCLEAN_ENABLED_OF_TOPIC,
)


class Durations:
    """How often something took how long. No clock: every call is told the time."""

    __slots__ = ("_began_s", "_older", "_younger", "count")

    def __init__(self) -> None:
        #: Ever.
        self.count = 0
        self._older: Counter[int] = Counter()
        self._younger: Counter[int] = Counter()
        self._began_s = 0.0

    def record(self, seconds: float, now_s: float) -> None:
        self._turn(now_s)
        self.count += 1
        self._younger[_place(max(0, int(seconds * 1e6)))] += 1

    def quantiles_ms(self, now_s: float) -> list[float]:
        """Milliseconds for each of QUANTILES; zeros if there was nothing lately."""
        self._turn(now_s)
        counts = sorted((self._older + self._younger).items())
        total = sum(count for _, count in counts)
        told: list[float] = []
        seen = at = 0
        for quantile in QUANTILES:
            while at < len(counts) and seen + counts[at][1] < quantile * total:
                seen += counts[at][1]
                at += 1
            told.append(_middle_us(counts[at][0]) / 1000 if at < len(counts) else 0.0)
        return told

    def _turn(self, now_s: float) -> None:
        if (age_s := now_s - self._began_s) >= TABLE_S:
            is_next = age_s < 2 * TABLE_S
            self._older = self._younger if is_next else Counter()
            self._younger = Counter()
            self._began_s = self._began_s + TABLE_S if is_next else now_s


def _place(us: int) -> int:
    """The value without what comes after its first bits."""
    shift = max(0, us.bit_length() - _BITS)
    return us >> shift << shift


def _middle_us(place: int) -> float:
    return place + (1 << max(0, place.bit_length() - _BITS)) / 2 if place.bit_length() > _BITS else place


class Timings:
    """Those of one broker's controller, whether or not it is the active one now."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: How long events waited for those before them.
        self.queue = Durations()
        #: How long they took, by `KINDS`.
        self.events = {kind: Durations() for kind in KINDS}

    def now(self) -> float:
        return self._clock()

    def taken(self, put_s: float) -> None:
        """An event that was put in at `put_s` is handled now."""
        now_s = self._clock()
        self.queue.record(now_s - put_s, now_s)

    @contextmanager
    def timed(self, kind: str | None) -> Iterator[None]:
        """Counts what is done inside, also if it fails. None: it is of no kind."""
        begin_s = self._clock()
        try:
            yield
        finally:
            if kind is not None:
                now_s = self._clock()
                self.events[kind].record(now_s - begin_s, now_s)
