"""Listeners with TLS in tests: their settings, and what a client sees of them."""

import socket
import ssl
import struct
from pathlib import Path

from tests.peers.certificates import Certified
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.support.waiting import PATIENCE_S

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)


def store(path: Path, own: Certified, password: str | None = None) -> Path:
    """A file of PEM with a key and its certificate."""
    path.write_text(own.key_pem(password) + own.certificate_pem)
    return path


def listeners(**ports: int) -> str:
    """The value of `listeners`."""
    return ",".join(f"{name.upper()}://127.0.0.1:{port}" for name, port in ports.items())


def context(trusted: str, path: Path, own: Certified) -> ssl.SSLContext:
    """A client that trusts this PEM and has a certificate, which a file is made for."""
    made = ssl.create_default_context(cadata=trusted)
    made.load_cert_chain(store(path, own))
    return made


def refused(brokers: Brokers, **settings: object) -> str:
    """The one line of a broker that does not start with these settings of its listener with TLS."""
    given = {"listeners": listeners(plaintext=free_port(), ssl=free_port()), **settings}
    broker = brokers(settings=given, wait=False)
    assert broker.process.wait(PATIENCE_S) == 1
    said = broker.log.read_text()
    assert "Traceback" not in said
    assert not broker.data.exists()
    assert "PRIVATE KEY" not in said
    return next(line for line in said.splitlines() if "cannot start the broker: " in line)


def is_served(port: int, context: ssl.SSLContext) -> bool:
    """True if an answer comes. A client may have sent its request before it hears that it is not let in."""
    try:
        with (
            socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            connection.sendall(API_VERSIONS)
            return connection.recv(1) != b""
    except (ssl.SSLError, ConnectionError):
        return False


def shown(port: int) -> str:
    """The certificate that a listener shows, in PEM."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain,
        context.wrap_socket(plain) as connection,
    ):
        found = connection.getpeercert(binary_form=True)
    assert found is not None
    return ssl.DER_cert_to_PEM_cert(found)
