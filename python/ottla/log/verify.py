"""`verify`: what is damaged in a partition's folder or a data directory, file by file."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

from ottla import _core

PARTITION = re.compile(r"\S+-\d+")
"""The name of a partition's folder."""
OF_LOGS = re.compile(r"\d{20}\.(log|index|timeindex|txnindex|snapshot)|leader-epoch-checkpoint|partition\.metadata")
"""The name of a file that only a partition's folder has. One without its `.log` is damaged, and still one."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is wrong."""

    path: str
    position: int
    """Bytes from the start of the file."""
    problem: str

    def __str__(self) -> str:
        return f"{self.path} at byte {self.position}: {self.problem}"


@dataclass(slots=True)
class Report:
    """What was found, and how much was looked at."""

    damage: list[Damage] = field(default_factory=list)
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0


def partitions(path: str | os.PathLike[str]) -> list[str]:
    """The partitions' folders in a data directory, or the folder itself if it is one. Raises FileNotFoundError, and
    NotADirectoryError for a file: a log is whole or damaged as a folder.
    """
    path = os.path.abspath(path)
    if _is_partition(path):
        return [path]
    with os.scandir(path) as entries:
        return sorted(entry.path for entry in entries if entry.is_dir() and _is_partition(entry.path))


def _is_partition(folder: str) -> bool:
    """Many folders are called like one (`python-3`)."""
    return PARTITION.fullmatch(os.path.basename(folder)) is not None and any(map(OF_LOGS.fullmatch, os.listdir(folder)))


def verify(path: str | os.PathLike[str]) -> Report:
    """Reads every file of a partition's folder, or of all in a data directory, and changes nothing.

    Looked at: every batch's checksum, lengths, offsets and leader epoch, every record in it (unpacked if need be);
    every index entry against the batches; aborted transactions against their markers; producer snapshots; the
    leader-epoch table. The search goes on behind damage. Beside a running broker the end of a log may look torn: that
    is a batch on its way.
    """
    report = Report()
    for folder in partitions(path):
        found = _core.verify_log(folder)
        report.partitions += 1
        report.segments += found.segments
        report.batches += found.batches
        report.records += found.records
        report.bytes += found.bytes
        report.damage += [Damage(each.path, each.position, each.problem) for each in found.damage]
    return report
