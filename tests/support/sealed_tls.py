"""A client of TLS 1.3 that seals its records by hand (RFC 8446, 5.2): it may send what no library would."""

from __future__ import annotations

import socket
import ssl
import struct
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from tests.support.hellos import DATA, HANDSHAKE, TLS_1_2, record
from tests.support.waiting import PATIENCE_S

PLAIN_BYTES_MAX = 1 << 14
KEY_UPDATE = 24


class SealedTls:
    """A connection after its handshake, which Python's library makes. From there on the records are made here, and the
    library reads the answers. `log` is a file for its secrets.
    """

    def __init__(self, port: int, context: ssl.SSLContext, log: Path) -> None:
        log.unlink(missing_ok=True)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.keylog_filename = str(log)
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, outgoing, server_hostname="localhost")
        while True:
            try:
                self._session.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.socket.sendall(outgoing.read())
                self._incoming.write(self._receive())
        self.socket.sendall(outgoing.read())
        suite = self._session.cipher()
        assert suite is not None
        self._hash = hashes.SHA384() if suite[0].endswith("SHA384") else hashes.SHA256()
        self._cipher = ChaCha20Poly1305 if "CHACHA20" in suite[0] else AESGCM
        self._key_bytes = 16 if "AES_128" in suite[0] else 32
        lines = [line.split() for line in log.read_text().splitlines()]
        (secret,) = (line[2] for line in lines if line[0] == "CLIENT_TRAFFIC_SECRET_0")
        self._take(bytes.fromhex(secret))

    def __enter__(self) -> SealedTls:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def _expand(self, secret: bytes, label: str, length: int) -> bytes:
        name = f"tls13 {label}".encode()
        info = struct.pack(">HB", length, len(name)) + name + b"\0"
        return bytes(HKDFExpand(self._hash, length, info).derive(secret))

    def _take(self, secret: bytes) -> None:
        self._secret, self._number = secret, 0
        self._aead = self._cipher(self._expand(secret, "key", self._key_bytes))
        self._vector = int.from_bytes(self._expand(secret, "iv", 12), "big")

    def sealed(self, content: bytes, kind: int = DATA, padding: int = 0) -> bytes:
        """A record with this content, under the next number."""
        inner = content + bytes([kind]) + bytes(padding)
        nonce = (self._vector ^ self._number).to_bytes(12, "big")
        self._number += 1
        head = record(bytes(len(inner) + 16), DATA, TLS_1_2)[:5]
        return head + bytes(self._aead.encrypt(nonce, inner, head))

    def key_update(self, asks: bool) -> bytes:
        """A record after which this side has another key. It may ask the other side for the same."""
        said = self.sealed(bytes([KEY_UPDATE, 0, 0, 1, asks]), HANDSHAKE)
        self._take(self._expand(self._secret, "traffic upd", self._hash.digest_size))
        return said

    def say(self, data: bytes) -> None:
        """Sends it, as far as the server takes it."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def hear(self, count: int) -> bytes:
        """So many bytes of answers. Fewer: the server has closed the connection. Raises ssl.SSLError for an alert."""
        found = b""
        while len(found) < count:
            try:
                part = self._session.read(count - len(found))
            except ssl.SSLWantReadError:
                received = self._receive()
                if not received:
                    return found
                self._incoming.write(received)
                continue
            if not part:
                # The other side has said good-bye.
                return found
            found += part
        return found

    def end(self) -> str:
        """Waits for the end of the connection. Returns the name of the alert, as Python's library has it, or nothing.
        Fails if there is an answer before the end.
        """
        try:
            assert self.hear(1) == b""
        except ssl.SSLError as error:
            return error.reason or ""
        return ""

    def _receive(self) -> bytes:
        try:
            return self.socket.recv(1 << 16)
        except ConnectionResetError:
            return b""
