"""`ottla tree`: look at a coordination tree, and move one between a data directory and ZooKeeper."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from ottla.cli._ask import agreed, plan_options
from ottla.cli._output import counted
from ottla.cli._settings import at_most_one, not_empty, on_command_line, zookeeper_servers
from ottla.cli._zookeeper_access import access_option, open_tree

if TYPE_CHECKING:
    from ottla.coordination.transfer import Moved
    from ottla.coordination.tree import Node

data_dir_option = click.option(
    "--data-dir",
    metavar="D",
    callback=not_empty,
    default="./data",
    show_default=True,
    help="Data directory with the embedded tree, or the tree's file itself.",
)


@click.group()
def command() -> None:
    """Look at a cluster's coordination tree, and move it between a data directory and ZooKeeper."""


@command.command()
@click.argument("path", default="/")
@data_dir_option
@click.option(
    "--zookeeper", metavar="HOST:PORT/chroot", callback=zookeeper_servers, help="Look into this ZooKeeper instead."
)
@access_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per node.")
def dump(path: str, data_dir: str, zookeeper: str | None, as_json: bool) -> None:
    """Print the nodes from PATH down. Works beside a running broker, and changes nothing."""
    from ottla.coordination.tree import check_path

    at_most_one({"--data-dir": on_command_line("data_dir"), "--zookeeper": zookeeper is not None})
    try:
        check_path(path)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    nodes = _from_zookeeper(zookeeper, path) if zookeeper else _from_file(_tree_file(data_dir), path)
    if not nodes:
        raise click.ClickException(f"there is no node {path}")
    for where, node in nodes:
        _print_node(where, node, as_json=as_json)


@command.command()
@data_dir_option
@click.option(
    "--zookeeper",
    metavar="HOST:PORT/chroot",
    callback=zookeeper_servers,
    required=True,
    help="Where to; the chroot is made if missing.",
)
@access_option
@click.option("--replace", is_flag=True, help="Remove the cluster that is there before.")
@plan_options
def export(data_dir: str, zookeeper: str, replace: bool, dry_run: bool, yes: bool) -> None:
    """Copy the embedded tree of a stopped broker into ZooKeeper.

    Then start the broker with --zookeeper, or Apache Kafka on the same data directory. Topics, settings, the cluster's
    id and all else that outlives brokers are copied. The embedded tree is marked as moved (in a file beside it): no
    broker starts with it until `ottla tree import` has copied the tree back. With --replace, what would be removed is
    shown first.
    """
    file = _tree_file(data_dir)
    _must_exist(file)
    doing = f"cannot export {file}"
    if dry_run or (replace and not yes):
        source, target = _from_file(file, "/"), _whole_of(zookeeper, doing)
        if not _is_agreed(doing, source, target, zookeeper, replace=replace, dry_run=dry_run):
            return

    async def work() -> Moved:
        from ottla.broker import moved
        from ottla.coordination import znodes
        from ottla.coordination.embedded import EmbeddedTree
        from ottla.coordination.transfer import NotMovable, copy

        path = Path(file).absolute()
        async with await EmbeddedTree.open(file) as source, await open_tree(zookeeper) as target:
            if replace and moved.is_marked(path) and await target.exists(znodes.CLUSTER_ID) is not None:
                raise NotMovable(
                    znodes.CLUSTER_ID,
                    f"the tree {file} went to {moved.place(path)} before, and the cluster that would be removed may be "
                    f"newer. If this one is the newer one, remove {moved.mark_of(path)}, and try again",
                )
            return await copy(source, target, replace=replace, begun=lambda: moved.mark(path, zookeeper))

    _report(_run(doing, work), zookeeper)


@command.command(name="import")
@data_dir_option
@click.option("--zookeeper", metavar="HOST:PORT/chroot", callback=zookeeper_servers, required=True, help="Where from.")
@access_option
@click.option("--replace", is_flag=True, help="Remove what the embedded tree holds before.")
@plan_options
def import_(data_dir: str, zookeeper: str, replace: bool, dry_run: bool, yes: bool) -> None:
    """Copy the tree of a stopped cluster from ZooKeeper into a data directory.

    Then start a broker on that directory without --zookeeper. Its replicas must all be on that one broker. If the
    import is interrupted, no broker starts there until it was repeated. With --replace, what would be removed is shown
    first.
    """
    file = _tree_file(data_dir)
    doing = f"cannot import from {zookeeper}"
    if dry_run or (replace and not yes):
        source = _from_zookeeper(zookeeper, "/")
        target = _from_file(file, "/") if os.path.exists(file) else []
        if not _is_agreed(doing, source, target, file, replace=replace, dry_run=dry_run):
            return

    async def work() -> Moved:
        from ottla.broker import moved
        from ottla.coordination import znodes
        from ottla.coordination.embedded import EmbeddedTree
        from ottla.coordination.transfer import NotMovable, copy
        from ottla.replication.data_directory import make_private

        path = Path(file).absolute()
        async with await open_tree(zookeeper, create_chroot=False) as source:
            if moved.is_marked(path) and await source.exists(znodes.CLUSTER_ID) is None:
                raise NotMovable(
                    znodes.CLUSTER_ID,
                    "there is none: it was not copied there to the end. Repeat ottla tree export",
                )
            make_private(path.parent)
            async with await EmbeddedTree.open(file) as target:
                copied = await copy(source, target, replace=replace, begun=lambda: moved.mark(path, zookeeper))
                moved.unmark(path)
                return copied

    _report(_run(doing, work), file)


Nodes: TypeAlias = "list[tuple[str, Node]]"


def _is_agreed(doing: str, source: Nodes, target: Nodes, to: str, *, replace: bool, dry_run: bool) -> bool:
    """Shows what would be copied and removed, and asks if anything would be. Whether brokers run is seen later."""
    if target and not replace and _holds(target):
        raise click.ClickException(f"{doing}: a cluster is there already; give --replace to remove it first")
    lines = [f"to copy to {to}: {_holds(source) or 'nothing'}"]
    removed = _holds(target)
    if removed:
        lines.append(f"to remove there before: {removed}")
    click.echo("\n".join(lines))
    question = f"Remove {removed} at {to}?"
    return agreed(question, f"{removed} at {to} would be removed", yes=not removed, dry_run=dry_run)


def _holds(nodes: Nodes) -> str:
    """`cluster ID with 2 topics, 4 partitions`, or nothing if there is neither cluster nor topic."""
    from ottla.coordination import znodes

    found = dict(nodes)
    topics = sum(path.count("/") == 3 and path.startswith(f"{znodes.TOPICS}/") for path in found)
    partitions = sum(path.endswith("/state") and path.startswith(f"{znodes.TOPICS}/") for path in found)
    if znodes.CLUSTER_ID in found:
        name = f"cluster {znodes.decode_cluster_id(found[znodes.CLUSTER_ID].data)}"
    elif topics:
        name = "what is left of a cluster"
    else:
        return ""
    return f"{name} with {counted(topics, 'topic')}, {counted(partitions, 'partition')}"


def _tree_file(data_dir: str) -> str:
    from ottla.coordination.embedded import TREE_FILE

    return data_dir if os.path.isfile(data_dir) else os.path.join(data_dir, TREE_FILE)


def _must_exist(file: str) -> None:
    if not os.path.exists(file):
        raise click.ClickException(
            f"there is no tree {file}; --data-dir names the data directory of a broker that keeps its tree itself, "
            "--zookeeper a tree elsewhere"
        )


def _run(doing: str, work: Callable[[], Awaitable[Moved]]) -> Moved:
    from ottla.cli._errors import explained
    from ottla.cli._interrupts import run
    from ottla.coordination.tree import TreeError

    with explained(doing):
        try:
            return run(work)
        except TreeError as error:
            raise click.ClickException(f"{doing}: {error}") from None


def _report(moved: Moved, to: str) -> None:
    click.echo(
        f"copied cluster {moved.cluster_id or '(without an id)'} to {to}: {counted(moved.topics, 'topic')}, "
        f"{counted(moved.partitions, 'partition')}, {counted(moved.nodes, 'node')}"
    )


def _from_file(file: str, path: str) -> list[tuple[str, Node]]:
    import sqlite3

    from ottla.coordination.database import read_nodes
    from ottla.coordination.tree import TreeError

    _must_exist(file)
    try:
        return read_nodes(file, path)
    except (sqlite3.Error, OSError, TreeError) as error:
        raise click.ClickException(f"cannot read {file}: {error}") from None


def _whole_of(servers: str, doing: str) -> Nodes:
    """What is in a ZooKeeper; nothing where its chroot does not exist."""
    from ottla.cli._errors import explained
    from ottla.cli._interrupts import run
    from ottla.coordination.transfer import walk
    from ottla.coordination.tree import NoNode, TreeError

    async def work() -> Nodes:
        async with await open_tree(servers, create_chroot=False) as tree:
            return await walk(tree)

    with explained(doing):
        try:
            return run(work)
        except NoNode:
            return []
        except TreeError as error:
            raise click.ClickException(f"{doing}: {error}") from None


def _from_zookeeper(servers: str, path: str) -> list[tuple[str, Node]]:
    from ottla.cli._errors import explained
    from ottla.cli._interrupts import run
    from ottla.coordination.transfer import walk
    from ottla.coordination.tree import TreeError

    async def work() -> list[tuple[str, Node]]:
        async with await open_tree(servers, create_chroot=False) as tree:
            return sorted(await walk(tree, path))

    with explained(f"cannot read {servers}", TreeError):
        return run(work)


def _print_node(path: str, node: Node, *, as_json: bool) -> None:
    text = node.data.decode(errors="backslashreplace")
    if as_json:
        from ottla.cli._output import print_json

        print_json(
            {
                "path": path,
                "data": text,
                "version": node.stat.version,
                "czxid": node.stat.czxid,
                "mzxid": node.stat.mzxid,
                "ephemeral_owner": node.stat.ephemeral_owner,
                "modified_ms": node.stat.mtime_ms,
            }
        )
        return
    kept = f"  [session 0x{node.stat.ephemeral_owner:x}]" if node.stat.ephemeral_owner else ""
    click.echo(f"{path}{kept}{'  ' + text if text else ''}")
