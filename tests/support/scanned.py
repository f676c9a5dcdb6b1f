"""A broker whose listeners with TLS are scanned: after each scan it serves as before, and holds nothing of it."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.metrics.scraped import scrape
from tests.peers.certificates import Certified, certified
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.support.tls import is_served, listeners, store
from tests.support.waiting import eventually

PANICKED = "panicked at"


@dataclass
class Scanned:
    """The broker, and its ports: `port` asks for no certificate, `mutual_port` requires one."""

    brokers: Brokers
    broker: Broker
    folder: Path
    authority: Certified
    port: int
    mutual_port: int
    metrics_port: int
    settings: dict[str, object]

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.authority.certificate_pem)

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.broker.pid).memory_info().rss)

    def said(self, text: str) -> None:
        log = self.broker.log
        eventually("the broker says it", lambda: text in log.read_text(), facts=log.read_text)

    def connections(self) -> float:
        """Those that are open, also before the end of their handshakes."""
        page = scrape(self.metrics_port)
        return sum(page("ottla_connections", listener=name) or 0 for name in ("SSL", "MUTUAL"))

    def is_as_before(self) -> None:
        """A usual client is served, no other connection is left, and the broker has made no mistake of its own."""
        assert self.broker.running, self.broker.output_tail()
        assert is_served(self.port, self.context())
        eventually("no connection is left", lambda: self.connections() == 0, facts=self.connections)
        said = self.broker.log.read_text()
        assert "Traceback" not in said
        assert PANICKED not in said

    def restart(self) -> None:
        self.broker.stop()
        self.broker = self.brokers.restart(self.broker, settings=self.settings)


@contextmanager
def scanned(folder: Path) -> Iterator[Scanned]:
    authority = certified("authority")
    trusted = folder / "trusted.pem"
    trusted.write_text(authority.certificate_pem)
    plain, port, mutual_port, metrics_port = (free_port() for _ in range(4))
    settings = {
        "listeners": listeners(plaintext=plain, ssl=port, mutual=mutual_port),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,MUTUAL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store(
            folder / "broker.pem", certified("broker", authority, ["127.0.0.1", "localhost"])
        ),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trusted,
        "listener.name.mutual.ssl.client.auth": "required",
        "metrics.listener": f"127.0.0.1:{metrics_port}",
    }
    with Brokers(folder) as brokers:
        broker = brokers(port=plain, settings=settings)
        yield Scanned(brokers, broker, folder, authority, port, mutual_port, metrics_port, settings)
