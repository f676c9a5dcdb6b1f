"""A mounted volume as tests use it."""

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tests.peers.skips import require

ROOT = Path(__file__).parents[3]
END_S = 60


class Lost(NamedTuple):
    """The changes that a power loss undid: bytes that were written, names that were made, changed or removed."""

    bytes: int
    names: int


class ForgetfulDisk:
    """A file system at `path`, which is made, until the end of the `with` block.

    Its image is `path` with `.image` behind it. `journal`: whatever is synced takes all names with it, as on ext4 and
    XFS; without, a name survives only if its folder was synced. Skips (or fails, if mounts are required) where this
    process may not mount.
    """

    def __init__(self, path: Path, *, journal: bool = False) -> None:
        if reason := absence():
            require("mounts", reason)
        self.path = path
        self._image = path.with_name(path.name + ".image")
        self._arguments = [str(path), str(self._image), f"{path}.work", "journal" if journal else "names"]
        self._image.mkdir(parents=True)
        path.mkdir(parents=True, exist_ok=True)
        self._server = self._start()

    def __enter__(self) -> "ForgetfulDisk":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def lose_power(self) -> Lost:
        """Everything that was not synced is gone, and the volume is mounted anew. Whoever used it must have ended: what
        still has files open would be told that its disk is gone, not that there was no power.
        """
        assert self._server.stdin is not None
        self._server.stdin.write(b"lose\n")
        self._server.stdin.flush()
        written, changed = self._said("lost")
        self._end()
        self._server = self._start()
        return Lost(int(written), int(changed))

    def _start(self) -> "subprocess.Popen[bytes]":
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.forgetful.server", *self._arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._said("ready")
        return self._server

    def _said(self, expected: str) -> list[str]:
        """The words that follow the expected one."""
        assert self._server.stdout is not None
        line = self._server.stdout.readline().decode()
        word, *rest = line.split() or [""]
        assert word == expected, f"the server of {self.path} said {line!r} instead of {expected}"
        return rest

    def _end(self) -> None:
        """The server unmounts when its input ends."""
        for stream in (self._server.stdin, self._server.stdout):
            assert stream is not None
            stream.close()
        assert self._server.wait(END_S) == 0


@functools.cache
def absence() -> str:
    """Why there can be no such disk here; empty if there can."""
    with tempfile.TemporaryDirectory() as folder:
        from tests.cluster.forgetful import server

        try:
            os.close(server.mount(Path(folder)))
            server.unmount(Path(folder))
        except OSError as problem:
            return f"FUSE cannot be mounted (it takes root and /dev/fuse): {problem}"
    return ""
