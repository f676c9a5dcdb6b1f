"""The needs of a request, which its client has to be allowed: operations on kinds of resources, as Kafka's authorizers
know them.

An API's declaration names them: `needs="READ on GROUP, READ on TOPIC"` means both, for each group and topic that a
request names; `needs="DESCRIBE on CLUSTER or DESCRIBE on GROUP"` means that either is enough. Where there is no
authorizer, everybody is allowed everything. The numbers are those of ACLs on the wire (AclOperation, ResourceType).
Those below `Operation.READ` and `Resource.TOPIC` stand in access rules and in filters for them only.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeAlias


class Operation(IntEnum):
    """An operation on a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Resource(IntEnum):
    """To what it is done. There is one `CLUSTER`; the others have names."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6


class Need(NamedTuple):
    """An operation on each resource of this kind that a request names."""

    operation: Operation
    resource: Resource


#: Needs of which one is enough.
AnyOf: TypeAlias = "tuple[Need, ...]"


def parse_needs(text: str) -> tuple[AnyOf, ...]:
    """The needs that a declaration names; "": none. Raises KeyError for an unknown word."""
    return tuple(tuple(_need(one) for one in each.split(" or ")) for each in text.split(", ")) if text else ()


def _need(text: str) -> Need:
    operation, _, resource = text.partition(" on ")
    return Need(Operation[operation], Resource[resource])
