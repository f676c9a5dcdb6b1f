"""Changes of the tree for the rows of a request: many of them share a transaction.

Whoever watches a node looks at it after each transaction, and a look at `/brokers/topics` or `/config/changes` reads
the names of all that is there. With a transaction for each row, a request with twice as many rows would keep a broker
busy for four times as long.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from ottla.controller.batches import batches
from ottla.coordination.tree import (
    BATCH_BYTES_MAX,
    BadVersion,
    ConnectionLoss,
    NodeExists,
    NoNode,
    Operation,
    Tree,
    bytes_of,
)
from ottla.errors import KafkaError

ROWS_AT_ONCE = 500
"""Rows of a request that are looked at, and changed in one transaction, before the next ones are."""


T = TypeVar("T")


def pieces_of(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """The rows of a request in pieces, each to be read, checked and changed at once."""
    return batches(rows, ROWS_AT_ONCE)


class Change(NamedTuple):
    """The change that one row asks for."""

    operations: Sequence[Operation]
    alone: Callable[[bool], Awaitable[object]]
    """Makes the same change in transactions of its own. Its argument says whether the operations may have been applied
    already, since the answer of their transaction was lost. Raises KafkaError.
    """


async def together(tree: Tree, changes: Sequence[Change]) -> list[KafkaError | None]:
    """Makes the changes in as few transactions as hold them, in order; by row None or why it was not changed.

    A transaction that fails has changed nothing, whichever row was the reason. Each of its rows is changed alone then,
    so that it has the error that it would have in a request of its own.
    """
    errors: list[KafkaError | None] = []
    for some in _in_transactions(changes):
        may_be_applied = False
        try:
            await tree.multi([operation for change in some for operation in change.operations])
        except ConnectionLoss:
            may_be_applied = True
            await tree.wait_connected()
        except (BadVersion, NodeExists, NoNode):
            pass
        else:
            errors += [None] * len(some)
            continue
        for change in some:
            errors.append(await _alone(change, may_be_applied))
    return errors


async def _alone(change: Change, may_be_applied: bool) -> KafkaError | None:
    try:
        await change.alone(may_be_applied)
    except KafkaError as error:
        return error
    return None


def _in_transactions(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    begin = size = 0
    for at, change in enumerate(changes):
        cost = sum(map(bytes_of, change.operations))
        if at > begin and (size + cost > BATCH_BYTES_MAX or at - begin == ROWS_AT_ONCE):
            yield changes[begin:at]
            begin, size = at, 0
        size += cost
    if changes:
        yield changes[begin:]


async def until_done(tree: Tree, operations: Sequence[Operation]) -> None:
    """For operations that may be done twice without harm."""
    while True:
        try:
            await tree.multi(operations)
        except ConnectionLoss:
            await tree.wait_connected()
        else:
            return
