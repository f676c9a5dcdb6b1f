"""Errors as users are to see them: the sentence, without a traceback of Python before it.

Spark puts what a Python process prints of an exception into its own message, the traceback first. It leaves that out
where the environment has SPARK_HIDE_TRACEBACK, which is looked at after the exception was raised. A process that has
raised one ends, so nobody else's traceback is hidden.

Other exceptions than ours and the usual ones for wrong input (a KeyError, say) keep theirs: they are faults of ours.
"""

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

HIDE = "SPARK_HIDE_TRACEBACK"
PLAIN = (ValueError, OSError, ImportError)

T = TypeVar("T", bound=type)


def is_plain(problem: BaseException) -> bool:
    """True if an error's sentence says all there is to say: an exception of ours, or one of Python's own for wrong
    input.
    """
    return type(problem).__module__.partition(".")[0] == "ottla" or (
        isinstance(problem, PLAIN) and type(problem).__module__ == "builtins"
    )


def is_worker() -> bool:
    """True if Spark started this process as a Python worker."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")


def plain_errors(kind: T) -> T:
    """Decorates a class that Spark calls: errors of its public methods are shown as sentences."""
    for name, method in list(vars(kind).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(kind, name, _plain(method))
    return kind


def _plain(method: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.isgeneratorfunction(method):

        @functools.wraps(method)
        def generate(*args: Any, **named: Any) -> Iterator[Any]:
            with _hiding():
                yield from method(*args, **named)

        return generate

    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        with _hiding():
            return method(*args, **named)

    return call


@contextmanager
def _hiding() -> Iterator[None]:
    try:
        yield
    except Exception as problem:
        if is_plain(problem) and is_worker():
            os.environ[HIDE] = "1"
        raise
