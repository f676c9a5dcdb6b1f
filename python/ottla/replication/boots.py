"""The unclean-shutdown marker of a log directory: did the machine lose its power while the directory was open?

A process that is killed loses nothing: what it wrote is in the page cache, and the next process reads it. With the
machine goes what no disk had. The two are told apart by the kernel's boot id, which is another one after every start of
the machine. The directory's `.ottla_boot` has the one under which the directory was opened last, and the partitions
whose logs may have lost records at their ends. Those stay in it over restarts, until something shows that such a log
has all that it must have (`unclean_start.py`). Kafka does not look at the file.

It also has the partitions whose logs were gone, until that is seen to.

A directory that was left without a clean-shutdown mark and without this file (by Kafka, or by an older Ottla) is taken
for one that lost its power: nobody knows.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

import msgspec

from ottla.kafka import PartitionKey
from ottla.replication.data_directory import DataDirectory, replace_file

logger = logging.getLogger(__name__)

FILE: Final = ".ottla_boot"
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
#: For tests, which cannot restart the machine: what the boot id is taken to be.
VARIABLE: Final = "OTTLA_BOOT_ID"


class Boot(msgspec.Struct, frozen=True):
    """The content of `.ottla_boot`."""

    boot_id: str
    suspects: tuple[tuple[str, int], ...] = ()
    #: Not in this directory, nor in another one, though their logs had been somewhere.
    without_log: tuple[tuple[str, int], ...] = ()
    #: Nobody has looked yet which partitions should be in this directory, which is new.
    is_new: bool = False


def boot_id() -> str:
    """The machine's boot id; empty where the system has none, which is like no other."""
    if known := os.environ.get(VARIABLE):
        return known
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def suspects(directory: DataDirectory, logs: Collection[PartitionKey], boot: str) -> set[PartitionKey]:
    """Which of the `logs` that are in a directory may have lost their ends: all of them, if the directory was not left
    clean under this boot, and those of which that was known before.
    """
    last = _read(directory.path)
    native = directory.native
    if native is not None and not native.was_clean and (last is None or not boot or last.boot_id != boot):
        return set(logs)
    return set() if last is None else set(last.suspects) & set(logs)


def without_log(directory: DataDirectory) -> set[PartitionKey]:
    """The partitions whose logs were gone when that was written down."""
    last = _read(directory.path)
    return set() if last is None else set(last.without_log)


def is_new(directory: DataDirectory) -> bool:
    """Whether the directory is new: it has been no broker's, or nobody has looked since what it lacks. Raises
    ConfigError.
    """
    last = _read(directory.path)
    return not directory.identity() or (last is not None and last.is_new)


def note_new(directory: DataDirectory, boot: str) -> None:
    """Writes down that the directory is new, before it becomes this broker's."""
    _write(directory, Boot(boot, is_new=True))


def note(
    directory: DataDirectory, suspects: Collection[PartitionKey], boot: str, without_log: Collection[PartitionKey] = ()
) -> None:
    """Writes down that the directory is open under this boot, what it is not sure of, and what is gone. Returns when
    that would survive a power cut.

    A disk that is full keeps nobody from serving: the file stays as it was, and more logs are suspected at the next
    start than need be.
    """
    _write(directory, Boot(boot, tuple(sorted(suspects)), tuple(sorted(without_log))))


def _write(directory: DataDirectory, now: Boot) -> None:
    if _read(directory.path) == now:
        return
    try:
        replace_file(directory.path / FILE, msgspec.json.encode(now).decode() + "\n")
    except OSError as error:
        logger.warning("%s cannot be written: %s", directory.path / FILE, error)


def _read(directory: Path) -> Boot | None:
    """None if there is no such file, or none that can be understood."""
    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=Boot)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
