"""What waits for the controller's attention: each event once, the urgent ones first.

Events of a kind that wait are one event, because each handler reads what the tree holds *now*. So no change is missed,
and a burst of changes costs one read. Who is alive and who is the controller comes before everything else: whatever is
decided without knowing that is decided again. Then come leaders that ask for another ISR, since their high watermark
waits for the answer, and brokers that shut down.
"""

from __future__ import annotations

from typing import Any, Final

import trio

from ottla.controller.timings import Timings

Event = tuple[Any, ...]

#: Every watch is gone, with the connection: the whole tree is read again. One event, however many watches there were.
LOOK_AGAIN: Final[Event] = ("look again",)
#: The part of it that is not urgent. A connection that is lost again and again must not keep the controller from all
#: other work.
LOOK_AT_REST: Final[Event] = ("look at the rest",)

#: The process of another broker is gone, which may be the controller's.
CONTROLLER_GONE: Final[Event] = ("controller gone",)

#: Lower is sooner; what is not named comes last.
URGENCY: Final = {
    "session": 0,
    "controller": 0,
    LOOK_AGAIN[0]: 0,
    "brokers": 1,
    "broker": 1,
    "gone": 1,
    "urgent order": 2,
}
LEAST: Final = 3
#: The kinds that a watch puts in, and that LOOK_AGAIN and LOOK_AT_REST cover.
LOOKS: Final = frozenset(
    (
        "controller",
        "brokers",
        "broker",
        "topics",
        "topic",
        "deletions",
        "isr changes",
        "log dir events",
        "elections",
        "reassignments",
    )
)


class Events:
    """One reader and any number of writers, all on the loop."""

    def __init__(self, timings: Timings | None = None) -> None:
        self._timings = timings or Timings()
        #: Since when each waits.
        self._waiting: tuple[dict[Event, float], ...] = tuple({} for _ in range(LEAST + 1))
        self._filled = trio.Event()

    def __contains__(self, event: Event) -> bool:
        return event in self._with(event)

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting))

    def put(self, event: Event) -> None:
        """An event that waits already keeps its place."""
        self._with(event).setdefault(event, self._timings.now())
        self._filled.set()

    def clear(self) -> None:
        for events in self._waiting:
            events.clear()

    def drop_looks(self) -> None:
        """Forgets what says that something in the tree has changed: its reader is about to read everything."""
        for events in self._waiting:
            for event in [event for event in events if event[0] in LOOKS or event == LOOK_AGAIN]:
                del events[event]

    async def changed(self) -> None:
        """Returns once something is put in after this call."""
        self._filled = trio.Event()
        await self._filled.wait()

    async def take(self) -> Event:
        """The most urgent event; of those that are equally urgent the one that waits longest."""
        while True:
            for events in self._waiting:
                for event, put_s in events.items():
                    del events[event]
                    self._timings.taken(put_s)
                    return event
            await self.changed()

    def _with(self, event: Event) -> dict[Event, float]:
        return self._waiting[URGENCY.get(event[0], LEAST)]
