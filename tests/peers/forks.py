"""`ottla` in a process that is a copy of one that has imported it (`fork_server`), which takes a tenth of the time.

The gate starts brokers so (`tests/conftest.py` switches it on). The judges start each in an interpreter of its own, as
users do, and so does the gate where a start is what a test looks at: it runs `python -m ottla` itself.
"""

import atexit
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.peers.processes import is_readable, with_parent

ROOT = Path(__file__).parents[2]
NUMBER = struct.Struct("=q")
#: The longest message: less than Linux hands on in one, by default.
LONGEST = 200_000

#: True if there are copies at all.
is_on = False
_control: socket.socket | None = None


def is_possible(program: Sequence[str], environment: Mapping[str, str]) -> bool:
    """True if a copy would be as a process of its own with these variables besides this process's."""
    return is_on and tuple(program) == ("ottla",) and all(name.startswith("OTTLA_") for name in environment)


class Fork(subprocess.Popen[bytes]):
    """A copy, as far as tests use a `Popen`: its pid, standard output, end, and signals to it."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], errors: IO[bytes]) -> None:
        """`arguments` are those of `ottla`, `environment` all its variables; standard output is piped."""
        self._child_created = False  # of Popen: it has none to wait for
        self.args = ["ottla", *arguments]
        self.stdin = self.stderr = None
        self.returncode = None  # type: ignore[assignment]
        umask = os.umask(0)
        os.umask(umask)
        asked = {"arguments": [*arguments], "environment": {**environment}, "folder": os.getcwd(), "umask": umask}
        message = json.dumps(asked).encode()
        assert len(message) < LONGEST
        self._reports, theirs = socket.socketpair()
        readable, writable = os.pipe()
        namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            socket.send_fds(_server(), [message], [writable, errors.fileno(), theirs.fileno(), namespace])
        finally:
            theirs.close()
            os.close(writable)
            os.close(namespace)
        self.stdout = os.fdopen(readable, "rb")
        self._lock = threading.Lock()
        self.pid = self._told()

    def poll(self) -> int | None:
        """How it ended, if it has."""
        with self._lock:
            if self.returncode is None and is_readable(self._reports):
                self.returncode = self._told()
        return self.returncode

    def __del__(self) -> None:
        # Not as soon as the end is known: another thread that waits for it would not be woken by a closed descriptor.
        self._reports.close()
        super().__del__()  # type: ignore[misc]

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end; raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            # Where another thread was told, the end of what the other side sends is still seen.
            if not is_readable(self._reports, left):
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.poll()
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """Nothing if it has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def _told(self) -> int:
        message = self._reports.recv(NUMBER.size, socket.MSG_WAITALL)
        assert message, "the process that makes copies has ended, and all of them with it"
        return int(NUMBER.unpack(message)[0])


def _server() -> socket.socket:
    """Where this process asks for copies. The first time, it starts what makes them."""
    global _control
    if _control is None:
        _control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                with_parent([sys.executable, "-m", "tests.peers.fork_server", str(theirs.fileno())]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(process.wait)
        atexit.register(_control.close)
    return _control
