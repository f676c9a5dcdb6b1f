"""How topics are called in the cluster that they are mirrored to (KIP-382, KIP-690).

With a prefix, the default, topic `orders` of the cluster with the alias `A` is `A.orders` in the other: the name says
where the records come from, so that no record ever goes back. With identity names it is `orders` everywhere, and the
records have to say it themselves (`ottla.mirror.copying`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HEARTBEATS: Final = "heartbeats"
CHECKPOINTS: Final = "checkpoints.internal"


def offset_syncs(other: str) -> str:
    """The topic that says which offset of a mirrored partition is which in the source, kept for the cluster `other`."""
    return f"mm2-offset-syncs.{other}.internal"


def is_internal(topic: str) -> bool:
    """A topic that is never mirrored: of brokers, of Connect, of mirrors themselves. Heartbeats are none of them."""
    return topic.startswith(("__", ".")) or topic.endswith((".internal", "-internal"))


@dataclass(frozen=True, slots=True)
class Names:
    """The names of mirrored topics. `separator` is what stands between the alias and the topic (KIP-690). `aliases` are
    those that may have it in themselves, the longest first; any other ends where it first stands.
    """

    separator: str = "."
    is_identity: bool = False
    aliases: tuple[str, ...] = ()

    def remote(self, source: str, topic: str) -> str:
        """What a topic of the cluster with the alias `source` is called elsewhere."""
        if self.is_identity and topic != HEARTBEATS:
            return topic
        return f"{source}{self.separator}{topic}"

    def checkpoints(self, source: str) -> str:
        """The topic of the target that has the checkpoints of groups from `source`."""
        return f"{source}{self.separator}{CHECKPOINTS}"

    def source(self, topic: str) -> str | None:
        """The alias of the cluster that a topic was mirrored from; None if its name says nothing of it."""
        known = next((each for each in self.aliases if topic.startswith(f"{each}{self.separator}")), None)
        if known is not None:
            alias, separator, rest = known, self.separator, topic.removeprefix(f"{known}{self.separator}")
        else:
            alias, separator, rest = topic.partition(self.separator)
        if self.is_identity and rest != HEARTBEATS:
            return None
        return alias if separator and alias and rest else None

    def upstream(self, topic: str) -> str:
        """What the topic is called in the cluster that it was mirrored from; the same name if it was not."""
        source = self.source(topic)
        return topic if source is None else topic.removeprefix(f"{source}{self.separator}")

    def was_in(self, topic: str, cluster: str) -> bool:
        """Whether the records of a topic have been in a cluster, by its name: mirrored to it, they would come back."""
        while (source := self.source(topic)) is not None:
            # Of two aliases that a name begins with, either may be meant.
            if source == cluster or topic.startswith(f"{cluster}{self.separator}"):
                return True
            topic = self.upstream(topic)
        return False

    def original(self, topic: str) -> str:
        """The name without any alias."""
        while self.source(topic) is not None:
            topic = self.upstream(topic)
        return topic

    def is_heartbeats(self, topic: str) -> bool:
        return self.original(topic) == HEARTBEATS
