"""The resources of configuration requests: topics, brokers, and how they are named."""

from __future__ import annotations

from typing import Protocol

from ottla.errors import InvalidRequest
from ottla.kafka import TOPIC_RESOURCE
from ottla.wire.acls import CLUSTER_NAME
from ottla.wire.needs import Resource


class Configured(Protocol):
    """A row of a configuration request."""

    resource_type: int
    resource_name: str


def resource_of(row: Configured) -> tuple[Resource, str]:
    """The kind and name of the resource whose rules hold for a row: brokers are the cluster."""
    if row.resource_type == TOPIC_RESOURCE:
        return Resource.TOPIC, row.resource_name
    return Resource.CLUSTER, CLUSTER_NAME


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
