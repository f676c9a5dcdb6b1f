"""The access rules of all nodes in a ZooKeeper's tree."""

import re

from kazoo.client import KazooClient

Rules = frozenset[tuple[str, int]]


def rules(owner: KazooClient, name: str) -> dict[str, Rules]:
    """The rules of each node below the chroot: to whom, by the scheme, and the bits. `owner` is a client that may read
    all, and `name` the only one that may be named beside anyone. Numbers of sequential nodes are left out.
    """
    found: dict[str, Rules] = {}
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        acls, _ = owner.get_acls(path)
        assert {acl.id.id for acl in acls} <= {name, "anyone"}, (path, acls)
        place = re.sub(r"_\d{10}$", "_N", path)
        here = frozenset((acl.id.scheme, acl.perms) for acl in acls)
        assert found.setdefault(place, here) == here, place
        waiting += [f"{path.rstrip('/')}/{child}" for child in owner.get_children(path)]
    return found
