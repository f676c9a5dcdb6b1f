"""The ends of moves: which brokers have yet to delete what they hold no longer, and when the tree may forget them.

The assignment in the tree is all that the next controller knows of a replica that has left. So it names the replica, on
its way out, until the replica's broker has answered StopReplica. A controller that dies before that leaves the next one
enough to ask again; one that dies later leaves nothing on a broker that lived.

A broker is not waited for when it refuses (its disk has failed), when it leaves, and when it has not answered for
`ANSWERS_S`: no broker holds a move up. A broker that comes back before the move has ended is asked again.

Values in, values out: the controller asks the brokers and tells what came of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, TypeAlias

import msgspec

from ottla.kafka import TopicPartition

#: How long a broker that lives has for its answer.
ANSWERS_S: Final = 30.0

#: The replicas of a partition; those on their way in; those on their way out.
Assigned: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


class Ending(msgspec.Struct):
    """One partition whose assignment in the tree names more brokers than hold it."""

    in_tree: Assigned
    """The assignment as the tree has it."""
    leaving: set[int]
    """The brokers that hold the partition no longer."""
    leader_epoch: int = -1
    """Under which they are asked. An answer to an older request says nothing of what came after that."""
    waiting: set[int] | None = None
    """Those that have yet to answer; None before any was asked."""
    until_s: float = 0.0


class Endings:
    """All moves that are at their end. Times are those of one clock, in seconds."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, Ending] = {}
        #: The partitions of each topic among them.
        self._numbers: dict[str, set[int]] = {}
        self._complete: set[TopicPartition] = set()

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, name: TopicPartition) -> bool:
        return name in self._known

    def get(self, name: TopicPartition) -> Ending | None:
        return self._known.get(name)

    def begin(self, name: TopicPartition, in_tree: Assigned, leaving: Collection[int]) -> None:
        """The partition is held without `leaving` from now on. Where it is known already, what the tree has stays."""
        ending = self._known.setdefault(name, Ending(in_tree, set()))
        ending.leaving.update(leaving)
        self._numbers.setdefault(name.topic, set()).add(name.partition)

    def asked(self, name: TopicPartition, brokers: Iterable[int], leader_epoch: int, until_s: float) -> None:
        """These brokers are to delete the partition, and are waited for."""
        ending = self._known[name]
        ending.waiting, ending.leader_epoch, ending.until_s = set(brokers), leader_epoch, until_s
        self._look(name, ending)

    def asked_again(self, name: TopicPartition, broker: int) -> None:
        """A broker is back, for which the move waits no longer than it did."""
        ending = self._known[name]
        if ending.waiting is not None:
            ending.waiting.add(broker)
            self._complete.discard(name)

    def answered(self, broker: int, name: TopicPartition, leader_epoch: int) -> None:
        """A broker has answered a request to delete the partition that was of this leader epoch, whatever it said."""
        ending = self._known.get(name)
        if ending is not None and leader_epoch >= ending.leader_epoch:
            self._not_waited_for(name, ending, (broker,))

    def broker_left(self, broker: int) -> None:
        """A broker is gone, and what it was asked for went with it."""
        for name, ending in self._known.items():
            self._not_waited_for(name, ending, (broker,))

    def of_topic(self, topic: str) -> dict[int, set[int]]:
        """The brokers that the partitions of a topic leave, by partition."""
        return {number: self._known[TopicPartition(topic, number)].leaving for number in self._numbers.get(topic, ())}

    def left_by(self, broker: int) -> list[TopicPartition]:
        """The partitions that a broker is to have no longer."""
        return [name for name, ending in self._known.items() if broker in ending.leaving]

    def give_up(self, now_s: float) -> dict[TopicPartition, list[int]]:
        """Waits no longer for brokers that have had their time; which these are by partition."""
        silent = {}
        for name, ending in self._known.items():
            if ending.waiting and ending.until_s <= now_s:
                silent[name] = sorted(ending.waiting)
                self._not_waited_for(name, ending, silent[name])
        return silent

    def next_s(self) -> float | None:
        """When `give_up` is worth a call; None while nobody is waited for."""
        return min((ending.until_s for ending in self._known.values() if ending.waiting), default=None)

    def take_complete(self) -> set[TopicPartition]:
        """The partitions for which nobody is waited any more. Each is returned once."""
        complete, self._complete = self._complete, set()
        return complete

    def forget(self, name: TopicPartition) -> None:
        """The tree names nobody any more that does not hold the partition; or there is no such partition."""
        self._complete.discard(name)
        if self._known.pop(name, None) is not None:
            numbers = self._numbers[name.topic]
            numbers.remove(name.partition)
            if not numbers:
                del self._numbers[name.topic]

    def _not_waited_for(self, name: TopicPartition, ending: Ending, brokers: Iterable[int]) -> None:
        if ending.waiting:
            ending.waiting.difference_update(brokers)
            self._look(name, ending)

    def _look(self, name: TopicPartition, ending: Ending) -> None:
        if ending.waiting is not None and not ending.waiting:
            self._complete.add(name)
