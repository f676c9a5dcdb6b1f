"""Random faults that can be had again: a seed decides which requests fail, and how many a client has sent before."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.faults.deeds import Asked, Deed
from ottla.embedded.handle import RuleHandle

if TYPE_CHECKING:
    from ottla.embedded.plan import Plan

_OF_GROUPS: Final = ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")
_OF_TRANSACTIONS: Final = ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")

#: Errors that an API has while leaders and coordinators move.
DEFAULTS: Final[Mapping[str, Sequence[str]]] = {
    "Produce": ("NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS"),
    "Fetch": ("NOT_LEADER_OR_FOLLOWER", "REPLICA_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR"),
    "ListOffsets": ("NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE"),
    "Metadata": ("LEADER_NOT_AVAILABLE",),
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
    "OffsetCommit": _OF_GROUPS,
    "OffsetFetch": _OF_GROUPS,
    "JoinGroup": _OF_GROUPS,
    "SyncGroup": _OF_GROUPS,
    "Heartbeat": ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"),
    "InitProducerId": _OF_TRANSACTIONS,
    "AddPartitionsToTxn": (*_OF_TRANSACTIONS, "CONCURRENT_TRANSACTIONS"),
    "AddOffsetsToTxn": (*_OF_TRANSACTIONS, "CONCURRENT_TRANSACTIONS"),
    "TxnOffsetCommit": _OF_TRANSACTIONS,
    "EndTxn": (*_OF_TRANSACTIONS, "CONCURRENT_TRANSACTIONS"),
}


class Met(NamedTuple):
    """A request that failed: the `number`-th of its API from its client, from 1 on."""

    client_id: str
    api: str
    number: int
    error: str


class RandomFaults(RuleHandle):
    """Random faults of one seed.

    seed: The seed with which the same happens again.
    """

    is_spent = False

    def __init__(
        self,
        plan: Plan,
        seed: int,
        share: float,
        errors: Mapping[int, Mapping[str, int]],
        client_id: str | None,
    ) -> None:
        super().__init__(plan)
        self.seed = seed
        self._share = share
        self._errors = {key: tuple(codes.items()) for key, codes in errors.items()}
        self._client_id = client_id
        self._counts: Counter[tuple[str, str]] = Counter()
        self._met: list[Met] = []

    def __repr__(self) -> str:
        return f"<random faults of seed {self.seed} in {self._share:.0%} of all requests, {self.hits} hits>"

    @property
    def met(self) -> list[Met]:
        """The requests that failed so far."""
        return [*self._met]

    def decide(self, asked: Asked) -> Deed | None:
        """As a rule of the plan."""
        errors = self._errors.get(asked.api.key)
        if errors is None or asked.is_of_broker or self._client_id not in (None, asked.client_id):
            return None
        number = self._count(asked)
        chance = random.Random(f"{self.seed}/{asked.client_id}/{asked.api.name}/{number}")
        if chance.random() >= self._share:
            return None
        error, code = chance.choice(errors)
        self._met.append(Met(asked.client_id, asked.api.name, number, error))
        self._hits.add()
        return Deed(code)

    def passed(self, asked: Asked) -> None:
        """As a rule of the plan: another fault was first, and the request counts all the same."""
        self._count(asked)

    def _count(self, asked: Asked) -> int:
        client = asked.client_id, asked.api.name
        self._counts[client] += 1
        return self._counts[client]
