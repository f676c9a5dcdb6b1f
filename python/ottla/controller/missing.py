"""Topics that were removed from the tree by hand, and not deleted: when the controller believes it.

An operator who removes `/brokers/topics/NAME` wants the topic gone. One who empties ZooKeeper, or whose ZooKeeper loses
its data, removes no topic: there the brokers serve on (`registration`). In the beginning both look the same, since
trees are emptied node by node, and the node of the cluster's id may be among the last. So a topic that is missing is
known on until none has followed it for `REST_S`; if the tree is that of this cluster then, the topic was removed.

A node of the same name that was made later (by its czxid) is another topic. Nobody makes one in a tree that is being
emptied, so then the former topic was removed at once. One look may find it in the place of the former, whose removal
nobody has seen.

What becomes of a topic that was removed:

- its brokers stop its replicas and keep their folders, since nobody has said that the records may go;
- everybody's metadata forget it, and coordinators what groups had committed for it, as of a topic that is deleted;
- its moves are over, and so is its deletion, if somebody had ordered that. Brokers that were told to delete do so;
- the controller knows it no longer. The next one of its name begins with leader epoch 0: brokers of Ottla forget the
  epoch of a replica that they stop.

A controller that is elected afterwards knows nothing of the topic, and tells nobody. Nor does one that dies while a
topic is missing: brokers serve such a topic until they are started anew.

Values in, values out: times are those of one clock, in seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

#: A recursive deletion takes well under a millisecond for each node.
REST_S: Final = 3.0


class Missing:
    """The topics that are known and have no node."""

    def __init__(self) -> None:
        self._topics: set[str] = set()
        self._since_s = 0.0

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    def __bool__(self) -> bool:
        return bool(self._topics)

    def miss(self, topics: Iterable[str], now_s: float) -> None:
        """These are missing, which was not known."""
        self._topics.update(topics)
        self._since_s = now_s

    def wait_on(self, now_s: float) -> None:
        """The tree is not that of this cluster."""
        self._since_s = now_s

    def rest_s(self, now_s: float) -> float:
        """For how long yet no topic may follow before those that are missing are believed to be removed."""
        return max(0.0, self._since_s + REST_S - now_s)

    def found(self, topics: Collection[str]) -> None:
        """These have a node."""
        self._topics.difference_update(topics)

    def take(self) -> list[str]:
        """All of them, which are waited for no longer."""
        topics, self._topics = sorted(self._topics), set()
        return topics
