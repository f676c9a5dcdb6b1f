"""Writes `states.md` beside it: pictures of state machines, from the tables that they assert.

`make docs` runs it, a test compares.
"""

from collections.abc import Iterator, Mapping
from enum import Enum

from ottla.group.state import EMPTY, TRANSITIONS

PAGE = """# States

From the table of the code, by `make docs`.

## A consumer group

`ottla.group.state` has the rules. A coordinator that loads a group with members begins with Stable. From every state a
group becomes Dead when it is deleted, or when another broker coordinates it.

```mermaid
{group}
```
"""


def diagram(first: Enum, transitions: Mapping[Enum, Mapping[Enum, str]]) -> Iterator[str]:
    """The lines of a state diagram of Mermaid."""
    yield "stateDiagram-v2"
    yield f"    [*] --> {first.value}"
    for state, following in transitions.items():
        for other, why in following.items():
            yield f"    {state.value} --> {other.value}: {why}"


def render() -> str:
    return PAGE.format(group="\n".join(diagram(EMPTY, TRANSITIONS)))


if __name__ == "__main__":
    print(render(), end="")
