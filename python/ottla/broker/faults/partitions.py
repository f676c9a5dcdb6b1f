"""The broker as a Produce or a Fetch sees it that fails for some partitions: these are not led here.

Both handlers ask each partition whether it is led here, and answer the error that it gives in its row. So a request is
not taken apart: its other rows are served by the same handler, in the same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.faults.names import Names

if TYPE_CHECKING:
    from ottla.kafka import PartitionKey


class Refusing:
    """A partition that answers an error."""

    is_leader = False

    def __init__(self, code: int) -> None:
        self._code = code

    def leader_error(self, *_: object) -> int:
        return self._code


class Partitions:
    """The partitions of a broker, some of which refuse."""

    def __init__(self, partitions: Any, about: Names, code: int) -> None:
        self._partitions = partitions
        self._about = about._replace(group=None)
        self._refusing = Refusing(code)

    def get(self, key: PartitionKey) -> Any:
        if self._about.covers(Names(*key)):
            return self._refusing
        return self._partitions.get(key)

    def __getitem__(self, key: PartitionKey) -> Any:
        return self._partitions[key]


class Replicas:
    """The replicas of a broker with these partitions."""

    def __init__(self, replicas: Any, partitions: Partitions) -> None:
        self._replicas = replicas
        self.partitions = partitions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._replicas, name)


class Rooms:
    """A broker whose partitions fail as far as `about` covers them."""

    def __init__(self, rooms: Any, about: Names, code: int) -> None:
        self._rooms = rooms
        self.replicas = Replicas(rooms.replicas, Partitions(rooms.replicas.partitions, about, code))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rooms, name)
