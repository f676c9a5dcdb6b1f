"""Orders of administrators, whatever they order: limits, reasons for refusals, and the nodes in which tools ask."""

from __future__ import annotations

from ottla.coordination.tree import Tree, Watch, get_or_none
from ottla.errors import KafkaError

NO_PARTITION = "The partition does not exist."
#: Far more than anybody has; what is asked for is looked through for each of them, and named in messages.
REPLICAS_MAX = 1_000
#: Reasons that name a partition are different for each.
REASONS_MAX = 1_000


class Reasons:
    """One object for each reason, where very many partitions are refused for the same: the collector looks through them
    all. They are told, never raised.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[type[KafkaError], str], KafkaError] = {}

    def one(self, error: KafkaError) -> KafkaError:
        reason = (type(error), str(error))
        known = self._known.get(reason, error)
        if len(self._known) < REASONS_MAX:
            self._known[reason] = known
        return known


async def asked_in(tree: Tree, path: str, watch: Watch) -> bytes | None:
    """The data that a tool wrote there; None while it has not, and then the watch tells when it does."""
    if await tree.exists(path, watch) is None:
        return None
    node = await get_or_none(tree, path)
    return node.data if node is not None else None
