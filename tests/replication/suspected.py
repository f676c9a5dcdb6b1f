"""The parts around a replica of the model that may have lost records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kafka import PartitionKey
from ottla.replication.questions import ANY_EPOCH, EpochEnd

if TYPE_CHECKING:
    from tests.replication.cluster_model import Replica


class Around:
    """The parts around a suspected replica that it asks."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def may_be_unclean(self, topic: str) -> bool:
        return False

    def is_offline(self, key: PartitionKey) -> bool:
        return False

    def end_of(self, key: PartitionKey, epoch: int = ANY_EPOCH) -> EpochEnd:
        assert epoch == ANY_EPOCH
        return self._replica.end_of_all
