"""Log levels of a running broker, as the resource BROKER_LOGGER (KIP-412).

Names are those of the log's lines (`ottla.controller.controller`) and `root`; levels have the names of log4j, since
that is what tools send and show. Changes last until the broker ends.

Anybody who can connect may silence the broker in this way, as in Kafka without an authorizer. So each change is logged
itself, whatever the levels are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ottla.config import ConfigError
from ottla.config.alter import Alteration
from ottla.errors import InvalidRequest
from ottla.kafka import ConfigOperation
from ottla.logging_setup import always

log = logging.getLogger(__name__)

ROOT: Final = "root"
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
#: Called after a level changed. Levels belong to the process, so every broker in it is told.
_watchers: Final[list[Callable[[], None]]] = []
_NAMES: Final = {level: name for name, level in LEVELS.items()}


@contextmanager
def watched_by(changed: Callable[[], None]) -> Iterator[None]:
    """Inside the `with` block `changed` is called after each change of levels, whichever broker was asked for it."""
    _watchers.append(changed)
    try:
        yield
    finally:
        _watchers.remove(changed)


def levels() -> dict[str, str]:
    """Every logger and its level; the root's for one without a level of its own."""
    root = _name(logging.getLogger().level)
    named = {
        name: _name(logger.level) if logger.level else root
        for name, logger in sorted(logging.root.manager.loggerDict.items())
        if isinstance(logger, logging.Logger)
    }
    return {ROOT: root, **named}


def alter(alterations: Sequence[Alteration], *, asked_by: str, validate_only: bool) -> None:
    """Changes levels, and logs that `asked_by` did.

    Raises ConfigError for an unknown logger or level, InvalidRequest for what cannot be done; then nothing is.
    """
    known = levels()
    for name, operation, value in alterations:
        if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
            raise InvalidRequest(f"{operation.name} operation is not allowed for the BROKER_LOGGER resource")
        if name not in known:
            raise ConfigError(name, f"Logger {name} does not exist!")
        if operation is ConfigOperation.SET and value not in LEVELS:
            raise ConfigError(
                name,
                f"Cannot set the log level of {name} to {value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(LEVELS)}",
            )
        if operation is ConfigOperation.DELETE and name == ROOT:
            raise InvalidRequest(f"Removing the log level of the {ROOT} logger is not allowed")
    if validate_only:
        return
    for name, operation, value in alterations:
        logger = logging.getLogger() if name == ROOT else logging.getLogger(name)
        is_set = operation is ConfigOperation.SET and value is not None
        always(log, "the log level of %s is %s from now on, as %s asked", name, value if is_set else "unset", asked_by)
        logger.setLevel(LEVELS[value] if is_set and value is not None else logging.NOTSET)
    for changed in [*_watchers]:  # brokers come and go on other threads
        changed()


def _name(level: int) -> str:
    """The name of the level, or of the next quieter one for a level between two."""
    return _NAMES[min((known for known in _NAMES if known >= level), default=logging.CRITICAL)]
