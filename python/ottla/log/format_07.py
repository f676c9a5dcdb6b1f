"""Reading what Kafka 0.7 left: a folder of `<byte offset>.kafka` files per partition.

A 0.7 message has no key, no time and no number: it is known by its byte position among all that were ever sent to the
partition, and a file is named after the position of its first message. So a place in such a log is a byte offset here,
which a reader can start from again.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ottla._core import decode_07, find_07
from ottla.errors import counted

#: What is read at once.
CHUNK_BYTES = 1 << 20

#: No message may be larger, also unpacked: a length beyond it is damage. 0.7's own default limit was 1 MB.
MESSAGE_BYTES_MAX = 64 << 20

SHOWN_BYTES = 8

_NAME = re.compile(r"([0-9]+)\.kafka")


@dataclass(frozen=True, slots=True)
class Messages:
    """Some messages that follow each other."""

    payloads: list[bytes]
    #: The byte offset after the last of them: where a reader that has them goes on.
    end_offset: int
    #: What they take in the file.
    size_bytes: int
    #: Bytes at the end of the last file that are no whole message: 0.7 cut them off when it started after a crash.
    torn_bytes: int = 0


class Damaged(Exception):
    """Bytes that are no message. What is before them has been read."""

    def __init__(self, file: str, position: int, offset: int, problem: str, next_offset: int | None) -> None:
        super().__init__(f"{file} at byte {position}: {problem}")
        self.file = file
        #: In the file, and among all messages of the partition.
        self.position, self.offset = position, offset
        #: Where the next whole message starts, or the next file; None if there is none.
        self.next_offset = next_offset


def files(path: str) -> list[tuple[int, str]]:
    """The byte offset of the first message of each file, and the file; `path` is a partition's folder or one file."""
    paths = [path] if os.path.isfile(path) else [os.path.join(path, name) for name in os.listdir(path)]
    found = ((_NAME.fullmatch(os.path.basename(file)), file) for file in paths)
    return sorted((int(name[1]), file) for name, file in found if name is not None)


def partition_of(path: str) -> int:
    """The partition that a folder is named after (`topic-3`, or `topic_3`), else 0."""
    folder = os.path.abspath(path if os.path.isdir(path) else os.path.dirname(path))
    name = re.search(r"[-_]([0-9]{1,9})$", folder)
    return int(name[1]) if name else 0


def read(path: str, from_offset: int = 0) -> Iterator[Messages]:
    """The messages from a byte offset on, about a mebibyte at a time.

    Raises:
        Damaged: after everything before the damage was given.
        OSError: a file cannot be read.
    """
    found = files(path)
    for (first_offset, file), (next_offset, _) in itertools.zip_longest(found, found[1:], fillvalue=(None, "")):
        assert first_offset is not None
        size_bytes = os.path.getsize(file)
        end_offset = first_offset + size_bytes
        if end_offset <= from_offset:
            continue
        yield from _read_file(file, first_offset, max(0, from_offset - first_offset), next_offset)
        if next_offset is None or next_offset == end_offset:
            continue
        bytes_off = counted(abs(next_offset - end_offset), "byte")
        if next_offset > end_offset:
            problem = f"it ends {bytes_off} before the next file begins: between them one is missing, or its end is"
            raise Damaged(file, size_bytes, end_offset, problem, next_offset)
        problem = f"it ends {bytes_off} behind where the next file begins: one of them is not of this log"
        raise Damaged(file, size_bytes, end_offset, problem, end_offset)


def _read_file(file: str, first_offset: int, position: int, next_offset: int | None) -> Iterator[Messages]:
    with open(file, "rb") as source:
        source.seek(position)
        buffer = b""
        wanted = CHUNK_BYTES
        while True:
            more = source.read(wanted)
            buffer += more
            payloads, end, error = decode_07(buffer, message_bytes_max=MESSAGE_BYTES_MAX)
            position += end
            if error is not None and not error[0]:
                if end:
                    yield Messages(payloads, first_offset + position, end)
                _, at, problem = error
                raise _damaged(file, first_offset, position, at - end, problem, next_offset)
            # A message larger than what was read takes more, and twice as much each time.
            wanted = CHUNK_BYTES if end else max(CHUNK_BYTES, len(buffer))
            buffer = buffer[end:]
            if more:
                if end:
                    yield Messages(payloads, first_offset + position, end)
                continue
            if buffer and next_offset is not None:
                problem = f"{counted(len(buffer), 'byte')} at the end of the file, which are no whole message"
                raise _damaged(file, first_offset, position, 0, problem, next_offset)
            if end or buffer:
                yield Messages(payloads, first_offset + position, end, len(buffer))
            return


def _damaged(
    file: str, first_offset: int, position: int, inside: int, problem: str, next_offset: int | None
) -> Damaged:
    """Damage in the message at `position`, with where the next whole one starts if that is near, or the next file."""
    with open(file, "rb") as source:
        source.seek(position)
        buffer = source.read(MESSAGE_BYTES_MAX)
    after = find_07(buffer, 1, message_bytes_max=MESSAGE_BYTES_MAX)
    start = first_offset + position
    what = re.sub(r"^([a-z]+) at byte [0-9]+", r"\1", problem)
    if after is not None:
        return Damaged(file, position + inside, start, what, start + after)
    if position == 0:
        shown = buffer[:SHOWN_BYTES].hex(" ")
        what = f"{what}. It begins with the bytes {shown}, and has no message: it may be no log of Kafka 0.7"
    return Damaged(file, position + inside, start, what, next_offset)
