"""The access rules of ZooKeeper's nodes (their ACLs) in a cluster with `zookeeper.set.acl=true`.

The creator of a node may do everything with it, and everybody else may read it. Nodes with secrets are for their
creator alone: users with their stored passwords, and the settings of brokers. The node that old consumers have their
groups below is open, since these clients log in nowhere.

A rule goes by the path that the session sees, so a chroot changes nothing. ZooKeeper puts the login of the session in
the creator's place (its scheme `auth`).

Source: ZkData.defaultAcls. As there, a secret path is any that begins so, such as /config/users-of-old.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kazoo.security import ACL, ANYONE_ID_UNSAFE, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Permissions

from ottla.coordination.znodes import CONFIG_BROKERS, CONSUMERS

SECRET_PATHS: Final = ("/config/users", CONFIG_BROKERS, "/delegation_token/tokens")
SECRET: Final[list[ACL]] = CREATOR_ALL_ACL
READABLE: Final[list[ACL]] = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
OPEN: Final[list[ACL]] = OPEN_ACL_UNSAFE


def rules_of(path: str) -> list[ACL]:
    """The rules of a node that is created at this path."""
    if path == CONSUMERS:
        return OPEN
    return SECRET if path.startswith(SECRET_PATHS) else READABLE


def is_open(rules: Iterable[ACL]) -> bool:
    """True if everybody may do everything."""
    return any(rule.id == ANYONE_ID_UNSAFE and rule.perms == Permissions.ALL for rule in rules)
