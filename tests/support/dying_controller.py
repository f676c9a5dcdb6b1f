"""`ottla` whose controller dies at the last write of a move: `python -m tests.support.dying_controller WHEN TOPIC serve
...`, with WHEN "before" or "after". It is killed as by `kill -9`.
"""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from ottla.cli.main import main
from ottla.controller.store import FencedTree
from ottla.coordination import znodes
from ottla.coordination.tree import Operation, Set
from ottla.coordination.znodes import TopicAssignment


def _is_last(operation: Operation, path: str) -> bool:
    """True if an operation writes an assignment in which nobody is on the way."""
    if not isinstance(operation, Set) or operation.path != path:
        return False
    written = TopicAssignment.decode(path, operation.data)
    return not written.adding and not written.removing


def die(when: str, topic: str) -> None:
    multi, path = FencedTree.multi, znodes.topic_path(topic)

    async def dying(self: FencedTree, operations: Sequence[Operation]) -> list[Any]:
        is_last = any(_is_last(operation, path) for operation in operations)
        if is_last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        results = await multi(self, operations)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return results

    FencedTree.multi = dying  # type: ignore[method-assign]


if __name__ == "__main__":
    die(*sys.argv[1:3])
    del sys.argv[1:3]
    main()
