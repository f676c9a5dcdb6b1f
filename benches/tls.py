"""TLS beside Apache Kafka: what small requests, records, handshakes and idle connections cost, and what
handshakes cost others.

Both brokers live at the same time and are measured in turns, once Kafka is warm. Each has a plain listener, one with
TLS and a key of ECDSA (P-256), and one with a key of RSA (2048 bits). All clients speak TLS 1.3. CPU is that of the
broker's process. Ottla is measured as well with logins and access rules beside TLS: what they add.

    python benches/tls.py [--against 3.9.2] [--rounds 3] [--seconds 3]
"""

from __future__ import annotations

import argparse
import resource
import socket
import ssl
import statistics
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benches.suite import figures as f
from benches.suite.frames import Frame, produce_frame
from benches.suite.generators import Load, java, perf_figures, producer_perf
from benches.suite.servers import Contestant, Running, contestants, cpu_s, create_topic, memory_mb
from benches.suite.warmup import warm_up
from ottla.wire.headers import request_frame
from ottla.wire.k30_create_acls import CREATE_ACLS, CreateAclsRequest
from ottla.wire.needs import Operation, Resource
from tests.broker.authorization.ruled import AUTHORIZER, PLAIN, creation, rule
from tests.peers.certificates import Certified, certified
from tests.peers.ports import CONTROLLER, free_port
from tests.support.client import Client
from tests.support.tls import API_VERSIONS, store

CONNECTIONS = 50
RECORDS, VALUE_BYTES = 1_000_000, 100
#: Of handshakes that others are measured beside, and of the requests that are measured, a second.
STRANGERS, REQUESTS = 500, 2_000
IDLE = 1_000
WARM_S = 40.0
USER, PASSWORD = "alice", "p"


class Authority:
    """Who signs the brokers' certificates, and where clients find that."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._own = certified("authority")
        self.path = folder / "authority.pem"
        self.path.write_text(self._own.certificate_pem)

    def store(self, name: str, *, rsa: bool = False) -> Path:
        own: Certified = certified(name, self._own, ["127.0.0.1"], rsa=rsa)
        return store(self.folder / f"{name}.pem", own)


class Side:
    """One broker and its listeners."""

    def __init__(self, contestant: Contestant, authority: Authority, load: Load) -> None:
        self.name = contestant.name
        self.authority = authority
        self.folder = authority.folder / self.name.replace(" ", "-")
        self._load = load
        self._port, self.ports = free_port(), {name: free_port() for name in ("TLS", "RSA", "LOGIN")}
        self.server: Running = contestant.start(self.folder, self._settings(), self._port)
        create_topic(self.server, "small")
        self._frame: Frame = produce_frame(authority.folder, "small", VALUE_BYTES)
        self._login = list(_login(authority.folder))

    def _settings(self) -> dict[str, object]:
        listeners = {"PLAINTEXT": self._port, **self.ports}
        protocols = {"PLAINTEXT": "PLAINTEXT", "TLS": "SSL", "RSA": "SSL", "LOGIN": "SASL_SSL"}
        if self.is_kafka:
            listeners["CONTROLLER"], protocols["CONTROLLER"] = self._port + CONTROLLER, "PLAINTEXT"
        found: dict[str, object] = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.authority.store("ecdsa"),
            "listener.name.rsa.ssl.keystore.type": "PEM",
            "listener.name.rsa.ssl.keystore.location": self.authority.store("rsa", rsa=True),
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": f'{PLAIN} required user_{USER}="{PASSWORD}";',
        }
        if not self.is_kafka:
            found |= {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
        return found

    @property
    def is_kafka(self) -> bool:
        return self.name.startswith("Kafka")

    def allow(self) -> None:
        """The user may write the topic, and so may 1,000 others, each another one."""
        rules = [rule(USER, Operation.WRITE, Resource.TOPIC, "small")]
        rules += [rule(f"user-{number}", Operation.WRITE, Resource.TOPIC, f"topic-{number}") for number in range(1000)]
        with Client.connect("127.0.0.1", self._port) as client:
            client.call(CREATE_ACLS, CreateAclsRequest([creation(one) for one in rules]))

    # --- what is measured ---

    def small(self, seconds: float, listener: str = "TLS", **options: Any) -> dict[str, Any]:
        """Produce requests of one record."""
        entrance: dict[str, object] = {"authority": str(self.authority.path)}
        port = self._port
        if listener == "PLAINTEXT":
            entrance = {}
        else:
            port = self.ports[listener]
        if listener == "LOGIN":
            entrance["login"] = self._login
        given = {"connections": CONNECTIONS, "warm_up_s": seconds / 6, "seconds": seconds, **options}
        frames = [str(self._frame.path)]
        address, pids = f"127.0.0.1:{port}", [self.server.pid]
        return self._load(run="drive", address=address, pids=pids, frames=frames, entrance=entrance, **given)

    def cost(self, seconds: float, listener: str = "TLS") -> dict[str, float]:
        found = self.small(seconds, listener)
        return {f.CPU_REQUEST: found["cpu_s"] / found["requests"] * 1e6, f.REQUESTS: found["requests_per_s"]}

    def handshakes(self, seconds: float, listener: str = "TLS", **options: Any) -> dict[str, float]:
        found = self._strangers(seconds, listener, **options).result()
        return {"handshakes a second": found["handshakes_per_s"], "CPU a handshake, µs": found["cpu_us"]}

    def _strangers(self, seconds: float, listener: str, **options: Any) -> Any:
        return self._load.start(
            run="handshakes",
            address=f"127.0.0.1:{self.ports[listener]}",
            entrance={"authority": str(self.authority.path)},
            threads=4,
            warm_up_s=seconds / 6,
            seconds=seconds,
            pids=[self.server.pid],
            **options,
        )

    def beside(self, seconds: float) -> dict[str, float]:
        """Requests at a fixed rate alone, and beside handshakes at another."""
        alone = self.small(seconds, rate=REQUESTS, connections=10)["latency"]["p99_us"]
        strangers = self._strangers(seconds * 2, "TLS", rate=STRANGERS)
        beside = self.small(seconds, rate=REQUESTS, connections=10)["latency"]["p99_us"]
        strangers.result()
        return {f.P99: beside, f"p99 to that without {STRANGERS} handshakes a second": beside / alone}

    def idle(self) -> dict[str, float]:
        """Connections that have asked one thing each, and then nothing."""
        trusted = ssl.create_default_context(cafile=str(self.authority.path))
        with ExitStack() as stack:
            before = 0.0
            for number in range(2 * IDLE):
                if number == IDLE:
                    # The first ones were for what is taken once.
                    before = memory_mb(self.server)
                plain = socket.create_connection(("127.0.0.1", self.ports["TLS"]))
                connection = stack.enter_context(trusted.wrap_socket(plain, server_hostname="127.0.0.1"))
                connection.sendall(API_VERSIONS)
                (size,) = struct.unpack(">i", _take(connection, 4))
                _take(connection, size)
            return {"KiB a connection": (memory_mb(self.server) - before) * 1e6 / 1024 / IDLE}

    def produced(self, topic: str, records: int) -> dict[str, float]:
        """Java's producer with its defaults, acks=1."""
        create_topic(self.server, topic)
        payloads = self.authority.folder / "payloads"
        payloads.write_text("x" * VALUE_BYTES + "\n")
        used = cpu_s(self.server)
        properties = ("acks=1", *self._properties())
        found = perf_figures(producer_perf(self._address, topic, records, payloads, *properties).output())
        used = cpu_s(self.server) - used
        return {f.CPU_RECORD: used / records * 1e6, f.RECORDS: found["rate"]}

    def consumed(self, topic: str, records: int) -> dict[str, float]:
        """Java's consumer with its defaults."""
        config = self.authority.folder / "consumer.properties"
        config.write_text("\n".join(self._properties()) + "\n")
        used = cpu_s(self.server)
        arguments = ["--bootstrap-server", self._address, "--topic", topic, "--messages", str(records)]
        arguments += ["--consumer.config", str(config), "--timeout", "60000", "--hide-header"]
        line = java("consumer-perf-test", *arguments).output().strip().splitlines()[-1]
        used = cpu_s(self.server) - used
        assert float(line.split(",")[4]) >= records, line
        return {f.CPU_MB: used * 1e3 / (records * VALUE_BYTES / 1e6)}

    @property
    def _address(self) -> str:
        return f"127.0.0.1:{self.ports['TLS']}"

    def _properties(self) -> list[str]:
        where = self.authority.path
        return ["security.protocol=SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={where}"]


def _take(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += connection.recv(size - len(found))
    return found


def _login(folder: Path) -> Iterator[str]:
    """The frames of a login by SASL PLAIN, in files."""
    token = f"\0{USER}\0{PASSWORD}".encode()
    bodies = (17, 1, struct.pack(">h", 5) + b"PLAIN"), (36, 0, struct.pack(">i", len(token)) + token)
    for key, version, body in bodies:
        path = folder / f"login-{key}"
        path.write_bytes(request_frame(key, version, 1, "bench", body))
        yield str(path)


@contextmanager
def sides(against: str, folder: Path) -> Iterator[list[Side]]:
    load, authority, found = Load(), Authority(folder), list[Side]()
    try:
        for contestant in contestants(against):
            found.append(Side(contestant, authority, load))
        yield found
    finally:
        for one in found:
            one.server.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default="3.9.2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a case in a round")
    parser.add_argument("--records", type=int, default=RECORDS)
    asked = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as folder, sides(asked.against, Path(folder)) as found:
        measure(found, asked.rounds, asked.seconds, asked.records)


def measure(found: list[Side], rounds: int, seconds: float, records: int) -> None:
    cases: dict[str, Callable[[Side, int], dict[str, float]]] = {
        "small requests, plain": lambda side, _: side.cost(seconds, "PLAINTEXT"),
        "small requests, TLS": lambda side, _: side.cost(seconds),
        "handshakes, ECDSA": lambda side, _: side.handshakes(seconds),
        "handshakes, RSA": lambda side, _: side.handshakes(seconds, "RSA"),
        "idle connections": lambda side, _: side.idle(),
        "beside handshakes": lambda side, _: side.beside(seconds),
        "default producer": lambda side, number: side.produced(f"topic-{number}", records),
        "default consumer": lambda side, number: side.consumed(f"topic-{number}", records),
    }
    for side in found:
        if side.is_kafka:
            print(warm_up(side.name, "small requests", lambda one=side: one.cost(2.0)[f.CPU_REQUEST], WARM_S))  # type: ignore[misc]
            side.handshakes(10.0)
            side.handshakes(10.0, "RSA")
            side.produced("warm", records)
            side.consumed("warm", records)
        else:
            side.allow()
    for case, act in cases.items():
        rows: dict[str, dict[str, list[float]]] = {}
        for number in range(rounds):
            for side in found:
                for figure, value in act(side, number).items():
                    rows.setdefault(figure, {}).setdefault(side.name, []).append(value)
        show(case, rows)
    ours = [side for side in found if not side.is_kafka]
    for side in ours:
        costs: dict[str, list[float]] = {}
        for _ in range(rounds):
            for listener in ("TLS", "LOGIN"):
                costs.setdefault(listener, []).append(side.cost(seconds, listener)[f.CPU_REQUEST])
        alone, ruled = statistics.median(costs["TLS"]), statistics.median(costs["LOGIN"])
        print(f"login and rules beside TLS, {f.CPU_REQUEST}: {ruled:.1f}, without {alone:.1f}: {ruled / alone:.2f}")


def show(case: str, rows: dict[str, dict[str, list[float]]]) -> None:
    """A line for each figure: each side's median, and ours to theirs of the same round."""
    for figure, values in rows.items():
        parts = [f"{name} {statistics.median(each):.4g}" for name, each in values.items()]
        ours, *others = values.values()
        for each in others:
            ratios = [one / other for one, other in zip(ours, each, strict=True)]
            parts.append(f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        print(f"{case}, {figure}: {', '.join(parts)}", flush=True)


if __name__ == "__main__":
    main()
