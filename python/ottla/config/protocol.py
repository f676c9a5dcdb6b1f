"""What `inter.broker.protocol.version` decides. In a cluster that is upgraded all brokers keep the oldest one's."""

from __future__ import annotations

from typing import NamedTuple

from ottla.config.table import VERSIONS

#: The oldest protocol that is spoken. An older version acts as this one.
OLDEST = "2.6-IV0"


class InterBrokerProtocol(NamedTuple):
    """A version of the protocol between brokers, by its full name."""

    version: str

    @classmethod
    def named(cls, version: str | None) -> InterBrokerProtocol:
        """The protocol of a version or a release that the table admits."""
        full = VERSIONS.full(version or VERSIONS.names[-1])
        assert full is not None
        return cls(full)

    @property
    def is_older_than_spoken(self) -> bool:
        """Whether it acts as `OLDEST`."""
        return not self._is_at_least(OLDEST)

    @property
    def tells_divergence(self) -> bool:
        """Whether a leader says, in its answer to a Fetch, where the follower's log parts from its own (KIP-595).
        Followers of older leaders ask before they fetch (KIP-101).
        """
        return self._is_at_least("2.7-IV1")

    @property
    def has_alter_isr(self) -> bool:
        """Whether leaders ask the controller for new in-sync replicas (KIP-497). Older ones write them into the tree
        themselves.
        """
        return self._is_at_least("2.7-IV2")

    @property
    def has_prefixed_rules(self) -> bool:
        """True if access rules for names that begin alike are heeded by all brokers (KIP-290)."""
        return self._is_at_least("2.0-IV1")

    def _is_at_least(self, version: str) -> bool:
        return VERSIONS.names.index(self.version) >= VERSIONS.names.index(version)
