"""The directories of `log.dirs`: opening, locking, whose they are, and which of them work.

Rules of Apache Kafka 2.7 (KIP-112, `LogManager`, `BrokerMetadataCheckpoint`): a directory that cannot be opened is left
out with an error as long as another one can; one that somebody else holds stops the start, because two brokers must
never think that they own it; all of them belong to the same broker of the same cluster, which `meta.properties` says
in each.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from ottla._core import LogDirectory, TopicTraffic, create_file
from ottla.config import ConfigError, properties
from ottla.errors import StorageError

logger = logging.getLogger("ottla.log_manager")

META = "meta.properties"
#: The version of that file, and what Kafka does not start without.
VERSION = "0"
MUST_HAVE = ("version", "broker.id")


class DataDirectory:
    """One directory of `log.dirs`. `native` is there from the time it is opened until it fails."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.native: LogDirectory | None = None
        #: What is left of it to be closed, after it failed.
        self.failing: LogDirectory | None = None
        #: Why it is out of use; None while it is not.
        self.failure: str | None = None

    def __str__(self) -> str:
        return str(self.path)

    @property
    def is_online(self) -> bool:
        return self.native is not None

    @property
    def native_failure(self) -> str | None:
        """Why it failed, if nobody has taken it out of use yet."""
        return None if self.native is None else self.native.failure

    @property
    def open_native(self) -> LogDirectory:
        """Raises StorageError if the directory is out of use."""
        if self.native is None:
            raise StorageError(f"the log directory {self.path} is out of use: {self.failure}")
        return self.native

    def open(self, traffic: TopicTraffic, *, high_watermark_checkpoint_interval_ms: int) -> None:
        """Creates it if need be and locks it. Its logs count what goes through them in `traffic`.

        Raises OSError or StorageError.
        """
        make_private(self.path)
        os.listdir(self.path)
        if self.path.stat().st_mode & 0o007:
            logger.warning(
                "every user of this machine can read what is in the log directory %s, stored credentials included: "
                "chmod 700 keeps them out, chmod 750 lets its group read",
                self.path,
            )
        self.native = LogDirectory.open(
            self.path,
            traffic=traffic,
            high_watermark_checkpoint_interval_ms=high_watermark_checkpoint_interval_ms,
        )

    def go_offline(self, reason: str) -> None:
        """It is used no more; what is left of it is `failing`."""
        self.failing, self.native = self.native, None
        self.failure = reason

    def identity(self) -> dict[str, str]:
        """meta.properties: `version`, `broker.id`, and `cluster.id` but of a Kafka before 0.10.1; empty in a new
        directory.

        Raises OSError, and ConfigError for a file that is damaged, or is of a release that writes another kind.
        """
        path = self.path / META
        if not path.exists():
            return {}
        try:
            text = properties.decode(path.read_bytes())
            found = {entry.key: entry.value.strip() for entry in properties.parse(text)}
        except ConfigError as error:
            raise _damaged(path, str(error)) from None
        if "node.id" in found or found.get("version") == "1":
            raise ConfigError(
                "log.dirs", f"{path} is of a broker in KRaft mode, whose directories are made for it: name another one"
            )
        # Whose directory it is must not be guessed from a file that was emptied or cut off.
        if missing := [name for name in MUST_HAVE if not found.get(name)]:
            raise _damaged(path, f"it has no {' and no '.join(missing)}")
        if found["version"] != VERSION:
            raise _damaged(path, f"version={found['version']}, and {VERSION} is the only one there is")
        return found

    def check(self, broker_id: int, cluster_id: str) -> None:
        """Raises OSError, and ConfigError if it belongs to another broker or cluster."""
        known = self.identity()
        for name, value in _meta(broker_id, cluster_id).items():
            if known.get(name, value) != value:
                raise ConfigError(
                    name,
                    f"{self.path / META} has {name}={known[name]}, but this broker has {value}: "
                    "is it the right directory, and the right cluster?",
                )

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Writes meta.properties, if need be. Raises what `check` does."""
        self.check(broker_id, cluster_id)
        known, wanted = self.identity(), _meta(broker_id, cluster_id)
        if known.keys() >= wanted.keys():
            return
        replace_file(self.path / META, properties.write({**known, **wanted}))


def replace_file(path: Path, text: str) -> None:
    """Gives a file a content, all of it or none. Returns when that would survive a power cut. Raises OSError."""
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    create_file(temporary)
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Returns when the names in a folder would survive a power cut. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _damaged(path: Path, why: str) -> ConfigError:
    return ConfigError(
        "log.dirs",
        f"{path} is damaged: {why}. Write version=0, broker.id and cluster.id into it as they are in the other "
        "directories of this broker, or remove it if the directory is surely this broker's",
    )


def _meta(broker_id: int, cluster_id: str) -> dict[str, str]:
    return {"version": VERSION, "cluster.id": cluster_id, "broker.id": str(broker_id)}


def make_private(path: Path) -> None:
    """Makes a directory for its owner alone, and its parents where they are missing. One that exists keeps its mode.

    What is made in it later is open to the group and to others if it is itself (`rust/storage/access.rs`).
    """
    if not path.is_dir():
        if path.parent != path:
            make_private(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def open_all(
    paths: Iterable[str], traffic: TopicTraffic, *, high_watermark_checkpoint_interval_ms: int
) -> list[DataDirectory]:
    """All of `log.dirs`, in order, those that cannot be opened without their `native`.

    Raises ConfigError for one that occurs twice, StorageError for one that somebody else holds, and the error of the
    last one if none can be opened. What was opened before is closed again, as clean as it was.
    """
    directories: list[DataDirectory] = []
    problem: Exception | None = None
    try:
        for path in paths:
            # Not resolved: tools name directories as the settings do.
            directory = DataDirectory(Path(os.path.abspath(path)))
            if any(directory.path.resolve() == other.path.resolve() for other in directories):
                raise ConfigError("log.dirs", f"log.dirs names the directory {directory} twice")
            directories.append(directory)
            try:
                directory.open(traffic, high_watermark_checkpoint_interval_ms=high_watermark_checkpoint_interval_ms)
            except (OSError, StorageError) as error:
                if LogDirectory.is_locked(directory.path):
                    raise
                problem = error
                directory.failure = str(error)
        if problem is not None and not any(directory.is_online for directory in directories):
            raise problem
    except BaseException:
        for directory in directories:
            if directory.native is not None:
                directory.native.close(clean=directory.native.was_clean)
        raise
    for directory in directories:
        if not directory.is_online:
            logger.error(
                "the log directory %s cannot be opened, its partitions stay offline: %s", directory, directory.failure
            )
    return directories


def common_identity(directories: Iterable[DataDirectory]) -> dict[str, str]:
    """What meta.properties of all directories that work say. Raises ConfigError where they differ."""
    common: dict[str, str] = {}
    by_file: dict[Path, dict[str, str]] = {}
    for directory in directories:
        if directory.is_online:
            identity = directory.identity()
            by_file[directory.path / META] = identity
            common = {**identity, **common}
    for name in ("broker.id", "cluster.id"):
        values = {path: identity[name] for path, identity in by_file.items() if name in identity}
        if len(set(values.values())) > 1:
            listed = ", ".join(f"{path} has {value}" for path, value in values.items())
            raise ConfigError(
                name,
                f"the directories of log.dirs belong to different brokers or clusters by their {name}: {listed}. "
                "Take the wrong one out of log.dirs",
            )
    return common
