"""The other end of a connection in memory: it reads requests and answers what the test says."""

from collections.abc import Callable
from typing import Any

import trio
import trio.testing

from ottla.client.connection import Connection
from ottla.wire import headers
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataResponse
from ottla.wire.k18_api_versions import API_VERSIONS, ApiVersionsResponse, ApiVersionsResponseKey
from ottla.wire.schema import Api

SPEAKS = ApiVersionsResponse(
    api_keys=[ApiVersionsResponseKey(api_key=key, max_version=highest) for key, highest in ((3, 9), (18, 3), (0, 8))]
)


def response_frame(
    api: Api[Any, Any], version: int, correlation_id: int, message: Any, body_version: int | None = None
) -> bytes:
    """A whole answer; `body_version` is for brokers that answer in another version than they were asked."""
    body = api.encode_response(version if body_version is None else body_version, message)
    tags = b"\0" if headers.response_header_version(api.key, version) else b""
    return (4 + len(tags) + len(body)).to_bytes(4, "big") + correlation_id.to_bytes(4, "big") + tags + body


def cluster_called(name: str) -> MetadataResponse:
    return MetadataResponse(cluster_id=name)


METADATA_REQUEST = MetadataRequest(topics=None)


class Script:
    """The broker's side of `connection`: `requests` come in order, `answer` goes out at the test's bidding."""

    def __init__(self) -> None:
        ours, self.stream = trio.testing.memory_stream_pair()
        self.connection = Connection(ours, "test", host="memory", port=1)
        self._received = b""

    async def request(self) -> tuple[int, int, int]:
        """Key, version and correlation id of the next request."""
        while len(self._received) < 4 or len(self._received) < 4 + int.from_bytes(self._received[:4], "big"):
            data = await self.stream.receive_some()
            assert data, "the client closed the connection"
            self._received += data
        length = 4 + int.from_bytes(self._received[:4], "big")
        frame, self._received = self._received[4:length], self._received[length:]
        return int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big"), int.from_bytes(frame[4:8], "big")

    async def answer(
        self, api: Api[Any, Any], version: int, correlation_id: int, message: Any, body_version: int | None = None
    ) -> None:
        await self.stream.send_all(response_frame(api, version, correlation_id, message, body_version))

    async def negotiate(self) -> None:
        """Plays the negotiation of a broker that understands our version at once."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.connection.negotiate)
            key, version, correlation_id = await self.request()
            assert (key, version) == (18, 3)
            await self.answer(API_VERSIONS, version, correlation_id, SPEAKS)

    async def name_of(
        self, into: list[str | None], name: Callable[[MetadataResponse], str | None] = lambda answer: answer.cluster_id
    ) -> None:
        """A task that calls Metadata and notes the answer."""
        into.append(name(await self.connection.call(METADATA, METADATA_REQUEST)))
