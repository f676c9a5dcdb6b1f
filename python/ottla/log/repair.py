"""`repair`: a damaged log is cut off before its first damaged batch."""

from __future__ import annotations

import os

from ottla import _core
from ottla.errors import LogNotFound, StorageError
from ottla.log.config import LogConfig
from ottla.log.foreign import foreign_file, without_segment


def repair(path: str | os.PathLike[str]) -> range:
    """Cuts the log in the folder `path` off before its first damaged batch, and makes indexes and the state of
    producers anew. Returns the offsets that are left; the batch and all behind it are lost. `verify` says beforehand
    what is damaged.

    Raises:
        LogNotFound: there is no such folder.
        StorageError: a broker or another program has the data directory, or a file is no segment but another
            program's; nothing was changed.
    """
    folder = os.path.abspath(os.fspath(path))
    if not os.path.isdir(folder):
        raise LogNotFound(f"there is no folder {folder}")
    if (foreign := without_segment(folder) or foreign_file(folder)) is not None:
        raise StorageError(f"{foreign}; nothing was repaired")
    start, end = _core.repair_log(folder, LogConfig().native)
    return range(start, end)
