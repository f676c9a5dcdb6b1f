"""Servers that answer a login with anything at all: the client says what it got, and ends."""

import struct
from functools import partial

import pytest
import trio

from ottla.coordination.digest_md5 import User
from ottla.coordination.tree import LoginRefused
from ottla.coordination.zookeeper import ZooKeeperTree

#: The answer to a session's beginning: version, timeout in ms, session id, password, not read-only.
BEGUN = struct.pack(">iiqi16s?", 0, 18_000, 77, 16, b"x" * 16, False)


def framed(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


def answer(token: bytes, length: int | None = None, error: int = 0) -> bytes:
    """The answer to a login's first message."""
    size = len(token) if length is None else length
    return framed(struct.pack(">iqii", 1, 0, error, size) + token)


@pytest.mark.trio
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (framed(b"abc"), "no answer to a login"),
        (framed(struct.pack(">iqi", 1, 0, 0)), "no answer to a login"),
        (answer(b"", length=-1), "that ZooKeeper knows no users"),
        (answer(b"", error=-6), "that ZooKeeper knows no users"),
        (answer(b'\xff"\\='), "no message of DIGEST-MD5"),
        (answer(b'nonce="1",qop="auth-conf"'), "signed or encrypted"),
    ],
)
async def test_a_first_answer_that_is_none(said: bytes, reason: str) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        for reply in framed(BEGUN), said:
            (size,) = struct.unpack(">i", await read(stream, 4))
            await read(stream, size)
            await stream.send_all(reply)
        await stream.receive_some(1)

    async with trio.open_nursery() as nursery:
        listener, *_ = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        with pytest.raises(LoginRefused, match=reason):
            await ZooKeeperTree.connect(f"127.0.0.1:{port}", user=User("kafka", "secret", "here"))
        nursery.cancel_scope.cancel()


async def read(stream: trio.SocketStream, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = await stream.receive_some(count - len(data))
        assert part
        data += part
    return data
