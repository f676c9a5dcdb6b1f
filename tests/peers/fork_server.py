"""Starts `ottla` in copies of a process that has imported it: `python -m tests.peers.fork_server DESCRIPTOR`.

Most of a broker's start is imports, and a run of the tests starts a thousand. The descriptor is a socket (SEQPACKET)
of `tests.peers.forks`, which asks for processes; it ends this one by closing it. A message is JSON, and has
descriptors:

    {"arguments": [...], "environment": {...}, "folder": "...", "umask": 18}
    standard output, standard error, where to say what becomes of the process, its network namespace

There its process id is said at first, and at its end how it ended (as `Popen.returncode`), in eight bytes each. A
copy is a child of this process, is killed when this process ends, and goes on as `python -m ottla` does.
"""

import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

import ottla
import ottla.broker
import ottla.cli._errors
import ottla.cli.main
import ottla.cli.serve
import ottla.coordination.embedded
from tests.peers.forks import LONGEST, NUMBER

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_CLONE_NEWNET = 0x4000_0000
_EPERM = 1


def main() -> None:
    """Returns in each copy; exits in the process that makes them."""
    control = socket.socket(fileno=int(sys.argv[1]))
    woken, wakes = socket.socketpair()
    for end in (woken, wakes):
        end.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    assert ottla.broker.serve, "it is imported when it is asked for"
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, f"only the thread that forks is in a copy, and here are {len(threads)}"
    # A look for garbage would copy the pages of all that is shared.
    gc.collect()
    gc.freeze()
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([control, woken], [], [])
        if woken in ready:
            with suppress(BlockingIOError):
                while woken.recv(1024):
                    pass
        if control in ready:
            message, descriptors, _, _ = socket.recv_fds(control, LONGEST, 4)
            if not message:
                os._exit(0)
            reports = socket.socket(fileno=descriptors.pop(2))
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (control, woken, wakes, reports, *running.values()):
                    each.close()
                _become(json.loads(message), *descriptors)
                return
            running[pid] = reports
            _say(reports, pid)
            for descriptor in descriptors:
                os.close(descriptor)
        for pid in [*running]:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                with running.pop(pid) as reports:
                    _say(reports, os.waitstatus_to_exitcode(status))


def _say(reports: socket.socket, number: int) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # nobody asks any more
        reports.send(NUMBER.pack(number))


def _become(asked: dict[str, object], output: int, errors: int, namespace: int) -> None:
    """Does what `exec` and a new interpreter would have done."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if (
        _LIBC.setns(namespace, _CLONE_NEWNET) != 0 and (number := ctypes.get_errno()) != _EPERM
    ):  # not root: there is one
        raise OSError(number, f"setns: {os.strerror(number)}")
    os.dup2(output, 1)
    os.dup2(errors, 2)
    for descriptor in (output, errors, namespace):
        os.close(descriptor)
    environment, arguments = asked["environment"], asked["arguments"]
    assert isinstance(environment, dict)
    assert isinstance(arguments, list)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(str(asked["folder"]))
    os.umask(int(str(asked["umask"])))
    sys.argv[:] = [str(Path(ottla.__file__).with_name("__main__.py")), *arguments]
    gc.unfreeze()


if __name__ == "__main__":
    main()
    ottla.cli.main.main()
