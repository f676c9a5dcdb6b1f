"""Commands that write into a coordination tree without a broker, as is needed before the first start: the options that
say where the tree is, and the work on it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli._settings import at_most_one, not_empty, on_command_line, zookeeper_servers
from ottla.cli._zookeeper_access import access_option, open_tree

if TYPE_CHECKING:
    from ottla.coordination.tree import Tree

Function = TypeVar("Function", bound=Callable[..., Any])


def first_start_options(function: Function) -> Function:
    """Adds `--data-dir` and `--zookeeper` to a command, which hands both to `asks_no_broker` and `in_tree`; and what
    says who to be in ZooKeeper.
    """
    function = access_option(function)
    function = click.option(
        "--zookeeper",
        metavar="HOST:PORT/chroot",
        callback=zookeeper_servers,
        help="Ask no broker: write into this ZooKeeper; the chroot is made if missing.",
    )(function)
    return click.option(
        "--data-dir",
        metavar="D",
        callback=not_empty,
        help="Ask no broker: write into the tree in this data directory, whose broker is stopped or was never started.",
    )(function)


def asks_no_broker(data_dir: str | None, zookeeper: str | None) -> bool:
    """True if one of the two was given. Raises click.UsageError if more than one place was."""
    at_most_one(
        {
            "--bootstrap": on_command_line("bootstrap"),
            "--data-dir": data_dir is not None,
            "--zookeeper": zookeeper is not None,
        }
    )
    return data_dir is not None or zookeeper is not None


def in_tree(doing: str, data_dir: str | None, zookeeper: str | None, work: Callable[[Tree], Awaitable[None]]) -> None:
    """Runs `work` with the tree of a ZooKeeper, or else with that of a data directory. What goes wrong becomes one
    line: `doing: why`.
    """
    from ottla.broker import moved
    from ottla.cli._errors import explained
    from ottla.cli._interrupts import run
    from ottla.coordination.embedded import TREE_FILE, EmbeddedTree
    from ottla.coordination.tree import TreeError
    from ottla.errors import KafkaError
    from ottla.replication.data_directory import make_private

    async def opened() -> None:
        if zookeeper is not None:
            async with await open_tree(zookeeper) as tree:
                return await work(tree)
        assert data_dir is not None, "one of both is given"
        file = Path(data_dir).absolute() / TREE_FILE
        if moved.is_marked(file):
            raise click.ClickException(
                f"{doing}: the tree {file} went to {moved.place(file)}; give that as --zookeeper"
            )
        make_private(file.parent)
        async with await EmbeddedTree.open(str(file)) as own:
            return await work(own)

    with explained(doing):
        try:
            run(opened)
        except (TreeError, KafkaError) as error:
            raise click.ClickException(f"{doing}: {error}") from None
