"""Users that are put into a coordination tree without asking a broker."""

from __future__ import annotations

from pathlib import Path

import click


def write_user(
    doing: str,
    data_dir: str | None,
    zookeeper: str | None,
    user: str,
    password: str,
    mechanisms: tuple[str, ...],
    iterations: int,
) -> None:
    """Adds a user in the tree of a data directory, or else in a ZooKeeper."""
    from ottla.broker import moved
    from ottla.broker.authentication.first_user import set_password
    from ottla.broker.scram import Mechanism
    from ottla.cli._errors import explained
    from ottla.cli._interrupts import run
    from ottla.coordination.embedded import TREE_FILE, EmbeddedTree
    from ottla.coordination.tree import TreeError
    from ottla.coordination.zookeeper import ZooKeeperTree
    from ottla.errors import KafkaError
    from ottla.replication.data_directory import make_private

    kinds = [each for each in Mechanism if each.setting in mechanisms]

    async def work() -> None:
        if zookeeper is not None:
            async with await ZooKeeperTree.connect(zookeeper) as tree:
                return await set_password(tree, user, password, kinds, iterations)
        assert data_dir is not None, "one of both is given"
        file = Path(data_dir).absolute() / TREE_FILE
        if moved.is_marked(file):
            raise click.ClickException(
                f"{doing}: the tree {file} went to {moved.place(file)}; give that as --zookeeper"
            )
        make_private(file.parent)
        async with await EmbeddedTree.open(str(file)) as own:
            return await set_password(own, user, password, kinds, iterations)

    with explained(doing):
        try:
            run(work)
        except (TreeError, KafkaError) as error:
            raise click.ClickException(f"{doing}: {error}") from None
