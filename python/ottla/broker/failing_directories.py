"""The consequences of a log directory that fails while the broker runs (KIP-112).

Its partitions are offline already when this hears of it (`Replicas.check_directories`). The lock of the directory is
given back, so that it can be repaired; the controller is told, which then asks for every replica's state and moves what
it can to other brokers. A broker whose last directory failed ends; so does one that kept the coordination tree there.
The directory is used again after a restart.

A log that could not be made for want of descriptors or space is another matter: its directory works. The controller is
told as well, a little later and as often as it takes, so that the replica is there once there is room for it. So it is
for a replica that was refused after a power loss and may be had now (`ottla.replication.unclean_start`).
"""

from __future__ import annotations

import math

import trio

from ottla.controller.topic_changes import notify_log_directory_failure
from ottla.coordination.tree import SessionExpired, Tree
from ottla.errors import StorageError
from ottla.replication.data_directory import DataDirectory
from ottla.replication.log_manager import LogManager

#: How long after a log could not be made it is tried again.
RETRY_SECONDS = 5.0


class FailingDirectories:
    def __init__(self, tree: Tree, broker_id: int, logs: LogManager) -> None:
        self._tree = tree
        self._broker_id = broker_id
        self._logs = logs
        self._tell, self._told = trio.open_memory_channel[DataDirectory](math.inf)
        self._has_run_out = trio.Event()
        self._again = trio.Event()

    def failed(self, directory: DataDirectory) -> None:
        """A directory went out of use, and its partitions offline."""
        self._tell.send_nowait(directory)

    def has_run_out(self) -> None:
        """Logs could not be made for want of something, though their directory works."""
        self._has_run_out.set()

    def ask_again(self) -> None:
        """Replicas that were refused work now."""
        self._again.set()

    async def run(self) -> None:
        """Until cancelled. Raises StorageError when the broker cannot go on."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._try_again)
            nursery.start_soon(self._have_asked_again)
            async for directory in self._told:
                reason = self._logs.directories.cannot_go_on
                if reason is not None:
                    raise StorageError(f"{reason}: {directory}: {directory.failure}")
                # A disk that hangs must not keep anybody from hearing of it.
                nursery.start_soon(self._logs.directories.close_failed, directory)
                await self._notify()

    async def _try_again(self) -> None:
        while True:
            await self._has_run_out.wait()
            await trio.sleep(RETRY_SECONDS)
            self._has_run_out = trio.Event()
            await self._notify()

    async def _have_asked_again(self) -> None:
        while True:
            await self._again.wait()
            self._again = trio.Event()
            await self._notify()

    async def _notify(self) -> None:
        while True:
            try:
                return await notify_log_directory_failure(self._tree, self._broker_id)
            except SessionExpired:
                # The new session registers the broker anew, and the controller tells it its roles: but it may be old
                # news to it, so it is told all the same.
                await self._tree.wait_connected()
