"""Ottla: a commit-log broker that is byte-compatible with Apache Kafka.

`from ottla.log import Log` is the log as a library; the command `ottla` is the broker and its tools.
"""

from ottla import _core

__version__ = _core.__version__

if _core.DEBUG_BUILD:
    import warnings

    warnings.warn("ottla._core is a debug build: correct, but slow. `make build` makes a release build.", stacklevel=2)
