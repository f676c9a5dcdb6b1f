"""Errors that users can do something about, as one clear line instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click


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
        return click.ClickException(f"{doing}: {error} ({error.name})" if str(error) else f"{doing}: {error.name}")
    # A broken pipe is that nobody reads our output any more: click ends quietly.
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
        name = f" {error.filename}:" if error.filename else ""
        return click.ClickException(f"{doing}:{name} {error.strerror or error}")
    return None
