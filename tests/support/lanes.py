"""Which judges the gate has (`make test`), and which only the judges' lane (`make judges`)."""

from collections.abc import Iterable
from typing import Any

import pytest


def judged_by(all_of_them: Iterable[str], gate: Iterable[str]) -> list[Any]:
    """Parameters for each of them; those that the gate does not have are marked."""
    kept = frozenset(gate)
    every = list(all_of_them)
    assert kept <= set(every), f"{sorted(kept)} are not among {every}"
    return [each if each in kept else pytest.param(each, marks=pytest.mark.judge) for each in every]
