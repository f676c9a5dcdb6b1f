"""All directories of `log.dirs` together: which of them work, whose they are, what is done in each of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from ottla._core import LogDirectory, TopicTraffic
from ottla.config import BrokerConfig, ConfigError
from ottla.errors import KafkaError, LogDirNotFound, StorageError
from ottla.replication.data_directory import DataDirectory, common_identity, open_all

if TYPE_CHECKING:
    from ottla.net import Server

logger = logging.getLogger("ottla.log_manager")


class DataDirectories:
    """In the order of `log.dirs`, also those that are out of use."""

    def __init__(self, directories: list[DataDirectory], traffic: TopicTraffic) -> None:
        self._all = directories
        #: what goes through the topics of the broker, whichever directory their logs are in
        self.traffic = traffic
        self._tree_path: Path | None = None

    @classmethod
    def open(cls, config: BrokerConfig, *, is_alone: bool) -> DataDirectories:
        """Locks them, creating them if need be. One that cannot be opened is left out, unless it is the last.

        Raises ConfigError, OSError, and KafkaError if another process has a directory.
        """
        interval_ms = config.get_int("replica.high.watermark.checkpoint.interval.ms")
        traffic = TopicTraffic()
        directories = open_all(config.data_directories, traffic, high_watermark_checkpoint_interval_ms=interval_ms)
        if not is_alone:
            # Another broker may lead instead. Where there is no other, a full disk fails requests until it has space.
            for directory in directories:
                if directory.native is not None:
                    directory.native.fail_when_full()
        return cls(directories, traffic)

    def __iter__(self) -> Iterator[DataDirectory]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def online(self) -> list[DataDirectory]:
        """The directories that work."""
        return [directory for directory in self._all if directory.is_online]

    @property
    def offline(self) -> list[DataDirectory]:
        return [directory for directory in self._all if not directory.is_online]

    def identity(self) -> dict[str, str]:
        """meta.properties: `version`, `broker.id`, `cluster.id`; empty in new directories. Raises ConfigError if they
        differ between directories.
        """
        return common_identity(self.online)

    def check(self, broker_id: int, cluster_id: str) -> None:
        """Raises OSError, and ConfigError if a directory belongs to another broker or cluster."""
        for directory in self.online:
            directory.check(broker_id, cluster_id)

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Writes meta.properties into every directory. Raises ConfigError if one belongs to another broker or
        cluster; then none was written.
        """
        self.check(broker_id, cluster_id)
        for directory in self.online:
            directory.claim(broker_id, cluster_id)

    def directory_with(self, file: str) -> Path:
        """Where a file that there is once in a broker lies, or would be made: the first directory.

        Raises ConfigError if that cannot be known, because a directory is out of use or several have the file.
        """
        having = [directory for directory in self.online if (directory.path / file).exists()]
        if len(having) > 1:
            raise ConfigError("log.dirs", f"{file} is in several directories: {', '.join(map(str, having))}; keep one")
        if not having and self.offline:
            broken = self.offline[0]
            raise ConfigError(
                "log.dirs", f"{file} is in no directory that can be opened, and {broken}: {broken.failure}"
            )
        return (having or self._all)[0].path

    def keeps_tree(self, path: Path) -> None:
        """The broker cannot go on without this directory: the coordination tree is in it."""
        self._tree_path = path

    @property
    def cannot_go_on(self) -> str | None:
        """Why the broker must end after directories failed; None while it can go on."""
        if not self.online:
            return "no log directory can be used any more"
        if any(directory.path == self._tree_path for directory in self.offline):
            return "the log directory with the coordination tree cannot be used any more"
        return None

    def at(self, path: str) -> DataDirectory:
        """The directory that `log.dirs` has under this absolute path. Raises LogDirNotFound, and StorageError if it is
        out of use.
        """
        for directory in self._all:
            if str(directory) == path:
                directory.open_native  # noqa: B018 - for its error
                return directory
        raise LogDirNotFound(f"{path} is none of this broker's log directories")

    def report_to(self, server: Server, failed: Callable[[Any, BaseException | None], None]) -> None:
        """Appends that may wait for a disk run on Rust threads from now on, and report to the server's loop; so does a
        directory that fails.
        """
        for directory in self.online:
            native = directory.open_native
            native.report_to(server.hub.completions)
            server.submit(partial(native.report_failure_to, server.hub.completions), failed)

    def in_each(self, work: Callable[[LogDirectory], object]) -> None:
        """In every directory that works; one that fails does not keep the others from it. Raises KafkaError of work
        that fails in a directory which can be used on; of the others is told where their failure is (`report_to`).
        """
        problem: KafkaError | None = None
        for directory in self.online:
            native = directory.native
            if native is not None and native.failure is None:
                try:
                    work(native)
                except KafkaError as error:
                    if native.failure is None:
                        problem = error
        if problem is not None:
            raise problem

    async def close(self, *, clean: bool = True) -> None:
        """Closes all; if `clean`, flushes them and leaves the clean-shutdown markers, in those that have not failed.
        Raises StorageError if none could be closed.
        """
        problems: list[StorageError] = []
        directories = self.online

        async def close(native: LogDirectory) -> None:
            try:
                await trio.to_thread.run_sync(lambda: native.close(clean=clean and native.failure is None))
            except StorageError as error:
                logger.error("a log directory is not left clean, the next start recovers it: %s", error)
                problems.append(error)

        async with trio.open_nursery() as nursery:
            for directory in directories:
                nursery.start_soon(close, directory.open_native)
        if problems and len(problems) == len(directories):
            raise problems[0]

    async def close_failed(self, directory: DataDirectory) -> None:
        """Gives back the lock and the descriptors of a directory that failed."""
        native, directory.failing = directory.failing, None
        if native is not None:
            try:
                await trio.to_thread.run_sync(lambda: native.close(clean=False))
            except StorageError as error:
                logger.warning("closing the log directory %s: %s", directory, error)
