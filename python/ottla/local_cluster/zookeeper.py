"""A ZooKeeper server of the jars that PySpark brings, for one who has none: one server, on this machine only."""

from __future__ import annotations

import os
import shutil
import socket
from importlib.util import find_spec
from pathlib import Path

from ottla.local_cluster import LocalClusterError
from ottla.local_cluster.processes import Process, launch

#: The patterns of Spark's jars that a server needs; all of them take a second longer to look through.
JARS = (
    "zookeeper-*.jar",
    "zookeeper-jute-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j*-impl-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "netty-*.jar",
)
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
#: As little as a JVM may be: it starts quickly and stays small.
OPTIONS = ("-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
INSTEAD = "name a ZooKeeper that is there with --zookeeper HOST:PORT"

_SETTINGS = """\
# Written at each start.
dataDir=./data
clientPort={port}
clientPortAddress=127.0.0.1
tickTime=2000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
autopurge.purgeInterval=1
"""
_LOGGING = """\
status=error
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %c{1}: %m%n
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
"""


def find_java() -> str:
    """The program `java`. Raises LocalClusterError, which says what to install."""
    if home := os.environ.get("JAVA_HOME"):
        path = Path(home) / "bin" / "java"
        if not path.exists():
            raise LocalClusterError(f"ZooKeeper needs Java, and JAVA_HOME={home} has no bin/java; or {INSTEAD}")
        return str(path)
    if (found := shutil.which("java")) is None:
        raise LocalClusterError(
            "ZooKeeper needs Java, and there is no java in the path (Debian: apt-get install "
            f"openjdk-17-jre-headless; else set JAVA_HOME); or {INSTEAD}"
        )
    return found


def find_jars() -> list[Path]:
    """The jars that a server needs, of PySpark's or those in $SPARK_HOME. Raises LocalClusterError."""
    homes = [Path(home)] if (home := os.environ.get("SPARK_HOME")) else []
    if (spec := find_spec("pyspark")) is not None and spec.origin is not None:
        homes.append(Path(spec.origin).parent)
    for place in homes:
        found = [jar for pattern in JARS for jar in sorted((place / "jars").glob(pattern))]
        if any(jar.name.startswith("zookeeper-jute") for jar in found):
            return list(dict.fromkeys(found))
    raise LocalClusterError(
        "there are no jars of ZooKeeper here: the package pyspark brings some (pip install 'ottla[spark]'); or "
        f"{INSTEAD}"
    )


def launch_zookeeper(directory: Path, port: int, log: Path) -> Process:
    """Starts a server whose data are in `directory`. It is ready when `answers`. Raises LocalClusterError, OSError."""
    java, jars = find_java(), find_jars()
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "zoo.cfg").write_text(_SETTINGS.format(port=port))
    (directory / "log4j2.properties").write_text(_LOGGING)
    logging = "-Dlog4j2.configurationFile=log4j2.properties"
    classpath = os.pathsep.join(map(str, jars))
    return launch([java, *OPTIONS, logging, "-cp", classpath, MAIN, "zoo.cfg"], log, directory)


def answers(port: int) -> bool:
    """True if a ZooKeeper serves at the port. It would say `ruok` before it does."""
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as connection:
            connection.sendall(b"srvr")
            said = b""
            while more := connection.recv(4096):
                said += more
            return b"Mode: " in said
    except OSError:
        return False
