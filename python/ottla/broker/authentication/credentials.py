"""SCRAM credentials of all users, as `/config/users` has them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.broker.authentication.scram import Decoys
from ottla.broker.quotas.entities import entity_at
from ottla.broker.quotas.limits import ABSENT, Entity
from ottla.broker.scram import Credential, Mechanism, credentials_of
from ottla.controller.configs import get_config
from ottla.kafka import SCRAM_ITERATIONS_MIN

if TYPE_CHECKING:
    from ottla.coordination.tree import Tree

logger = logging.getLogger("ottla.broker")


class Credentials:
    """decoys: For users that have no credential."""

    def __init__(self, decoys: Decoys) -> None:
        self._decoys = decoys
        self._users: dict[str, dict[Mechanism, Credential]] = {}
        #: How many credentials have so many iterations.
        self._iterations: dict[Mechanism, Counter[int]] = {kind: Counter() for kind in Mechanism}

    def take(self, entities: Iterable[tuple[Entity, Mapping[str, str]]]) -> None:
        """These are all entities that have settings: a user that is not among them has no credential."""
        gone = set(self._users)
        for entity, config in entities:
            if (user := _user(entity)) is not None:
                self._set(user, config)
                gone.discard(user)
        for user in gone:
            self._set(user, {})

    async def changed(self, tree: Tree, kind: str, name: str) -> None:
        """Someone changed the settings of this name in the tree."""
        entity = entity_at(kind, name)
        if entity is not None and (user := _user(entity)) is not None:
            self._set(user, await get_config(tree, kind, name))

    def find(self, kind: Mechanism, user: str) -> Credential:
        """The credential of a user, or a decoy, whose iterations are those that most others have."""
        found = self._users.get(user, {}).get(kind)
        if found is not None:
            return found
        usual = self._iterations[kind].most_common(1)
        return self._decoys.credential(kind, user, usual[0][0] if usual else SCRAM_ITERATIONS_MIN)

    def _set(self, user: str, config: Mapping[str, str]) -> None:
        for kind, old in self._users.pop(user, {}).items():
            self._iterations[kind][old.iterations] -= 1
        try:
            found = credentials_of(config)
        except ValueError as error:
            logger.error("user '%s' cannot come in by SCRAM: %s", user, error)
            return
        if found:
            self._users[user] = found
        for kind, new in found.items():
            self._iterations[kind][new.iterations] += 1


def _user(entity: Entity) -> str | None:
    """The name of the user that an entity is; None if it is another one."""
    return entity.user if entity.client_id is ABSENT and entity.user is not ABSENT else None
