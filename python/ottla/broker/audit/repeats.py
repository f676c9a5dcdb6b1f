"""Things that happen again: the first is told, those of the next minute are counted, and the count is told after it.

One address may do many different things in a minute, such as to try one name after another. After `OF_ADDRESS_MAX`
different things of an address, what is new is one thing: others of this address. So nobody drives older lines out of
the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, TypeAlias

#: For so long what happens again is counted.
WINDOW_S: Final = 60.0
#: Different things of one address in that time.
OF_ADDRESS_MAX: Final = 500
#: Different things of all addresses; each takes less than 2 KB.
THINGS_MAX: Final = 10_000

Fields: TypeAlias = dict[str, object]


@dataclass(slots=True)
class _Seen:
    fields: Fields
    since_s: float
    address: str
    left_out: int = 0


class Repeats:
    """A state machine: it is given the time, in seconds, which does not go back."""

    def __init__(self) -> None:
        #: The oldest first. The key is a hash: what was asked for may be long.
        self._seen: dict[int, _Seen] = {}
        self._of_address: Counter[str] = Counter()

    def told(
        self, event: str, address: str, thing: Hashable, fields: Callable[[], Fields], now_s: float
    ) -> list[Fields]:
        """The lines that are due now that a thing has happened. `fields` makes those of its first line."""
        key = hash((event, address, thing))
        seen = self._seen.get(key)
        if seen is not None and now_s - seen.since_s < WINDOW_S:
            seen.left_out += 1
            return []
        due = self.due(now_s)
        if self._of_address[address] >= OF_ADDRESS_MAX:
            key = hash((event, address))
            if (seen := self._seen.get(key)) is not None:
                seen.left_out += 1
                return due
            made: Fields = {"event": event, "address": address, "others": True}
        else:
            made = fields()
        if len(self._seen) >= THINGS_MAX:
            due += self._end(next(iter(self._seen)))
        self._seen[key] = _Seen(made, now_s, address)
        self._of_address[address] += 1
        return [*due, made]

    def due(self, now_s: float) -> list[Fields]:
        """The counts of things whose time is over."""
        found: list[Fields] = []
        while self._seen:
            key = next(iter(self._seen))
            if now_s - self._seen[key].since_s < WINDOW_S:
                break
            found += self._end(key)
        return found

    def _end(self, key: int) -> list[Fields]:
        seen = self._seen.pop(key)
        self._of_address[seen.address] -= 1
        if not self._of_address[seen.address]:
            del self._of_address[seen.address]
        return [{**seen.fields, "left_out": seen.left_out}] if seen.left_out else []
