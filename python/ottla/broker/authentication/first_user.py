"""Credentials that are put into a coordination tree without a broker: those of the user by which brokers let each other
in, and of the first administrator. As Kafka's kafka-configs.sh does with --zookeeper.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.broker import scram
from ottla.broker.quotas.entities import encode_name
from ottla.controller.configs import Entity, Wanted, get_configs, set_configs
from ottla.coordination import znodes
from ottla.coordination.znodes import MalformedNode
from ottla.errors import InvalidConfig, UnacceptableCredential

if TYPE_CHECKING:
    from ottla.coordination.tree import Tree

SALT_BYTES = 32


async def set_password(
    tree: Tree, user: str, password: str, mechanisms: Collection[scram.Mechanism], iterations: int
) -> None:
    """Stores credentials for these mechanisms, in place of those that the user has. Brokers of that tree hear of it.

    Raises:
        UnacceptableCredential: the tree has no place for a user of that name.
        InvalidConfig: the settings that the user has cannot be read.
    """
    if not scram.has_place(user):
        raise UnacceptableCredential(f"the name {user!r} has no place in the coordination tree: choose another one")
    entity = Entity("users", encode_name(user))
    (config,) = await get_configs(tree, [entity])
    if isinstance(config, MalformedNode):
        raise InvalidConfig(str(config)) from config
    for kind in mechanisms:
        salt = secrets.token_bytes(SALT_BYTES)
        salted = hashlib.pbkdf2_hmac(kind.digest, password.encode(), salt, iterations)
        config[kind.setting] = scram.credential(kind, salt, salted, iterations)
    # Where no broker has been, there is nothing yet.
    await tree.ensure(znodes.CONFIG_CHANGES)
    (problem,) = await set_configs(tree, [Wanted(entity, config)])
    if problem is not None:
        raise problem
