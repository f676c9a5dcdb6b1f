"""Writes `states.md` beside it: pictures of state machines, from the tables that they assert.

`make docs` runs it, a test compares.
"""

from collections.abc import Iterator, Mapping
from enum import Enum

from ottla.controller import decisions
from ottla.group import state

PAGE = """# States

From the table of the code, by `make docs`.

## A partition, for the controller

`ottla.controller.decisions` has the rules. A state that others have written into the tree is taken over as it is.

```mermaid
{partition}
```

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
    for one, following in transitions.items():
        for other, why in following.items():
            yield f"    {one.value} --> {other.value}: {why}"


def render() -> str:
    return PAGE.format(
        partition="\n".join(diagram(decisions.Phase.NEW, decisions.TRANSITIONS)),
        group="\n".join(diagram(state.EMPTY, state.TRANSITIONS)),
    )


if __name__ == "__main__":
    print(render(), end="")
