"""The disk of a broker inside a program: what fails of it on purpose, and what a power cut leaves of it."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from ottla._core import BrittleDisk, BrittleDiskRule
from ottla.config.nearest import hint
from ottla.embedded.handle import Handle
from ottla.embedded.hits import PATIENCE_S
from ottla.replication import boots

Operation = Literal["read", "write", "sync"]
OPERATIONS: Final = ("read", "write", "sync")
#: What a system says of a disk: it is broken, full, over its quota, read-only, gone; or of what it lacks itself.
ERRORS: Final = ("EIO", "ENOSPC", "EDQUOT", "EROFS", "ENODEV", "ENXIO", "ESTALE", "EMFILE", "ENFILE", "ENOMEM")
#: The longest that an operation may take. A disk that takes longer is one that hangs, and nobody stops such a broker.
DELAY_S_MAX: Final = 60.0


class DiskRule(NamedTuple):
    """Which operations meet a fault, and what becomes of them."""

    operation: Operation
    error: str | None
    is_lost: bool
    delay_s: float
    topic: str | None
    partition: int | None
    after: int
    times: int | None

    def check(self) -> None:
        """Raises ValueError for what does not fit together."""
        if self.operation not in OPERATIONS:
            known = ", ".join(map(repr, OPERATIONS))
            raise ValueError(f"disk is {self.operation!r}; it may be {known}{hint(self.operation, OPERATIONS)}")
        if self.is_lost and self.error is not None:
            raise ValueError("error and lost are given: only one of them can happen")
        if self.is_lost and self.operation != "sync":
            raise ValueError(f"a {self.operation} cannot be lost: only an fsync can (disk='sync')")
        if not (self.is_lost or self.error is not None or self.delay_s):
            raise ValueError("nothing would happen: say an error, a delay, or lost=True")
        if not 0 <= self.delay_s <= DELAY_S_MAX:
            text = f"it is a number of seconds, from 0 to {DELAY_S_MAX:g} for a disk"
            raise ValueError(f"delay is {self.delay_s}; {text}")


class DiskFault(Handle):
    """One fault of a disk: which operations meet it, and how many have."""

    def __init__(self, rule: BrittleDiskRule, name: str) -> None:
        self._rule = rule
        self._name = name

    def __repr__(self) -> str:
        return f"<fault in {self._name}, {self.hits} hits>"

    @property
    def hits(self) -> int:
        return self._rule.hits

    @property
    def is_spent(self) -> bool:
        """True if it will never meet anything again."""
        return self._rule.is_spent

    def wait(self, count: int = 1, timeout: float = PATIENCE_S) -> None:
        hits = self._rule.wait(count, timeout)
        if hits < count:
            raise TimeoutError(f"{self!r}: {hits} of {count} in {timeout} s")

    def remove(self) -> None:
        self._rule.remove()


class Disk:
    """The disk of one broker, in all of its lives. `check` raises where it may not be changed."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        #: There is a directory for which it stands.
        self.is_used = False
        self._native = BrittleDisk()
        self._lock = threading.Lock()
        self._faults: list[DiskFault] = []

    @property
    def faults(self) -> list[DiskFault]:
        """Those that may meet an operation yet."""
        with self._lock:
            self._faults = [fault for fault in self._faults if not fault.is_spent]
            return [*self._faults]

    def add(self, rule: DiskRule) -> DiskFault:
        """Raises ValueError for what does not fit together; see `Faults.add`."""
        self._check()
        rule.check()
        native = self._native.add(
            rule.operation,
            topic=rule.topic,
            partition=rule.partition,
            errno=None if rule.error is None else _number(rule.error),
            is_lost=rule.is_lost,
            delay_s=rule.delay_s,
            after=rule.after,
            times=rule.times,
        )
        fault = DiskFault(native, f"each {rule.operation} of the disk")
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """Removes all faults."""
        for fault in self.faults:
            fault.remove()
        with self._lock:
            self._faults = []

    def stand_for(self, directory: Path) -> None:
        """The logs that are opened in this directory from now on lie on it."""
        self._native.stand_for(directory)
        self.is_used = True

    def forget(self) -> None:
        """The directory is gone, or is left alone from now on."""
        self._native.forget()
        self.is_used = False

    def set_clock_ahead_ms(self, ahead_ms: int) -> None:
        """The wall clock of its logs is ahead of this process's by so much."""
        self._native.set_clock_ahead_ms(ahead_ms)

    def lose_power(self, directory: Path, seed: int | None) -> None:
        """The power is lost, and with it what was not synced. No log is open in the directory. Raises OSError."""
        self._native.lose_power(None if seed is None else seed % 2**64)
        boot = directory / boots.FILE
        if boot.exists():
            # The machine is the same, and its broker must not find that out.
            known = msgspec.json.decode(boot.read_bytes(), type=boots.Boot)
            boot.write_bytes(msgspec.json.encode(msgspec.structs.replace(known, boot_id="")))


def _number(error: str) -> int:
    """The number of a system's error. Raises ValueError, with the nearest name, if disks have none called so."""
    if error not in ERRORS:
        raise ValueError(f"no error of a disk is called {error!r}; it may be {', '.join(ERRORS)}{hint(error, ERRORS)}")
    number: int = getattr(errno, error)
    return number
