"""Names the extra of this package that brings a package which is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around imports that need the extra `name`: what is missing is an ImportError that says what to install."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f"this needs the package {missing.name}, which is not installed; it is one of the extra '{name}'",
            name=missing.name,
        ) from None
