"""Listeners with TLS in tests: their settings, and what a client sees of them."""

import socket
import ssl
import struct
from pathlib import Path

from tests.peers.certificates import Certified
from tests.support.waiting import PATIENCE_S

#: The environment of a broker that serves listeners with TLS.
TLS = {"OTTLA_TLS": "1"}
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)


def store(path: Path, own: Certified, password: str | None = None) -> Path:
    """A file of PEM with a key and its certificate."""
    path.write_text(own.key_pem(password) + own.certificate_pem)
    return path


def listeners(**ports: int) -> str:
    """The value of `listeners`."""
    return ",".join(f"{name.upper()}://127.0.0.1:{port}" for name, port in ports.items())


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
