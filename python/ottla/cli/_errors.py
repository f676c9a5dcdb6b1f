"""Errors that users can do something about, as one clear line instead of a traceback."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import click

# What to do about errors that brokers answer without a word, or without this one.
_ADVICE = {
    "UNKNOWN_TOPIC_OR_PARTITION": "`ottla topic list` shows which there are",
    "INVALID_TOPIC_EXCEPTION": "a topic's name has 1 to 249 letters, digits, dots, underlines and hyphens",
    "MESSAGE_TOO_LARGE": "`ottla topic alter --set max.message.bytes=N` admits larger ones",
}


@contextmanager
def explained(doing: str, *expected: type[Exception]) -> Iterator[None]:
    """Turns errors of settings, of the broker, of files and of the network inside the block into `doing: why`.

    doing: what was tried, e.g. "cannot start the broker". Other errors are our own mistakes and keep their traceback,
    unless they are `expected` here.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        # Concurrent work wraps even a single error.
        explanation = _explanation(doing, _only(group), expected)
        if explanation is None:
            raise
        raise explanation from None
    except Exception as error:
        explanation = _explanation(doing, error, expected)
        if explanation is None:
            raise
        raise explanation from None


def _without_repetition(doing: str, why: str) -> str:
    """Clients say which topic an error is about; where `doing` has said it, that is enough."""
    found = re.match(r"topic '([^']*)'(: |$)", why)
    return why[found.end() :] if found and found[1] in doing else why


def _only(error: BaseException) -> BaseException:
    """The error inside groups of one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _explanation(
    doing: str, error: BaseException, expected: tuple[type[Exception], ...]
) -> click.ClickException | None:
    """What to tell the user; None for what is not his to repair."""
    from ottla.config.values import ConfigError
    from ottla.errors import KafkaError

    if isinstance(error, (ConfigError, *expected)):
        return click.ClickException(f"{doing}: {error}")
    if isinstance(error, KafkaError):
        why = _without_repetition(doing, str(error))
        if advice := _ADVICE.get(error.name):
            why = f"{why}; {advice}" if why else advice
        return click.ClickException(f"{doing}: {why} ({error.name})" if why else f"{doing}: {error.name}")
    # A broken pipe is that nobody reads our output any more: click ends quietly.
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
        name = f" {error.filename}:" if error.filename else ""
        return click.ClickException(f"{doing}:{name} {error.strerror or error}")
    return None
