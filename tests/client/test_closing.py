"""A cluster whose connections are closed while one is being made."""

import pytest
import trio
import trio.testing

from ottla.client import Cluster, ConnectionLost
from ottla.client.cluster import Address
from ottla.wire.k18_api_versions import API_VERSIONS
from tests.client.scripted import SPEAKS, response_frame

pytestmark = pytest.mark.trio


@pytest.mark.parametrize("is_lent", [False, True], ids=["kept", "lent"])
async def test_a_connection_that_is_being_made_is_closed_too(monkeypatch: pytest.MonkeyPatch, is_lent: bool) -> None:
    ours, broker = trio.testing.memory_stream_pair()

    async def connect(host: str, port: int) -> trio.abc.Stream:
        return ours

    monkeypatch.setattr(trio, "open_tcp_stream", connect)
    cluster = Cluster("here:1")
    ended: list[str] = []

    async def use() -> None:
        try:
            if is_lent:
                async with cluster.lent_connection(Address("here", 1)):
                    ended.append("used")
            else:
                await cluster.connection(Address("here", 1))
                ended.append("used")
        except ConnectionLost as problem:
            ended.append(str(problem))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(use)
        assert await broker.receive_some()
        await cluster.aclose()
        await broker.send_all(response_frame(API_VERSIONS, 3, 0, SPEAKS))
    assert ended == ["the connection to here:1 was closed here while it was made"]
    with trio.fail_after(60):
        assert await broker.receive_some() == b""
