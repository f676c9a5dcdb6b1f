"""Ottla: a commit-log broker that is byte-compatible with Apache Kafka.

`from ottla.log import Log` is the log as a library, `ottla.Broker` a broker inside a program; the command `ottla` is
the broker and its tools.
"""

from typing import TYPE_CHECKING, Any

from ottla import _core

if TYPE_CHECKING:
    from ottla.embedded import Broker

__version__ = _core.__version__
__all__ = ["Broker", "__version__"]

if _core.DEBUG_BUILD:
    import warnings

    warnings.warn("ottla._core is a debug build: correct, but slow. `make build` makes a release build.", stacklevel=2)


def __getattr__(name: str) -> Any:
    """Imports the broker when it is asked for: commands and readers of logs need none."""
    if name == "Broker":
        from ottla.embedded import Broker

        return Broker
    raise AttributeError(f"module 'ottla' has no attribute {name!r}")
