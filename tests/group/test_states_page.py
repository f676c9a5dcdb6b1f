"""`docs/states.md` draws the tables that the code asserts."""

import re
import runpy

import pytest

from ottla.group.state import DEAD, TRANSITIONS, Group, Limits, State
from tests.support.readme import PROJECT, block


def test_the_page_is_in_step_with_the_table() -> None:
    page = runpy.run_path(str(PROJECT / "docs" / "states.py"))
    assert (PROJECT / "docs" / "states.md").read_text() == page["render"](), "run `make docs`"


def test_the_picture_of_a_group_has_each_of_its_transitions() -> None:
    drawn = re.findall(r"(\w+) --> (\w+):", block("mermaid", "Empty", "docs/states.md"))
    assert sorted(drawn) == sorted((one.value, other.value) for one in TRANSITIONS for other in TRANSITIONS[one])
    assert TRANSITIONS.keys() == set(State)


def test_a_group_goes_no_other_way() -> None:
    group = Group("g", Limits(), lambda: "id")
    group.die()
    for state in set(State) - {DEAD}:
        with pytest.raises(AssertionError, match="cannot go from"):
            group._become(state)
