"""The coordination tree of a broker that starts: ZooKeeper's, or the file in its data directory."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import trio

from ottla.broker import moved, zookeeper_access
from ottla.config import BrokerConfig, ConfigError
from ottla.controller.registration import prepare
from ottla.coordination import znodes
from ottla.coordination.tree import LoginRefused, NoNode, NotAllowed, NotKept, NoZooKeeper, Tree, Unavailable

if TYPE_CHECKING:
    from ottla.coordination.zookeeper import ZooKeeperTree
    from ottla.replication.data_directories import DataDirectories
    from ottla.replication.log_manager import LogManager

logger = logging.getLogger("ottla")


_LOOKED_AT: Final = (znodes.CONTROLLER_EPOCH, znodes.CLUSTER_ID, *znodes.PERSISTENT_PATHS)
"""Nodes that show who keeps a tree."""


class SharedTree(Protocol):
    """A tree that brokers of this process share."""

    #: What it is called in log lines.
    place: str

    async def session(self) -> Tree:
        """A session for a broker, in the loop of the caller."""


class StoppedBeforeStart(Exception):
    """The process was told to stop while it waited for others; nothing was opened yet but the directories."""


@asynccontextmanager
async def open_tree(
    config: BrokerConfig,
    logs: LogManager,
    waits: trio.CancelScope,
    *,
    adopt: bool = False,
    shared: SharedTree | None = None,
) -> AsyncIterator[Tree]:
    """The shared tree, if there is one, the ZooKeeper that the settings name, or the tree embedded in the (first) data
    directory. Its session ends with the block. `waits`, if it is cancelled, ends the wait for ZooKeeper with
    StoppedBeforeStart. `adopt`: an embedded tree that is not there is made from the logs.

    Raises ConfigError where there are logs and no embedded tree, unless they are adopted; where the embedded tree moved
    elsewhere, or does not know the logs; and where the directories belong to a cluster that is not in ZooKeeper.
    """
    tree: Tree | None = None
    file: Path | None = None
    if shared is not None:
        tree = await shared.session()
    elif config.zookeeper:
        with waits:
            tree = await _zookeeper(config, config.zookeeper, logs.directories.identity().get("cluster.id"))
        if tree is None:
            raise StoppedBeforeStart
    else:
        from ottla.broker import adoption
        from ottla.coordination.embedded import TREE_FILE, EmbeddedTree

        # Directories of a broker in KRaft mode have logs and no tree, too.
        logs.directories.identity()
        directory = logs.directories.directory_with(TREE_FILE)
        logs.directories.keeps_tree(directory)
        file = directory / TREE_FILE
        if adopt:
            await adoption.adopt(file, logs.directories, config)
        else:
            adoption.refuse(file, logs.directories)
            if not file.exists():
                moved.unmark(file)
        tree = await EmbeddedTree.open(str(file))
    async with tree:
        if file is not None:
            await adoption.refuse_unknown(tree, file, logs.directories)
        await prepare(tree)
        yield tree


def place_of(config: BrokerConfig, shared: SharedTree | None) -> str | None:
    """Where the tree is that other brokers may be in, too; None for the one in a data directory."""
    return config.zookeeper if shared is None else shared.place


def mark_moved(place: str, directories: DataDirectories) -> None:
    """An embedded tree that the directories still have is out of date from now on, since the cluster's is in `place`.
    To be called when the directories are this cluster's, and before anything is opened or registered. Raises OSError.
    """
    from ottla.coordination.embedded import TREE_FILE

    for directory in directories.online:
        file = directory.path / TREE_FILE
        if file.exists():
            moved.mark(file, place)


async def tell_unknown(tree: Tree, directories: DataDirectories) -> None:
    """Names logs that the tree, which is not in a directory, does not know. (An embedded tree is refused beside them.)
    To be called when the directories are this cluster's.
    """
    from ottla.broker import adoption

    await adoption.tell_unknown(tree, directories)


async def _zookeeper(config: BrokerConfig, servers: str, cluster_id: str | None) -> Tree:
    """A session with ZooKeeper. `cluster_id` is the cluster that the data directories name, if they name one. Raises
    Unavailable, and ConfigError if no cluster is there, and then has written nothing.
    """
    from ottla.coordination.zookeeper import ZooKeeperTree  # kazoo is imported only where it is used

    timeout_ms = config.zookeeper_connection_timeout_ms
    access = zookeeper_access.of_settings(config)
    logger.info(
        "connecting to ZooKeeper at %s, for %d ms at most (zookeeper.connect; without it this broker is a cluster of "
        "its own)",
        servers,
        timeout_ms,
    )
    try:
        tree = await ZooKeeperTree.connect(
            servers,
            session_timeout_ms=config.get_int("zookeeper.session.timeout.ms"),
            connect_timeout_ms=timeout_ms,
            create_chroot=cluster_id is None,
            **access._asdict(),
        )
        try:
            await _refuse_rules(tree)
            if access.secures:
                await _tell_left_open(tree)
            if cluster_id is not None:
                # This server may be behind another one, to which the first broker has told the id.
                await tree.sync()
                if await tree.exists(znodes.CLUSTER_ID) is None:
                    raise NoNode(znodes.CLUSTER_ID)
        except BaseException:
            await tree.aclose()
            raise
    except NoNode as error:
        raise ConfigError(
            "zookeeper.connect",
            f"there is no cluster at {servers} in ZooKeeper ({error.path} is missing), and the data directories belong "
            f"to cluster {cluster_id}. Correct zookeeper.connect; or restore ZooKeeper's data; or copy a tree there "
            "(ottla tree export); or, if this is to become the first broker of a new cluster with the records that it "
            "has, remove the line cluster.id from meta.properties in each of log.dirs. Nothing was changed",
        ) from None
    except NotAllowed as error:
        raise NotAllowed(
            f"the tree in ZooKeeper at {servers} has access rules ({error}), and this broker is {access.who} there; "
            f"let it be who the others are ({zookeeper_access.SETTING}, or zookeeper.ssl.*), or take the rules away "
            "(Kafka's zookeeper-security-migration.sh --zookeeper.acl unsecure, and zookeeper.set.acl=false for its "
            "brokers), or use another chroot"
        ) from None
    except LoginRefused as error:
        place = "" if access.user is None else f" ({access.user.place})"
        raise LoginRefused("/", f"the login at ZooKeeper, {servers}, failed: {error}{place}") from None
    except (NoZooKeeper, NotKept):
        raise
    except Unavailable:
        raise Unavailable(
            f"no ZooKeeper server at {servers} answered within {timeout_ms} ms; start it, or leave zookeeper.connect "
            "out for a broker that is a cluster of its own"
        ) from None
    return tree


async def _refuse_rules(tree: ZooKeeperTree) -> None:
    """Raises NotAllowed if only others may change what brokers change: as members of such a cluster we would find out
    one node at a time.
    """
    guarded = await tree.guarded(_LOOKED_AT)
    for path, owners in guarded.items():
        raise NotAllowed(path, f"only {owners} may change it")


async def _tell_left_open(tree: ZooKeeperTree) -> None:
    if left := await tree.left_open(_LOOKED_AT):
        logger.warning(
            "zookeeper.set.acl=true closes the nodes that are made from now on; everybody who reaches ZooKeeper may "
            "still change what was made before (%s): close that with Kafka's zookeeper-security-migration.sh "
            "--zookeeper.acl secure",
            ", ".join(left),
        )
