"""The mark of an embedded tree that is out of date: its topics are kept in ZooKeeper now.

A directory that went to ZooKeeper, to Ottla's brokers or Kafka's, keeps the file of its tree. Whoever starts on it
alone afterwards would serve topics as they were then, and a topic that is made there would take the folder of another
one for its own. So a small file beside the tree says that the tree moved. It lies beside it and not inside, because a
start under ZooKeeper does not open the tree. Kafka and older Ottlas look at folders and at names that they know, and
do not see it.

Who dies between two steps leaves no two trees that both can be used (`transfer.copy` has the order). The tree that is
copied to has no cluster's id until it is whole:

| died | tree in the directory | tree in ZooKeeper | way out |
|---|---|---|---|
| export, before the mark | in use, not marked | without an id | either; nothing happened |
| export, before the last write | marked | without an id | repeat it, or remove the mark |
| start under ZooKeeper, before the mark | not marked | in use | it had not registered, nor opened a log |
| import, before the mark goes | marked | whole | repeat it |
"""

from __future__ import annotations

from pathlib import Path

from ottla.config import ConfigError, properties
from ottla.replication.data_directory import replace_file, sync_folder

__all__ = ["is_marked", "mark", "mark_of", "place", "refuse", "unmark"]

SUFFIX = ".moved"
_WHY = "# The coordination tree beside this file is out of date: see `ottla tree import`, which removes this file.\n"
_PLACE = "zookeeper.connect"


def mark_of(tree: Path) -> Path:
    """The file that marks a tree's file."""
    return tree.with_name(tree.name + SUFFIX)


def is_marked(tree: Path) -> bool:
    """Whatever the mark holds: one that was damaged is one still."""
    return mark_of(tree).exists()


def place(tree: Path) -> str:
    """Where the topics went, as a line calls it."""
    try:
        entries = properties.read(mark_of(tree))
    except (ConfigError, OSError):
        entries = []
    return next((f"ZooKeeper at {entry.value}" for entry in entries if entry.key == _PLACE), "ZooKeeper")


def mark(tree: Path, servers: str) -> None:
    """Marks a tree as moved to the ZooKeeper at `servers`. Returns when that would survive a power cut. Raises OSError.

    Does nothing where it is marked so already.
    """
    if not is_marked(tree) or place(tree) != f"ZooKeeper at {servers}":
        replace_file(mark_of(tree), _WHY + properties.write({_PLACE: servers}))


def unmark(tree: Path) -> None:
    """The tree is what its topics are. Returns when that would survive a power cut. Raises OSError."""
    if is_marked(tree):
        mark_of(tree).unlink()
        sync_folder(tree.parent)


def refuse(tree: Path, folders: str) -> None:
    """Raises ConfigError if the tree is marked. `folders` names some partitions beside it."""
    if is_marked(tree):
        raise ConfigError(
            "log.dirs",
            f"the coordination tree {tree} is out of date: its topics went to {place(tree)}, or were not copied back "
            f"to the end. Beside it: {folders}. Name that ZooKeeper (--zookeeper, zookeeper.connect); or stop all "
            "brokers and copy the tree back from there (ottla tree import --replace); or repeat ottla tree export, if "
            "that was interrupted; or, for a new cluster, move the tree and the folders away. If nobody has used "
            f"the topics elsewhere, remove {mark_of(tree).name}. Nothing was changed",
        )
