"""Ottla: a commit-log broker that is byte-compatible with Apache Kafka.

`from ottla.log import Log` is the log as a library, `ottla.scan` a topic as a table, `ottla.Broker` a broker inside a
program, `ottla.Cluster` several; the command `ottla` is the broker and its tools.
"""

from importlib import import_module
from typing import Any

from ottla import _core

__version__ = _core.__version__
__all__ = ["Broker", "Cluster", "__version__", "scan"]

if _core.DEBUG_BUILD:
    import warnings

    warnings.warn("ottla._core is a debug build: correct, but slow. `make build` makes a release build.", stacklevel=2)


_ROOMS = {"Broker": "ottla.embedded", "Cluster": "ottla.embedded", "scan": "ottla.reading.scan"}


def __getattr__(name: str) -> Any:
    """Imports the broker and others when they are asked for: commands and readers of logs need none."""
    if name in _ROOMS:
        return getattr(import_module(_ROOMS[name]), name)
    raise AttributeError(f"module 'ottla' has no attribute {name!r}")
