"""Access rules that are put into a coordination tree without a broker: those that hold from the first start on. As
Kafka's kafka-acls.sh does with --authorizer-properties.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.authorization.nodes import PERSISTENT_PATHS
from ottla.broker.authorization.snapshot import Snapshot, Standing
from ottla.broker.authorization.store import AclStore

if TYPE_CHECKING:
    from ottla.coordination.tree import Tree
    from ottla.wire.acls import Binding, Entry, Pattern


async def add_rules(tree: Tree, rules: Iterable[Binding]) -> None:
    """Adds rules to those that are there. Brokers of that tree hear of them.

    Raises UnknownServerError: the tree has no place for a pattern of such a name, or for so many rules of one pattern.
    """
    # Where no broker has been, there is nothing yet.
    await tree.ensure(*PERSISTENT_PATHS)
    store = AclStore(tree, Snapshot(Standing()), lambda _pattern: None)
    by_pattern: dict[Pattern, frozenset[Entry]] = {}
    for pattern, entry in rules:
        by_pattern[pattern] = by_pattern.get(pattern, frozenset()) | {entry}
    for pattern, entries in by_pattern.items():
        await store.alter(pattern, partial(_with, entries))


def _with(more: frozenset[Entry], before: frozenset[Entry]) -> frozenset[Entry]:
    return before | more
