"""The parts of a local cluster, in `cluster.json` of its directory: it is written after each change, as a whole.

    {"version": 1, "zookeeper": "127.0.0.1:2181", "settings": {"min.insync.replicas": "2"},
     "own_zookeeper": {"port": 2181, "process": {"pid": 4711, "started": "..."}},
     "brokers": [{"id": 1, "port": 9092, "process": {"pid": 4712, "started": "..."}}, ...]}

`zookeeper` is what brokers are told. `own_zookeeper` is the server of the cluster's own tree, null where a ZooKeeper
was given. `process` is null for what was stopped. A process that has ended by itself stays in the file: whether it runs
is asked of the system.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ottla.local_cluster import LocalClusterError
from ottla.local_cluster.processes import Process

FILE = "cluster.json"
LOCK = "cluster.lock"
VERSION = 1


@dataclass(slots=True)
class Server:
    """A port, and the process that was started there last, None if it was stopped."""

    port: int
    process: Process | None = None

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.runs

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@dataclass(slots=True)
class LocalBroker(Server):
    """One broker."""

    id: int = 0

    @property
    def folder(self) -> str:
        """Where it is, seen from the cluster's directory."""
        return f"broker-{self.id}"


@dataclass(slots=True)
class LocalCluster:
    """A cluster in its directory. `settings` are what its brokers are told, by Kafka's names."""

    directory: Path
    zookeeper: str = ""
    own_zookeeper: Server | None = None
    settings: dict[str, str] = field(default_factory=dict)
    brokers: list[LocalBroker] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        """HOST:PORT,... of all brokers."""
        return ",".join(broker.address for broker in self.brokers)

    def data(self, broker: LocalBroker) -> Path:
        """Its log directory."""
        return self.directory / broker.folder / "data"

    def log(self, broker: LocalBroker) -> Path:
        """The file with the broker's output."""
        return self.directory / broker.folder / "log.txt"

    def save(self) -> None:
        """Writes the file. Raises OSError."""
        content = {
            "version": VERSION,
            "zookeeper": self.zookeeper,
            "own_zookeeper": None if self.own_zookeeper is None else asdict(self.own_zookeeper),
            "settings": self.settings,
            "brokers": [asdict(broker) for broker in self.brokers],
        }
        new = self.directory / f"{FILE}.new"
        new.write_text(json.dumps(content, indent=2) + "\n")
        os.replace(new, self.directory / FILE)


def load(directory: Path) -> LocalCluster | None:
    """The cluster of a directory; None if there was none. Raises LocalClusterError for a file that is not ours."""
    try:
        text = (directory / FILE).read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        content = json.loads(text)
        if content["version"] != VERSION:
            raise ValueError(f"it is of version {content['version']}")
        own = content["own_zookeeper"]
        return LocalCluster(
            directory,
            str(content["zookeeper"]),
            None if own is None else Server(int(own["port"]), _process(own["process"])),
            {str(name): str(value) for name, value in content["settings"].items()},
            [LocalBroker(int(row["port"]), _process(row["process"]), int(row["id"])) for row in content["brokers"]],
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LocalClusterError(f"{directory / FILE} does not describe a cluster of this version: {error}") from None


def existing(directory: Path) -> LocalCluster:
    """The same where there must be one. Raises LocalClusterError."""
    if (found := load(directory)) is None:
        raise LocalClusterError(
            f"there is no cluster in {directory}: `ottla cluster start 3 --dir {directory}` makes one"
        )
    return found


def _process(row: Any) -> Process | None:
    return None if row is None else Process(int(row["pid"]), str(row["started"]))


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Only one command at a time changes a cluster. Raises LocalClusterError if another one does now."""
    with (directory / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LocalClusterError(f"another command is starting or stopping the cluster in {directory}") from None
        yield
