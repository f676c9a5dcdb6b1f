"""Apache Kafka and ZooKeeper as child processes, with heaps and compilers sized for tests.

    with Apache(tmp_path) as apache:
        kafka = apache.broker("2.7.2", zookeeper=apache.zookeeper())
        apache.tool("2.7.2", "topics", "--bootstrap-server", kafka.bootstrap, "--list")

The jars come from Maven Central through the script `kafka` beside this file.
"""

import os
import shutil
import struct
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from tests.peers.ports import free_port
from tests.peers.processes import Server, ask, keeping
from tests.peers.skips import require

SCRIPT = Path(__file__).with_name("kafka")
API_VERSIONS_V0 = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
METADATA_V1_NO_TOPICS = bytes.fromhex("0000000e 0003 0001 00000001 ffff 00000000")

# C1 alone and the serial collector halve the CPU of a JVM that lives for seconds.
SHORT_LIVED = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xshare:auto"


def environment(heap_mb: int, java_options: str = "") -> dict[str, str]:
    return {
        # Options whose values have no blanks: the script cuts the text there.
        **({"KAFKA_OPTS": java_options} if java_options else {}),
        # A heap that grows from little is collected again and again in a broker's first seconds.
        "KAFKA_HEAP_OPTS": f"-Xms{heap_mb // 2}m -Xmx{heap_mb}m",
        "KAFKA_JVM_PERFORMANCE_OPTS": os.environ.get("KAFKA_JVM_PERFORMANCE_OPTS", SHORT_LIVED),
        "KAFKA_ARCHIVES": "yes",
    }


def need_java() -> None:
    """Skip (or fail, if java is required) unless Java and Maven are here."""
    if missing := [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]:
        require("java", f"{' and '.join(missing)} not found (Debian: openjdk-17-jdk-headless, maven)")


def has_controller(port: int, host: str = "127.0.0.1") -> bool:
    """A broker answers before it knows a controller; until then clients that create topics wait for a minute."""
    answer = ask(port, METADATA_V1_NO_TOPICS, host=host)
    if len(answer) < 12:
        return False
    position = 12  # after size, correlation id and the number of brokers
    for _ in range(struct.unpack_from(">i", answer, 8)[0]):
        position += 4 + 2 + struct.unpack_from(">h", answer, position + 4)[0] + 4  # id, host, port
        position += 2 + max(0, struct.unpack_from(">h", answer, position)[0])  # rack
    return position > 12 and struct.unpack_from(">i", answer, position)[0] >= 0


class Kafka(Server):
    """A running Apache Kafka broker. Its data are in `data`; starting again on the same `directory` keeps them."""

    def __init__(
        self,
        version: str,
        directory: Path,
        broker_id: int,
        port: int,
        arguments: list[str],
        heap_mb: int,
        host: str = "127.0.0.1",
        java_options: str = "",
    ) -> None:
        self.version = version
        self.directory = directory
        self.data = directory / "data"
        self.id = broker_id
        self.host = host
        self.port = port
        self.bootstrap = f"{host}:{port}"
        directory.mkdir(parents=True, exist_ok=True)
        command = [
            str(SCRIPT),
            "broker",
            "run",
            version,
            "--id",
            str(broker_id),
            "--port",
            str(port),
            "--dir",
            str(directory),
        ]
        super().__init__(
            f"kafka-{version}-{broker_id}",
            command + arguments,
            directory / "log.txt",
            environment=environment(heap_mb, java_options),
        )


class Apache:
    """Starts servers in folders below `directory` and stops them, last first, at the end of the `with` block."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._stack = ExitStack()

    def __enter__(self) -> "Apache":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def zookeeper(
        self, version: str = "3.9.2", *, port: int | None = None, directory: Path | None = None, heap_mb: int = 128
    ) -> str:
        """Start a ZooKeeper server (of the version that this Kafka brings) and return HOST:PORT."""
        return f"127.0.0.1:{self.zookeeper_server(version, port=port, directory=directory, heap_mb=heap_mb)[1]}"

    def zookeeper_server(
        self,
        version: str = "3.9.2",
        *,
        port: int | None = None,
        directory: Path | None = None,
        settings: Mapping[str, object] | None = None,
        java_options: str = "",
        heap_mb: int = 128,
        wait: bool = True,
    ) -> tuple[Server, int]:
        """The same, for tests that stop or kill the server: (process, port). `wait=False` is for one of an ensemble,
        which serves when others are there. `java_options` are as in KAFKA_OPTS.
        """
        need_java()
        fetch(version)
        port = port or free_port()
        directory = directory or self.directory / f"zookeeper-{port}"
        directory.mkdir(parents=True, exist_ok=True)
        command = [str(SCRIPT), "zookeeper", "run", "--version", version, "--port", str(port), "--dir", str(directory)]
        for name, value in (settings or {}).items():
            command += ["--set", f"{name}={value}"]
        server = Server(
            f"zookeeper-{port}", command, directory / "log.txt", environment=environment(heap_mb, java_options)
        )
        self._stack.callback(server.kill)
        if wait:
            # Not "ruok": a server says that it is well before it serves, and a client that comes then is never
            # answered.
            server.wait_until(lambda: b"Mode: " in ask(port, b"srvr"))
        return server, port

    def broker(
        self,
        version: str,
        *,
        zookeeper: str | None = None,
        directory: Path | None = None,
        broker_id: int = 1,
        host: str = "127.0.0.1",
        port: int | None = None,
        settings: Mapping[str, object] | None = None,
        java_options: str = "",
        heap_mb: int = 256,
        wait: bool = True,
    ) -> Kafka:
        """Start a broker with ZooKeeper (`zookeeper` = HOST:PORT/chroot) or, without one, as a single KRaft node.

        `wait=False` returns at once, for brokers that are expected to refuse to start.
        """
        need_java()
        fetch(version)
        port = port or free_port()
        directory = directory or self.directory / f"kafka-{version}-{broker_id}"
        # A test's broker need not clean its own logs with a 128 MB buffer, nor keep 50 partitions of offsets.
        small: dict[str, object] = {
            "log.cleaner.dedupe.buffer.size": 16 << 20,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.num.partitions": 1,
        }
        arguments = ["--zookeeper", zookeeper] if zookeeper else ["--kraft"]
        if host != "127.0.0.1":
            small["listeners"] = f"PLAINTEXT://{host}:{port}"
        for name, value in {**small, **keeping(settings)}.items():
            arguments += ["--set", f"{name}={value}"]
        server = Kafka(version, directory, broker_id, port, arguments, heap_mb, host, java_options)
        self._stack.callback(server.kill)
        if wait:
            server.wait_until(lambda: has_controller(port, host))
        return server

    def mirror_maker(self, file: Path, version: str = "3.9.2", *, heap_mb: int = 256) -> Server:
        """Start MirrorMaker 2 with the properties in this file. It does not say when it is ready."""
        need_java()
        fetch(f"{version}-mirror")
        command = [str(SCRIPT), "tool", version, "connect-mirror-maker", str(file)]
        server = Server(f"mirror-maker-{version}", command, file.with_suffix(".log"), environment=environment(heap_mb))
        self._stack.callback(server.kill)
        return server

    def tool(
        self,
        version: str,
        name: str,
        *arguments: str,
        stdin: str | bytes = b"",
        timeout_s: float = 120.0,
        check: bool = True,
        java_options: str = "",
    ) -> str:
        """The stdout of a command-line tool; a failure raises with its whole output."""
        return tool(version, name, *arguments, stdin=stdin, timeout_s=timeout_s, check=check, java_options=java_options)


def fetch(version: str) -> None:
    subprocess.run([str(SCRIPT), "fetch", version], check=True)


def tool(
    version: str,
    name: str,
    *arguments: str,
    stdin: str | bytes = b"",
    timeout_s: float = 120.0,
    check: bool = True,
    java_options: str = "",
) -> str:
    """Run one of Kafka's tools; see Apache.tool."""
    need_java()
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [str(SCRIPT), "tool", version, name, *arguments],
        input=data,
        capture_output=True,
        timeout=timeout_s,
        env={**os.environ, **environment(192, java_options)},
    )
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if check and done.returncode != 0:
        raise AssertionError(f"{name} {version} {' '.join(arguments)} ended with {done.returncode}:\n{out}\n{err}")
    return out
