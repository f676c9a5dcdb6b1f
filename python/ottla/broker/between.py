"""The door for what controllers say: with which names and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.asked import REPLICAS_MAX
from ottla.controller.names import check_name
from ottla.errors import InvalidTopic, RemoteProtocolError

if TYPE_CHECKING:
    from ottla.broker.rooms import ControlRooms

#: More partitions than any cluster has. Where each of them has an entry in a dictionary, that takes the loop for 13 ms
#: when it grows; one of 700,000 would take it for 30 ms.
PARTITIONS_MAX = 250_000
#: Characters of a name in a file system.
FOLDER_NAME_MAX = 255


def check_replicas(*lists: list[int]) -> None:
    """Raises RemoteProtocolError if a partition has more than `REPLICAS_MAX` replicas. One tuple is made of them,
    in one go.
    """
    for replicas in lists:
        if len(replicas) > REPLICAS_MAX:
            raise RemoteProtocolError(f"{len(replicas)} replicas of one partition are more than {REPLICAS_MAX}")


def is_partition(rooms: ControlRooms, topic: str, index: int) -> bool:
    """True if a topic of this name may have a partition of this number. Logs a line if not: the controller is in error,
    and the row alone is refused.
    """
    try:
        check_name(topic)
    except InvalidTopic as problem:
        rooms.log.warning("a controller names a partition that cannot be: %s", problem)
        return False
    if index < 0:
        rooms.log.warning("a controller names a partition that cannot be: %s has none with the number %d", topic, index)
        return False
    if index >= PARTITIONS_MAX:
        rooms.log.warning(
            "a controller names a partition that cannot be: no topic has one with the number %d, but %d at most",
            index,
            PARTITIONS_MAX,
        )
        return False
    if len(f"{topic}-{index}") > FOLDER_NAME_MAX:
        rooms.log.warning("a controller names a partition that cannot be: the folder %s-%d is too long", topic, index)
        return False
    return True
