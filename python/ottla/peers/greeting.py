"""The beginning of connections that Rust opens to a broker that has TLS, or wants to know who comes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator

from ottla._core import TlsClient
from ottla.client import oauth
from ottla.client.protocol import Protocol
from ottla.client.sasl import authentication, renewal_s
from ottla.client.security import Security
from ottla.errors import SaslAuthenticationFailed
from ottla.wire.k18_api_versions import API_VERSIONS


class Greeting:
    """Begins a conversation on each connection. Called on a fetcher's own thread."""

    def __init__(self, security: Callable[[], Security | None], client_id: str, place: str) -> None:
        self._security = security
        self._client_id = client_id
        self._place = place

    def __call__(self) -> Conversation:
        security = self._security()
        tls = encryption(security) if security is not None and security.tls else None
        return Conversation(tls, _words(security, Protocol(self._client_id, self._place), self._place))


class Conversation:
    """The requests on one connection, and their answers. tls: of the connection; None: it is not encrypted."""

    def __init__(self, tls: TlsClient | None, words: Generator[bytes, bytes, float | None]) -> None:
        self.tls = tls
        self._words = words

    def next(self, answer: bytes | None) -> bytes | float | None:
        """Takes the answer to the last request, and returns the next; or, at the end, after how many seconds to use
        another connection. None: never.

        Raises:
            KafkaError, ProtocolError: the other broker refuses. SaslAuthenticationFailed, ConnectionLost: the
                authorization server gives no token.
        """
        try:
            return next(self._words) if answer is None else self._words.send(answer)
        except StopIteration as end:
            lasts_s: float | None = end.value
            return lasts_s


@functools.lru_cache(maxsize=4)
def encryption(security: Security) -> TlsClient:
    """The same of what connections share that Rust opens. Keys and certificates stand in `security` themselves, as PEM
    that is not encrypted.

    Raises ValueError(the argument of TlsClient that is wrong, how).
    """
    return TlsClient(
        certificates=security.keystore_certificate_chain or "",
        key=security.keystore_key or "",
        trusted=security.truststore_certificates or "",
        checks_name=security.checks_name,
        protocols=list(dict.fromkeys(security.tls_versions)),
        suites=list(security.cipher_suites),
    )


def _words(security: Security | None, protocol: Protocol, place: str) -> Generator[bytes, bytes, float | None]:
    if security is None or not security.sasl:
        return None
    version: int | None = API_VERSIONS.versions[-1]
    while version is not None:
        frame = yield protocol.encode(API_VERSIONS, protocol.negotiation_request(), version)
        version = protocol.negotiated(version, protocol.decode(memoryview(frame))[1])
    token = "" if security.tokens is None else oauth.token(security.tokens, place)
    conversation = authentication(security, place, token)
    try:
        api, message = next(conversation)
        while True:
            frame = yield protocol.encode(api, message)
            api, message = conversation.send(protocol.decode(memoryview(frame))[1])
    except StopIteration as end:
        return renewal_s(end.value)
    except SaslAuthenticationFailed:
        if security.tokens is not None:
            oauth.forget(security.tokens, token)
        raise
