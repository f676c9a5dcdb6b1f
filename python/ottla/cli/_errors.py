"""Errors that users can do something about, as one clear line instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turns errors of settings, of the broker, of files and of the network inside the block into `doing: why`.

    doing: what was tried, e.g. "cannot start the broker". Errors that are our own mistakes keep their traceback.
    """
    from ottla.config.values import ConfigError
    from ottla.errors import KafkaError

    try:
        yield
    except ConfigError as error:
        raise click.ClickException(f"{doing}: {error}") from None
    except KafkaError as error:
        raise click.ClickException(f"{doing}: {error or error.name} ({error.name})") from None
    except BrokenPipeError:
        raise  # whoever read our output has gone; click ends quietly
    except OSError as error:
        name = f" {error.filename}" if error.filename else ""
        raise click.ClickException(f"{doing}:{name} {error.strerror or error}") from None
