"""Which quota holds for a client. No I/O.

A client is a user and a client id. Quotas are set for users, client ids, and pairs of them, each by name or as the
default. The most specific one holds (KIP-55), and it also says whose use is counted together: a quota of a user is
shared by all of that user's clients, one of a client id by all who name it, one of a pair by nobody else.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

#: In place of a name: whoever has no quota by name.
DEFAULT: Final = None


class Quota(Enum):
    """A kind of quota, by its name in the coordination tree."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"


class Entity(NamedTuple):
    """Whom a quota is for: names, DEFAULT, or ABSENT where it does not care."""

    user: str | None
    client_id: str | None


class _Absent(str):
    """Not a name, and no name is equal to it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()

#: Whose use is counted together: (user, client id), with "" for all.
Group: TypeAlias = "tuple[str, str]"


class Limits:
    """The quotas of one kind."""

    def __init__(self, client_default: float | None = None) -> None:
        #: `quota.producer.default` and `quota.consumer.default`: for client ids without any other.
        self._client_default = client_default
        self._quotas: dict[Entity, float] = {}

    def __bool__(self) -> bool:
        return bool(self._quotas) or self._client_default is not None

    def set(self, entity: Entity, value: float | None) -> None:
        """Sets a quota; None removes it."""
        if value is None:
            self._quotas.pop(entity, None)
        else:
            self._quotas[entity] = value

    def entities(self) -> Iterable[Entity]:
        """Those that have a quota of their own."""
        return self._quotas.keys()

    def find(self, user: str, client_id: str) -> tuple[Group, float] | None:
        """Whose use counts together with this client's, and what they may use; None if they may use anything."""
        quotas = self._quotas
        for entity, group in (
            (Entity(user, client_id), (user, client_id)),
            (Entity(user, DEFAULT), (user, client_id)),
            (Entity(user, ABSENT), (user, "")),
            (Entity(DEFAULT, client_id), (user, client_id)),
            (Entity(DEFAULT, DEFAULT), (user, client_id)),
            (Entity(DEFAULT, ABSENT), (user, "")),
            (Entity(ABSENT, client_id), ("", client_id)),
            (Entity(ABSENT, DEFAULT), ("", client_id)),
        ):
            value = quotas.get(entity)
            if value is not None:
                return group, value
        return None if self._client_default is None else (("", client_id), self._client_default)
