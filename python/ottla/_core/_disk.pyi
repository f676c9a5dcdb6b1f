"""Disks that break on purpose (rust/py/disk.rs, rust/storage/brittle)."""

from os import PathLike
from typing import Literal, Self, final

@final
class BrittleDisk:
    """The disk under the data directory of a broker inside a program: what it does with the files of partitions, and
    what a power cut leaves of them.
    """

    def __new__(cls) -> Self: ...
    def stand_for(self, directory: str | PathLike[str]) -> None:
        """The logs that are opened in `directory` from now on lie on this disk."""

    def forget(self) -> None:
        """It stands for no directory, and all that was written is durable."""

    def add(
        self,
        operation: Literal["read", "write", "sync"],
        *,
        topic: str | None,
        partition: int | None,
        errno: int | None,
        is_lost: bool,
        delay_s: float,
        after: int,
        times: int | None,
    ) -> BrittleDiskRule:
        """A rule for the operations on the records of a partition: `after` of them go by, and `times` meet it."""

    def set_clock_ahead_ms(self, ahead_ms: int) -> None:
        """The wall clock of the logs on it is ahead of this process's by so many milliseconds."""

    def lose_power(self, seed: int | None = None) -> None:
        """The power is lost, and with it all that was not synced; with a seed a part of it, which the seed chooses. All
        that was opened before fails from now on. Raises OSError.
        """

@final
class BrittleDiskRule:
    hits: int  # how many operations have met it
    is_spent: bool  # it will meet no more

    def wait(self, count: int, timeout_s: float) -> int:
        """Waits for `count` hits, or until the time has passed; how many there are then."""

    def remove(self) -> None:
        """Ends it."""
