"""A broker that has some APIs in some versions only. As Kafka's brokers do it answers ApiVersions, and closes each
connection on which anything else is asked.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import trio

from ottla.wire.k18_api_versions import API_VERSIONS, ApiVersionsResponse, ApiVersionsResponseKey


class OldBroker:
    """`offers` has the least and the most version of each API by its key. Listens on a `port` of its own."""

    def __init__(self, offers: Mapping[int, tuple[int, int]]) -> None:
        self.offers = {API_VERSIONS.key: (0, 3), **offers}
        self.port = 0

    async def serve(self, *, task_status: trio.TaskStatus[None]) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        task_status.started()
        await trio.serve_listeners(self._connection, listeners)

    async def _connection(self, stream: trio.SocketStream) -> None:
        buffer = b""
        while data := await stream.receive_some(65536):
            buffer += data
            while len(buffer) >= 4 and len(buffer) >= 4 + (size := struct.unpack_from(">i", buffer)[0]):
                frame, buffer = buffer[4 : 4 + size], buffer[4 + size :]
                key, version, correlation_id = struct.unpack_from(">hhi", frame)
                if key != API_VERSIONS.key:
                    return
                rows = [
                    ApiVersionsResponseKey(api_key=key, min_version=a, max_version=b)
                    for key, (a, b) in self.offers.items()
                ]
                body = API_VERSIONS.encode_response(version, ApiVersionsResponse(api_keys=rows))
                await stream.send_all(struct.pack(">ii", len(body) + 4, correlation_id) + body)
