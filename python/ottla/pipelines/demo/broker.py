"""A broker of our own for as long as a `with` block lasts: a process, as users run it, on a free port and an empty
directory.
"""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READY = re.compile(r"ottla ready: broker \d+ at (\S+:\d+)\s*")
START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30.0


class BrokerFailed(Exception):
    """It did not start, or did not end as it should; the message has the end of its log."""


@contextmanager
def running(data: Path) -> Iterator[str]:
    """Starts `ottla serve` on a port that the system chooses and gives HOST:PORT; stops it cleanly at the end.

    Raises:
        BrokerFailed: it was not ready within 30 s, or ended with an error.
    """
    log = data / "broker.log"
    command = [sys.executable, "-m", "ottla", "serve", "--data-dir", str(data / "data"), "--listen", "127.0.0.1:0"]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL)
    # Killing it ends the wait for its one line.
    watch = threading.Timer(START_SECONDS_MAX, process.kill)
    watch.start()
    assert process.stdout is not None
    try:
        line = process.stdout.readline().decode()
        watch.cancel()
        if (ready := READY.fullmatch(line)) is None:
            raise BrokerFailed(f"the broker said {line!r} instead of being ready{_end(log)}")
        yield ready[1]
        process.terminate()
        code = process.wait(STOP_SECONDS_MAX)
        if code:
            raise BrokerFailed(f"the broker ended with {code}{_end(log)}")
    except subprocess.TimeoutExpired:
        raise BrokerFailed(f"the broker did not stop within {STOP_SECONDS_MAX:g} s{_end(log)}") from None
    finally:
        watch.cancel()
        process.kill()
        process.wait()
        process.stdout.close()


def _end(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-20:]
    return "".join(f"\n    {line}" for line in ["", *lines])
