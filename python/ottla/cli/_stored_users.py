"""Users that are put into a coordination tree without asking a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli._first_start import in_tree

if TYPE_CHECKING:
    from ottla.coordination.tree import Tree


def write_user(
    doing: str,
    data_dir: str | None,
    zookeeper: str | None,
    user: str,
    password: str,
    mechanisms: tuple[str, ...],
    iterations: int,
) -> None:
    """Adds a user in the tree of a ZooKeeper, or else in that of a data directory."""

    async def write(tree: Tree) -> None:
        from ottla.broker.authentication.first_user import set_password
        from ottla.broker.scram import Mechanism

        kinds = [each for each in Mechanism if each.setting in mechanisms]
        await set_password(tree, user, password, kinds, iterations)

    in_tree(doing, data_dir, zookeeper, write)
