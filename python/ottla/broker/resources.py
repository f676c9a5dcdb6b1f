"""The resources of configuration requests: topics, brokers, and how they are named."""

from __future__ import annotations

from ottla.errors import InvalidRequest


def own_broker(broker_id: int, name: str) -> bool:
    """True if the resource is this broker, False if it is all brokers' default (no name). Raises InvalidRequest for
    another broker.
    """
    if not name:
        return False
    if not name.isdecimal() or int(name) != broker_id:
        raise InvalidRequest(
            f"Unexpected broker id: this is broker {broker_id}, the request names {name!r}. Send it to that broker."
        )
    return True
