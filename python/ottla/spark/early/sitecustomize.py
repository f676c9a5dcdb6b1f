"""Has Spark's Python processes say hello before they import anything (Python runs this file when it starts).

Spark starts a process of its own for each streaming query's source, and waits ten seconds for it to connect, a limit
that cannot be set (`PythonWorkerFactory.createSimpleWorker`). The process imports all of pyspark and pyarrow first: a
second or three of a core, which on a machine that does other things as well is more than ten, and the query fails. Here
the connection is made at once and handed to pyspark when it asks for one; after the connection Spark waits without a
limit.

A daemon of workers runs `daemon.py` beside this file, which says why.

`ottla.spark.session` puts this folder in front of the workers' PYTHONPATH. Any other `sitecustomize` runs after it.
"""

import os
import sys
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location

FOLDER = os.path.dirname(os.path.abspath(__file__))
ZIPPED = os.path.join("pyspark", "python", "lib", "")


def is_installed(path: str) -> bool:
    """True for an archive of modules that are also there as files: Spark puts pyspark's own in front. Modules of
    archives are compiled anew by each process, which takes longer than all the rest of its start.
    """
    packages, found, archive = path.rpartition(ZIPPED)
    return bool(found) and os.path.realpath(packages) in folders and archive.startswith(("pyspark.zip", "py4j-"))


folders = {os.path.realpath(path) for path in sys.path}
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != FOLDER and not is_installed(path)]


def connect(path: str) -> None:
    """Connects to the socket of Spark's JVM, and gives the connection to who first asks pyspark to do that."""
    import socket

    early = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    early.connect(path)
    from pyspark import util

    original = util.local_connect_and_auth

    def local_connect_and_auth(conn_info, auth_secret):  # type: ignore[no-untyped-def]
        if conn_info != path:
            return original(conn_info, auth_secret)
        util.local_connect_and_auth = original
        return early.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", 65536))), early

    util.local_connect_and_auth = local_connect_and_auth


class OurDaemon:
    """Finds `daemon.py` once, for the `-m` of the command line. That file imports pyspark's module of this name."""

    NAME = "pyspark.daemon"

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != self.NAME:
            return None
        sys.meta_path.remove(self)
        return spec_from_file_location(name, os.path.join(FOLDER, "daemon.py"))


if OurDaemon.NAME in sys.orig_argv:
    sys.meta_path.insert(0, OurDaemon())

# Set only for processes that are to connect, and only where Spark uses Unix sockets, as `session` has it.
if _path := os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH"):
    with suppress(OSError):  # a child of such a process, long after it: nobody listens any more
        connect(_path)

_this = sys.modules.pop("sitecustomize")
try:
    import_module("sitecustomize")  # another one, further down the path
except ModuleNotFoundError as _problem:
    if _problem.name != "sitecustomize":
        raise
    sys.modules["sitecustomize"] = _this
