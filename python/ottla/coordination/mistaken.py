"""Another server where a ZooKeeper is named: a broker of Kafka's, or of Ottla's, whose address was given instead."""

from __future__ import annotations

import struct
from typing import Final

import trio

from ottla.coordination.tree import NoZooKeeper, Unavailable

#: How long a broker may take to say that it is one.
ASK_S: Final = 1.0
#: ApiVersions of version 0, which every broker since Kafka 0.10 answers: size, key, version, correlation id, no client
#: id.
_QUESTION: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_ANSWER: Final = struct.Struct(">ii")


async def none_answered(hosts: str, within_ms: int) -> Unavailable:
    """Why none of these servers, HOST:PORT,HOST:PORT, answered as ZooKeeper does."""
    problem = f"no ZooKeeper server at {hosts} answered within {within_ms} ms"
    for server in hosts.split(","):
        host, _, port = server.rpartition(":")
        if await _is_broker(host.removeprefix("[").removesuffix("]"), int(port)):
            return NoZooKeeper(
                "/",
                f"{problem}: a Kafka broker answers at {server}, with its own protocol. Name ZooKeeper's port, mostly "
                "2181; brokers have it as zookeeper.connect",
            )
    return Unavailable("/", problem)


async def _is_broker(host: str, port: int) -> bool:
    with trio.move_on_after(ASK_S):
        try:
            stream = await trio.open_tcp_stream(host, port)
            async with stream:
                await stream.send_all(_QUESTION)
                answer = b""
                while len(answer) < _ANSWER.size:
                    part = await stream.receive_some(_ANSWER.size - len(answer))
                    if not part:
                        return False
                    answer += bytes(part)
        except (OSError, trio.BrokenResourceError):
            return False
        size: int
        size, correlation_id = _ANSWER.unpack(answer)
        return size > _ANSWER.size - 4 and correlation_id == 1
    return False
