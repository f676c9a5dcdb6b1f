"""The door for what brokers say among themselves: on which listeners it is heard, and with which names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.names import check_name
from ottla.errors import InvalidTopic

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

#: Characters of a name in a file system.
FOLDER_NAME_MAX = 255


def is_heard(broker: Broker, request: Request) -> bool:
    """Whether a request of a controller came to a listener for brokers. Any other connection is closed.

    Nobody authenticates here, so the listener is all that tells brokers from clients, where there are several.
    """
    if request.listener in broker.config.listeners_between_brokers:
        return True
    request.close(
        f"API key {request.api_key} is for brokers, and taken on "
        f"{' and '.join(sorted(broker.config.listeners_between_brokers))} only"
    )
    return False


def is_partition(broker: Broker, topic: str, index: int) -> bool:
    """Whether a topic of this name may have a partition of this number. Logs a line if not: the controller is in error,
    and the row alone is refused.
    """
    try:
        check_name(topic)
    except InvalidTopic as problem:
        broker.log.warning("a controller names a partition that cannot be: %s", problem)
        return False
    if index < 0:
        broker.log.warning(
            "a controller names a partition that cannot be: %s has none with the number %d", topic, index
        )
        return False
    if len(f"{topic}-{index}") > FOLDER_NAME_MAX:
        broker.log.warning("a controller names a partition that cannot be: the folder %s-%d is too long", topic, index)
        return False
    return True
