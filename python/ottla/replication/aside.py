"""Logs that were put aside: they are of topics that are no more, and another topic needs their place.

Their records may be all that is left of something, so they are not deleted. They cannot stay in a folder: Kafka does
not start on a directory that has one whose name is no partition's. Each of their files becomes a file of the data
directory itself, which Kafka leaves alone: `.ottla-aside.<id>.00000000000000000000.log`. `.ottla-aside.<id>.json` says
what they are.

| died | in the partition's folder | aside | next |
|---|---|---|---|
| before the first file moved | everything | the description, `is_whole` false | put aside again, under the same id |
| among the files | the later segments, and the note | the first ones | the same; what is aside stays as it is |
| before `is_whole` | no folder | everything | taken back, or left |
| taking back, before the first file | the note | everything | a start puts an empty log aside |
| taking back, among the files | the note, some files | the others, `is_whole` false | a start puts it aside again |
| taking back, before the note goes | everything, with the note | nothing | a start puts it aside again |

A folder appears with the note in it, and vanishes with it. So a start that finds a part of such a log finds that it is
another topic's, and no start makes an empty log of a folder that is being left.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from ottla.errors import StorageError
from ottla.replication import log_notes
from ottla.replication.data_directory import replace_file, sync_folder
from ottla.replication.log_notes import Note

PREFIX: Final = ".ottla-aside."
DESCRIPTION: Final = "json"


class Aside(msgspec.Struct, frozen=True):
    """A log that is put aside, as `.ottla-aside.<id>.json` describes it."""

    topic: str
    partition: int
    note: Note
    start_offset: int
    end_offset: int
    high_watermark: int
    put_aside_ms: int
    #: Whether all of its files are aside.
    is_whole: bool = False

    @property
    def folder_name(self) -> str:
        """Where it was."""
        return f"{self.topic}-{self.partition}"


def described(directory: Path, identity: str) -> Aside | None:
    """The log that is aside under an id; None without one that can be understood. Raises OSError."""
    try:
        return msgspec.json.decode(_description(directory, identity).read_bytes(), type=Aside)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def found(directory: Path) -> Iterator[tuple[str, Aside]]:
    """The logs that are aside in a data directory, by id. Raises OSError."""
    for path in sorted(directory.glob(f"{PREFIX}*.{DESCRIPTION}")):
        identity = path.name.removeprefix(PREFIX).removesuffix(f".{DESCRIPTION}")
        if (aside := described(directory, identity)) is not None:
            yield identity, aside


def put_aside(directory: Path, aside: Aside) -> str:
    """Moves the files of a partition's folder, whose log is closed, out of it; returns the id. Continues a call
    that was interrupted. Raises OSError, and StorageError for a folder that has others in it.
    """
    folder = directory / aside.folder_name
    identity = _identity(directory, aside)
    known = described(directory, identity)
    if known is None:
        replace_file(_description(directory, identity), _text(aside))
    else:
        # A start between may have opened the rest of the log, which says less.
        aside = known
    for name in _in_order(folder):
        source, target = folder / name, _place(directory, identity, name)
        if source.is_dir():
            raise StorageError(f"{source} is a folder, which is no part of a log: move it away")
        if target.exists():
            # Made by a start that came between.
            source.unlink()
        else:
            source.rename(target)
    leaving = _leaving(directory, aside)
    folder.rename(leaving)
    sync_folder(directory)
    replace_file(_description(directory, identity), _text(msgspec.structs.replace(aside, is_whole=True)))
    log_notes.remove(leaving)
    leaving.rmdir()
    return identity


def take_back(directory: Path, identity: str, aside: Aside) -> None:
    """Moves the files back into the partition's folder, which must not be there unless this was interrupted. The log
    has no note then, so the next start takes it for that of the topic that has its name. Raises OSError.
    """
    folder = directory / aside.folder_name
    if not is_being_taken_back(directory, aside):
        coming = _leaving(directory, aside)
        coming.mkdir(mode=directory.stat().st_mode & 0o777)
        log_notes.write(coming, aside.note)
        coming.rename(folder)
        sync_folder(directory)
    replace_file(_description(directory, identity), _text(msgspec.structs.replace(aside, is_whole=False)))
    start = _place(directory, identity, "").name
    for name in os.listdir(directory):
        if name.startswith(start) and name != _description(directory, identity).name:
            (directory / name).rename(folder / name.removeprefix(start))
    sync_folder(folder)
    _description(directory, identity).unlink()
    sync_folder(directory)
    log_notes.remove(folder)


def is_being_taken_back(directory: Path, aside: Aside) -> bool:
    """Whether the folder that is there is the log's own, which was interrupted on its way."""
    folder = directory / aside.folder_name
    is_its_own = log_notes.read(folder) == aside.note
    return is_its_own and (not aside.is_whole or os.listdir(folder) == [log_notes.FILE])


def _identity(directory: Path, aside: Aside) -> str:
    """The same for the rest of a log of which a part is aside already."""
    for number in range(1000):
        text = f"{aside.folder_name} {aside.note} {number}"
        identity = hashlib.sha256(text.encode()).hexdigest()[:12]
        other = described(directory, identity)
        if other is None or not other.is_whole:
            return identity
    raise StorageError(f"{aside.folder_name} was put aside a thousand times in {directory}")


def _in_order(folder: Path) -> list[str]:
    """What says of the log what it is; then the segments, from the first on. The note stays."""
    names = [name for name in os.listdir(folder) if name != log_notes.FILE]
    return sorted(names, key=lambda name: (name[:1].isdigit(), name))


def _leaving(directory: Path, aside: Aside) -> Path:
    """A name of a folder that every start removes, Kafka's too. A file name has at most 255 bytes."""
    tail = f"-{aside.partition}.{uuid.uuid4().hex}-delete"
    return directory / (aside.topic[: 255 - len(tail)] + tail)


def _place(directory: Path, identity: str, name: str) -> Path:
    return directory / f"{PREFIX}{identity}.{name}"


def _description(directory: Path, identity: str) -> Path:
    return _place(directory, identity, DESCRIPTION)


def _text(aside: Aside) -> str:
    return msgspec.json.encode(aside).decode() + "\n"
