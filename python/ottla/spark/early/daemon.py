"""Spark's daemon of Python workers, with idle workers that end without a word (`python -m pyspark.daemon` runs this
file, by `sitecustomize`).

When a session ends, Spark closes the connections of its idle workers, and a moment later ends their daemons and them. A
worker that wakes in between takes the end of its input for a failed task: it writes the error into the connection that
nobody reads, fails in that, and prints the traceback of a `BrokenPipeError` to the user's terminal. Here a worker looks
whether there is a task before it begins one.
"""

import socket

from pyspark import daemon

_serve = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Serves one task. Returns the exit code of this process, 0 if it may serve another.

    Takes nothing from the connection itself: pyspark reads it from the first byte.
    """
    try:
        begins = sock.recv(1, socket.MSG_PEEK)
    except ConnectionError:
        begins = b""
    return _serve(sock, authenticated) if begins else 1


daemon.worker = worker

if __name__ == "__main__":
    daemon.manager()
