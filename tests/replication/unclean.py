"""A broker that was not shut down cleanly, and what is around it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from ottla.coordination import znodes
from ottla.coordination.tree import ConnectionLoss, Node, check_path
from ottla.coordination.znodes import TopicAssignment
from ottla.errors import KafkaError
from ottla.kafka import NO_LEADER, PartitionKey
from ottla.replication.questions import ANY_EPOCH, EpochEnd
from ottla.replication.roles import PartitionState
from ottla.replication.unclean_start import Known, UncleanStart

ME, OTHER, THIRD = 1, 2, 3
T: PartitionKey = ("t", 0)
WAIT_S = 30.0


class Around:
    """The world as the replica sees it, which the test decides, and the tree."""

    def __init__(self) -> None:
        self.leaders: dict[PartitionKey, Known] = {}
        self.alive = {ME, OTHER, THIRD}
        self.unclean = False
        self.ends: dict[int, EpochEnd | KafkaError | Exception] = {ME: EpochEnd(3, 10)}
        self.asked_again = self.registered_anew = self.elected = 0
        self.nodes: dict[str, bytes] = {}
        self.tree_fails = False

    def known(self, key: PartitionKey) -> Known | None:
        return self.leaders.get(key)

    def is_alive(self, broker: int) -> bool:
        return broker in self.alive

    def may_be_unclean(self, topic: str) -> bool:
        return self.unclean

    def is_offline(self, key: PartitionKey) -> bool:
        return ME not in self.ends

    def end_of(self, key: PartitionKey, epoch: int = ANY_EPOCH) -> EpochEnd | None:
        return cast("EpochEnd | None", self.ends.get(ME))

    async def ends_at(
        self, broker: int, keys: Collection[PartitionKey]
    ) -> Mapping[PartitionKey, EpochEnd | KafkaError]:
        end = self.ends.get(broker, OSError("nobody is there"))
        if isinstance(end, Exception) and not isinstance(end, KafkaError):
            raise end
        return dict.fromkeys(keys, end)

    def ask_again(self) -> None:
        self.asked_again += 1

    async def register_anew(self) -> None:
        self.registered_anew += 1

    async def elect_most(self, keys: Collection[PartitionKey]) -> None:
        assert [*keys] == [T]
        self.elected += 1

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        for path in paths:
            check_path(path)
        if self.tree_fails:
            raise ConnectionLoss("/")
        return [Node(self.nodes[path], cast("Any", None)) if path in self.nodes else None for path in paths]

    def assigned(self, key: PartitionKey, replicas: tuple[int, ...], isr: tuple[int, ...] | None) -> None:
        topic, index = key
        self.nodes[znodes.topic_path(topic)] = TopicAssignment({index: replicas}).encode()
        if isr is not None:
            self.nodes[znodes.state_path(*key)] = znodes.PartitionState(isr[0], 5, isr, 1).encode()


def state(leader: int, *isr: int, epoch: int = 5, replicas: tuple[int, ...] = (ME, OTHER, THIRD)) -> PartitionState:
    return PartitionState(1, leader, epoch, isr, replicas, 0)


class Stand(Around):
    def __init__(self, *keys: PartitionKey, wait_s: float = WAIT_S) -> None:
        super().__init__()
        self.noted: list[set[PartitionKey]] = []
        self.start = UncleanStart(
            ME, keys or (T,), self, cast("Any", self), wait_s=wait_s, note=lambda left: self.noted.append(set(left))
        )

    async def is_refused(self, told: PartitionState) -> bool:
        refused = await self.start.refuse({T: told})
        self.leaders[T] = Known(NO_LEADER if told.leader == ME else told.leader, told.isr)
        return T in refused

    @property
    def is_suspected(self) -> bool:
        return T in self.start.suspects
