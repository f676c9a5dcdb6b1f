"""Skips that cannot hide.

A test that needs something from outside (a JVM, a client library, real data) skips where that is absent, so that a
user's clone still tests the rest. Where it must be present, as in CI, `OTTLA_REQUIRE=clients,java,...` turns the same
skip into a failure.
"""

import importlib
import os
from types import ModuleType
from typing import NoReturn

import pytest

KINDS = frozenset({"arrow", "clients", "clocks", "data", "frames", "java", "mounts", "netns", "spark", "zookeeper"})


def required() -> frozenset[str]:
    """The kinds named in $OTTLA_REQUIRE; a name that is none of KINDS is an error, since it would require nothing."""
    names = frozenset(filter(None, os.environ.get("OTTLA_REQUIRE", "").replace(" ", "").split(",")))
    if unknown := names - KINDS:
        raise pytest.UsageError(
            f"OTTLA_REQUIRE names {', '.join(sorted(unknown))}; it may name {', '.join(sorted(KINDS))}"
        )
    return names


def require(kind: str, reason: str) -> NoReturn:
    """Skip the running test, or fail it if `kind` is in $OTTLA_REQUIRE.

    Call it when the thing is known to be absent; `reason` says what is absent and how to get it.
    """
    assert kind in KINDS, f"{kind} is none of {sorted(KINDS)}"
    if kind in required():
        pytest.fail(f"{kind} is required here: {reason}", pytrace=False)
    pytest.skip(f"{kind}: {reason}", allow_module_level=True)


def module(kind: str, name: str) -> ModuleType:
    """The module `name`. Where it is not installed, skips the test (or, at a module's top level, all its tests), or
    fails if `kind` is in $OTTLA_REQUIRE.
    """
    try:
        return importlib.import_module(name)
    except ImportError as missing:
        require(kind, f"{missing.name} is not installed")
