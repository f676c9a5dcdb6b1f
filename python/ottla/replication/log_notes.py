"""The note in a log's folder: of which topic of which tree the log is.

A folder has its topic's name, and a name may be given again. A broker that is away while its replica moves elsewhere,
or while the topic is deleted and made again by force, returns with records of a topic that is no more. What tells
topics of one name apart is the transaction that made the topic's node, its czxid, which never repeats in one tree.
Trees are told apart by the cluster's id with the czxid and the time of the node that holds it: a tree that was copied
elsewhere, or made anew, has other numbers for the same topics.

So a note speaks against its log only in the tree that it names. A log without a note (Kafka's, or an older Ottla's),
with one of another tree, or with one that a power cut has torn, is taken for that of the topic that has its name.

The note is a file in the folder, and not a table of the directory: it goes where the folder goes, and with it. Kafka
leaves files alone that it does not know.
"""

from __future__ import annotations

import contextlib
import enum
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from ottla._core import create_file

FILE: Final = ".ottla_topic"
#: Far more than a note has.
BYTES_MAX: Final = 4096


class Note(msgspec.Struct, frozen=True):
    """A topic of a tree."""

    cluster_id: str
    #: Of the node `/cluster/id`: when it was made, by its tree's counter and clock.
    cluster_czxid: int
    cluster_ctime_ms: int
    #: Of the topic's node.
    topic_czxid: int

    def is_of_tree(self, other: Note) -> bool:
        """Whether both are of one tree."""
        return self._tree() == other._tree()

    def _tree(self) -> tuple[str, int, int]:
        return self.cluster_id, self.cluster_czxid, self.cluster_ctime_ms


class Verdict(enum.Enum):
    """Whose a log is that lies where a topic's log belongs."""

    #: It is the topic's.
    ITS_OWN = "its own"
    #: Nobody knows. It is taken for the topic's.
    UNKNOWN = "unknown"
    #: It is that of another topic, which had the same name in this tree.
    ANOTHERS = "another's"


def verdict(note: Note | None, topic: Note) -> Verdict:
    """What the note in a folder says of its log, where `topic` is what the tree has under the folder's name."""
    if note == topic:
        return Verdict.ITS_OWN
    if note is None or not note.is_of_tree(topic):
        return Verdict.UNKNOWN
    return Verdict.ANOTHERS


def read(folder: Path) -> Note | None:
    """None if there is no note, or none that can be understood."""
    (note,) = read_many([str(folder)])
    return note


def read_many(folders: Iterable[str]) -> list[Note | None]:
    """The same of many folders: those of a topic have the same note, which is one object then."""
    known: dict[bytes, Note | None] = {}
    notes: list[Note | None] = []
    for folder in folders:
        try:
            descriptor = os.open(f"{folder}/{FILE}", os.O_RDONLY)
        except OSError:
            notes.append(None)
            continue
        try:
            text = os.read(descriptor, BYTES_MAX)
        except OSError:
            text = b""
        finally:
            os.close(descriptor)
        if text not in known:
            known[text] = _decode(text)
        notes.append(known[text])
    return notes


def _decode(text: bytes) -> Note | None:
    try:
        return msgspec.json.decode(text, type=Note)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def write(folder: Path, note: Note) -> None:
    """Not synced: a power cut may leave no note, or half of one, which says nothing. Raises OSError."""
    path = folder / FILE
    remove(folder)
    create_file(path)
    path.write_bytes(msgspec.json.encode(note) + b"\n")


def remove(folder: Path) -> None:
    """Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        (folder / FILE).unlink()
