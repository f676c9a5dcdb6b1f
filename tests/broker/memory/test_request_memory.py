"""Large requests that many send at once: what they are decoded to has a sum, and takes its part before it is made."""

import contextlib
from collections.abc import Iterator

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from ottla.broker.request_memory import FEW_ITEMS, FREE_ITEMS, Decoded, RequestMemory, Sum
from ottla.wire.headers import request_frame
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.k06_update_metadata import UPDATE_METADATA
from tests.peers.ottla import Broker, Brokers
from tests.support.hostile import Honest, closing, connect, send
from tests.support.waiting import PATIENCE_S, eventually

MIB = 1 << 20
QUEUED_BYTES = 64 * MIB
#: `queued.max.request.bytes`, the answers' quarter of it, and what the broker is beside both.
RSS_MAX = QUEUED_BYTES + QUEUED_BYTES // 4 + 96 * MIB
CLIENTS = 30
ROWS = 100_000


@contextlib.contextmanager
def honest_beside(broker: Broker, rss_max: int = RSS_MAX) -> Iterator[Honest]:
    with Honest(broker.port, broker.pid) as honest:
        yield honest
    assert honest.waits_s, "it is served; how fast is for `make bench-hostile`"
    assert honest.rss_max < rss_max, honest.rss_max // MIB


def list_offsets(rows: int) -> bytes:
    asked = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name="t", partitions=[ListOffsetsPartition(partition_index=row, timestamp=-1) for row in range(rows)]
            )
        ],
    )
    return request_frame(LIST_OFFSETS.key, 5, 1, "greedy", LIST_OFFSETS.encode_request(5, asked))


def test_what_large_requests_are_decoded_to_is_bounded(brokers: Brokers) -> None:
    """Each of them takes twenty times what its frame does: 33 MB."""
    settings = {"queued.max.request.bytes": QUEUED_BYTES, "socket.request.max.bytes": QUEUED_BYTES // 4}
    broker = brokers(settings=settings)
    frame = list_offsets(ROWS)
    with honest_beside(broker) as honest:
        attackers = [connect(broker.port) for _ in range(CLIENTS)]
        with closing(attackers):
            for one in attackers:
                send(one, frame, 5.0)
            for one in attackers[:2]:
                one.settimeout(2 * PATIENCE_S)
                assert one.recv(4)
            waited = len(honest.waits_s)
            eventually("the honest client is served on", lambda: len(honest.waits_s) > waited + 60)


async def taking(memory: Sum, size_bytes: int, taken: list[Decoded]) -> None:
    taken.append(await memory.take(size_bytes))


@pytest.mark.trio
async def test_who_finds_no_room_waits_in_line() -> None:
    memory = Sum(100)
    first = await memory.take(60)
    taken: list[Decoded] = []
    async with trio.open_nursery() as nursery:
        for size_bytes in (50, 10, 40):
            nursery.start_soon(taking, memory, size_bytes, taken)
            await wait_all_tasks_blocked()
        assert not taken, "nobody overtakes"
        assert memory.used == 60
        del first
        await wait_all_tasks_blocked()
        assert memory.used == 100
    assert len(taken) == 3
    taken.clear()
    assert memory.used == 0


@pytest.mark.trio
async def test_one_who_is_alone_has_room() -> None:
    memory = Sum(100)
    large = await memory.take(1000)
    assert memory.used == 1000
    with trio.move_on_after(0):
        await memory.take(1)
    assert memory.used == 1000, "who gives up waits no more"
    del large
    assert memory.used == 0
    assert await memory.take(100)


@pytest.mark.trio
async def test_requests_of_few_rows_do_not_wait_for_those_of_many() -> None:
    memory = RequestMemory(1600)
    many = await memory.take(LIST_OFFSETS.key, FEW_ITEMS + 1)
    few = await memory.take(LIST_OFFSETS.key, FEW_ITEMS)
    told = await memory.take(UPDATE_METADATA.key, FEW_ITEMS + 1)
    assert await memory.take(LIST_OFFSETS.key, FREE_ITEMS)
    with trio.move_on_after(0) as waited:
        await memory.take(LIST_OFFSETS.key, FREE_ITEMS + 1)
    assert waited.cancelled_caught
    del many, few, told


@pytest.mark.trio
async def test_the_memory_is_given_back_when_the_rows_are_freed() -> None:
    memory = Sum(100)
    taken = await memory.take(100)
    taken.message = ListOffsetsRequest(topics=[ListOffsetsTopic(name=str(number)) for number in range(2_000)])
    somebody = taken.message.topics[0]
    del taken
    assert memory.used == 100
    await wait_all_tasks_blocked()
    assert memory.used == 0
    assert somebody.name == "0"
