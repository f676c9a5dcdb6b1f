"""The rules and recordings of a broker inside a program: what it does with requests besides serving them.

A plan belongs to an `ottla.Broker`, and holds in all of its lives. It is changed by any thread, and asked in the
broker's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from ottla.broker.faults.deeds import Asked, Deed

#: The client that a broker inside a program has itself, to create topics: it is neither recorded nor disturbed.
OWN_CLIENT: Final = "ottla-embedded"


class Rule(Protocol):
    """May have a request end otherwise. All methods but `is_spent` are called in the broker's thread."""

    @property
    def is_spent(self) -> bool:
        """True if it will never do anything again."""

    def decide(self, asked: Asked) -> Deed | None:
        """The fate of a request of which no rule before this one has decided; None: this one leaves it alone."""

    def passed(self, asked: Asked) -> None:
        """A request came, and another rule has decided of it."""


class Recorder(Protocol):
    """Is shown every request, in the broker's thread."""

    def see(self, asked: Asked) -> None: ...


class Plan:
    """The rules and recorders of one broker. `arrange` has the broker look whether there are any."""

    def __init__(self, arrange: Callable[[], None]) -> None:
        self._arrange = arrange
        self._lock = threading.Lock()
        self.rules: tuple[Rule, ...] = ()
        self.recorders: tuple[Recorder, ...] = ()

    def add_rule(self, rule: Rule) -> None:
        """Returns when requests that come are asked about."""
        with self._lock:
            self.rules = (*self.rules, rule)
        self._arrange()

    def remove_rules(self, are_gone: Callable[[object], bool]) -> None:
        """Returns when they decide about nothing any more."""
        with self._lock:
            self.rules = tuple(rule for rule in self.rules if not are_gone(rule))
        self._arrange()

    def add_recorder(self, recorder: Recorder) -> None:
        """Returns when requests that come are shown."""
        with self._lock:
            self.recorders = (*self.recorders, recorder)
        self._arrange()

    def remove_recorder(self, recorder: Recorder) -> None:
        """Returns when nothing is shown any more."""
        with self._lock:
            self.recorders = tuple(each for each in self.recorders if each is not recorder)
        self._arrange()

    # --- asked by the broker ---

    def is_used(self) -> bool:
        return bool(self.rules or self.recorders)

    def decide(self, asked: Asked) -> Deed | None:
        if asked.client_id == OWN_CLIENT:
            return None
        if not asked.is_of_broker:
            for recorder in self.recorders:
                recorder.see(asked)
        deed = None
        for rule in self.rules:
            if deed is None:
                deed = rule.decide(asked)
            else:
                rule.passed(asked)
        if deed is not None and any(rule.is_spent for rule in self.rules):
            with self._lock:
                self.rules = tuple(rule for rule in self.rules if not rule.is_spent)
        return deed
