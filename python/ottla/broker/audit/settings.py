"""The settings of the audit log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.config import ConfigError

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

FILE: Final = "audit.log.file"


class AuditSettings(NamedTuple):
    """notes_allowed: Lines are also written about what was allowed.

    bytes_max: Of one file. files_max: How many files there are at most, the one that is written included.
    """

    path: Path
    notes_allowed: bool
    bytes_max: int
    files_max: int


def of(config: BrokerConfig) -> AuditSettings | None:
    """The settings of the audit log; None without one. Raises ConfigError if there is no folder for its file."""
    text = (config.get_str(FILE) or "").strip()
    if not text:
        return None
    path = Path(text)
    if path.exists() and not path.is_file():
        kind = "a folder; name a file in it" if path.is_dir() else "no ordinary file, which the log needs"
        raise ConfigError(FILE, f"{FILE}={text}: this is {kind}")
    if not path.absolute().parent.is_dir():
        raise ConfigError(FILE, f"{FILE}={text}: there is no folder {path.absolute().parent}; make it first")
    return AuditSettings(
        path,
        config.get_bool("audit.log.allowed"),
        config.get_int("audit.log.max.bytes"),
        config.get_int("audit.log.files"),
    )
