"""Files that are called like segments and never were any: of another program, or compressed by hand.

A log is repaired by a cut at its first damaged batch. Of such a file a cut would leave nothing.
"""

from __future__ import annotations

import os
import re

from ottla import _core

SEGMENT = re.compile(r"\d{20}\.log")
NO_FORMAT = "is not a format"
"""In the damage of a batch with another magic byte than messages and batches have."""
SHOWN_BYTES = 8


def without_segment(folder: str | os.PathLike[str]) -> str | None:
    """Says that a folder has no segment, of which its indexes could be made anew; None if it has one."""
    if any(map(SEGMENT.fullmatch, os.listdir(folder))):
        return None
    return (
        f"{folder} has no segment ({0:020}.log or another offset), of which the rest could be made anew. Put its "
        "segments back, or delete the folder: the log then begins anew"
    )


def foreign_file(folder: str | os.PathLike[str]) -> str | None:
    """Names the first such file; None if there is none, or if any segment begins with a batch: then the
    folder is a log, and the file a part of it that was damaged.
    """
    found = None
    for name in sorted(filter(SEGMENT.fullmatch, os.listdir(folder))):
        path = os.path.join(folder, name)
        batches, damage = _core.scan_segment(path, 0, 1)
        if batches:
            return None
        if found is None and damage is not None and NO_FORMAT in damage:
            found = path
    if found is None:
        return None
    with open(found, "rb") as file:
        shown = file.read(SHOWN_BYTES).hex(" ")
    return (
        f"{found} is no log: it has no batch, and begins with the bytes {shown}. Move it out of the folder if it is "
        "another program's"
    )
