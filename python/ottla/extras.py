"""Names the extra of this package that brings a package which is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager


def lacking(package: str | None, extra: str) -> str:
    """The words about a package that is not installed, with the command that installs it."""
    return f"this needs the package {package}, which is not installed: pip install 'ottla[{extra}]'"


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around imports that need the extra `name`: what is missing is an ImportError that says what to install."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(lacking(missing.name, name), name=missing.name) from None
