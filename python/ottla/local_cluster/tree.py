"""The coordination tree of a local cluster, as a process of its own: the embedded tree, by ZooKeeper's protocol."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from ottla.local_cluster import LocalClusterError
from ottla.local_cluster.processes import Process, launch

#: Written at each start of a ZooKeeper in Java, which kept the trees of clusters before there was a server of our own.
_FORMER = Path("zookeeper") / "zoo.cfg"


def launch_tree(directory: Path, port: int, log: Path) -> Process:
    """Starts a server of the tree whose file is in `directory`. It is ready when `answers`. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "ottla.coordination.server", str(directory.resolve()), str(port)]
    return launch(command, log)


def check_not_former(cluster_directory: Path) -> None:
    """Raises LocalClusterError if the cluster's tree is one that only a ZooKeeper in Java reads."""
    former = cluster_directory / _FORMER
    if former.exists():
        raise LocalClusterError(
            f"the tree of the cluster in {cluster_directory} is one of ZooKeeper's, from before `ottla cluster` had "
            f"one of its own: start a ZooKeeper with {former}, or take another --dir"
        )


def answers(port: int) -> bool:
    """True if a server of a tree, or a ZooKeeper, serves at the port."""
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as connection:
            connection.sendall(b"srvr")
            said = b""
            while more := connection.recv(4096):
                said += more
            return b"Mode: " in said
    except OSError:
        return False
