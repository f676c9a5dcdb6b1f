"""The server of the embedded tree, in a thread of the test's process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

import trio

from ottla.coordination.server.listener import Listener
from ottla.coordination.server.nodes import ServedNodes
from tests.support.waiting import PATIENCE_S


class ServedTree:
    """Serves the file at `path` within a `with` block. Starting it again on the file is a restart of the server."""

    def __init__(self, path: Path, port: int = 0, *, clock: trio.abc.Clock | None = None) -> None:
        self._path = path
        self._clock = clock
        self.port = port
        self.listener: Listener
        self._started: Future[int] = Future()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="served-tree", daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = self._started.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self._token.run_sync_soon(self._scope.cancel)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def soon(self, call: Callable[[], object]) -> None:
        """Calls it on the server's loop."""
        self._token.run_sync_soon(call)

    def failed(self) -> BaseException:
        """Waits until the server has ended by itself, and returns why."""
        self._thread.join(PATIENCE_S)
        failure, self._failure = self._failure, None
        assert failure is not None
        return failure

    def _run(self) -> None:
        try:
            trio.run(self._serve, clock=self._clock)
        except BaseException as error:
            if self._started.done():
                self._failure = error
            else:
                self._started.set_exception(error)

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        database = ServedNodes(str(self._path))
        try:
            with trio.CancelScope() as self._scope:
                async with trio.open_nursery() as nursery:
                    self.listener = Listener(database)
                    self._started.set_result(await nursery.start(self.listener.serve, self.port))
        finally:
            database.close()
