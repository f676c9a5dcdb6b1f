"""The first words on connections that Rust opens to a broker that wants to know who comes."""

from __future__ import annotations

from collections.abc import Generator

from ottla.client.protocol import Protocol
from ottla.client.sasl import authentication, renewal_s
from ottla.client.security import Security
from ottla.wire.k18_api_versions import API_VERSIONS


class Greeting:
    """Begins a conversation on each connection. Called on a fetcher's own thread."""

    def __init__(self, security: Security, client_id: str, place: str) -> None:
        self._security = security
        self._client_id = client_id
        self._place = place

    def __call__(self) -> Conversation:
        return Conversation(_words(self._security, Protocol(self._client_id, self._place), self._place))


class Conversation:
    """The requests on one connection, and their answers."""

    def __init__(self, words: Generator[bytes, bytes, float | None]) -> None:
        self._words = words

    def next(self, answer: bytes | None) -> bytes | float | None:
        """Takes the answer to the last request, and returns the next; or, at the end, after how many seconds to use
        another connection. None: never. Raises KafkaError, ProtocolError: the other broker refuses.
        """
        try:
            return next(self._words) if answer is None else self._words.send(answer)
        except StopIteration as end:
            lasts_s: float | None = end.value
            return lasts_s


def _words(security: Security, protocol: Protocol, place: str) -> Generator[bytes, bytes, float | None]:
    version: int | None = API_VERSIONS.versions[-1]
    while version is not None:
        frame = yield protocol.encode(API_VERSIONS, protocol.negotiation_request(), version)
        version = protocol.negotiated(version, protocol.decode(memoryview(frame))[1])
    conversation = authentication(security, place)
    try:
        api, message = next(conversation)
        while True:
            frame = yield protocol.encode(api, message)
            api, message = conversation.send(protocol.decode(memoryview(frame))[1])
    except StopIteration as end:
        return renewal_s(end.value)
