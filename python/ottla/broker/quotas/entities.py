"""How quotas are named: in the coordination tree (`/config/users/U`, `/config/users/U/clients/C`, `/config/clients/C`,
each name percent-encoded, `<default>` in place of one) and their values as text.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from urllib.parse import quote, unquote_plus

from ottla.broker.quotas.limits import ABSENT, DEFAULT, Entity, Quota
from ottla.controller.configs import get_config
from ottla.coordination import znodes
from ottla.coordination.tree import NoNode, Tree
from ottla.coordination.znodes import MalformedNode
from ottla.errors import InvalidRequest

logger = logging.getLogger("ottla.quotas")

#: Kinds of settings in the tree, and of entities in requests.
USERS, CLIENTS = "users", "clients"
USER, CLIENT_ID = "user", "client-id"
DEFAULT_NAME = "<default>"


def encode_name(name: str | None) -> str:
    """A name as a part of a path (Kafka's Sanitizer)."""
    return DEFAULT_NAME if name is None else quote(name, safe=".-_")


def decode_name(name: str) -> str | None:
    return DEFAULT if name == DEFAULT_NAME else unquote_plus(name)


def path_of(entity: Entity) -> tuple[str, str]:
    """The kind and the name under which the tree has the settings of an entity. Raises InvalidRequest for nobody."""
    user, client_id = entity
    for name in entity:
        if name in (".", ".."):
            raise InvalidRequest(f"The name {name!r} has no place in the coordination tree: choose another one.")
    if user is not ABSENT:
        name = encode_name(user)
        return USERS, name if client_id is ABSENT else f"{name}/clients/{encode_name(client_id)}"
    if client_id is ABSENT:
        raise InvalidRequest("Invalid empty client quota entity: name a user, a client-id, or both.")
    return CLIENTS, encode_name(client_id)


def entity_at(kind: str, name: str) -> Entity | None:
    """The entity whose settings are there; None if it is a path of something else."""
    if kind == CLIENTS:
        return Entity(ABSENT, decode_name(name))
    user, _, rest = name.partition("/")
    if not rest:
        return Entity(decode_name(user), ABSENT)
    middle, _, client_id = rest.partition("/")
    return Entity(decode_name(user), decode_name(client_id)) if middle == "clients" and "/" not in client_id else None


def parts(entity: Entity) -> Iterator[tuple[str, str | None]]:
    """Kind and name (None: the default) of what an entity names."""
    for kind, name in ((USER, entity.user), (CLIENT_ID, entity.client_id)):
        if name is not ABSENT:
            yield kind, name


async def _children(tree: Tree, path: str) -> list[str]:
    try:
        return await tree.children(path)
    except NoNode:
        return []


async def all_entities(tree: Tree) -> list[tuple[Entity, dict[str, str]]]:
    """Every entity that has settings, with them."""
    paths = [(CLIENTS, name) for name in await _children(tree, znodes.config_path(CLIENTS, "").rstrip("/"))]
    for user in await _children(tree, znodes.config_path(USERS, "").rstrip("/")):
        paths.append((USERS, user))
        below = await _children(tree, f"{znodes.config_path(USERS, user)}/clients")
        paths += [(USERS, f"{user}/clients/{client_id}") for client_id in below]
    found = []
    for kind, name in paths:
        entity = entity_at(kind, name)
        if entity is not None:
            try:
                found.append((entity, await get_config(tree, kind, name)))
            except MalformedNode as error:
                logger.error("quotas cannot be understood and do not hold: %s", error)
    return found


#: The smallest and the largest quota but 0. What is nearer to 0 or larger only asks for arithmetic without a meaning.
QUOTA_MIN, QUOTA_MAX = 1e-6, float(2**63)


def problem_of(quota: float) -> str | None:
    """The problem with a quota's value, in words; None if it can be taken. A negative value counts as nothing, as in
    Kafka.
    """
    if not math.isfinite(quota):
        return "is no finite number"
    if abs(quota) > QUOTA_MAX or 0 < abs(quota) < QUOTA_MIN:
        return f"is neither 0 nor between {QUOTA_MIN} and 2^63"
    return None


def values(config: Mapping[str, str]) -> Iterator[tuple[Quota, float]]:
    """The quotas among an entity's settings (a user's credentials are there as well)."""
    for kind in Quota:
        text = config.get(kind.value)
        if text is not None:
            try:
                quota = float(text)
            except ValueError:
                logger.error("%s=%s is no number: the quota is not taken", kind.value, text)
                continue
            if (problem := problem_of(quota)) is None:
                yield kind, quota
            else:
                logger.error("%s=%s %s: the quota is not taken", kind.value, text, problem)
