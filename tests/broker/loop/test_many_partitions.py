"""A Fetch of many partitions is served in pieces: what it gets is the same, and others do not wait for it."""

from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock, Mock

import pytest
import trio

from ottla._core import FetchRow
from ottla.broker.fetch.context import Context
from ottla.broker.fetch.full import FullFetch
from ottla.broker.fetch.read import Reading
from ottla.broker.fetch.result import FetchResult
from ottla.client.errors import ConnectionLost
from ottla.replication import leading
from ottla.slices import ROWS, serve
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.k18_api_versions import API_VERSIONS, ApiVersionsRequest
from tests.peers.ottla import Broker
from tests.peers.processes import is_readable
from tests.support.client import Client, batch, connect, values

#: Several pieces.
MANY = 3500
#: The most that one request may name.
MOST = 200_000
REAL = 3
UNKNOWN = 3
#: Partitions of a real topic, of two pieces.
WIDE = ROWS + 50


def rows(partitions: range | list[int], offset: int = 0) -> list[FetchPartition]:
    return [
        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=-1)
        for number in partitions
    ]


def request(topic: str, asked: list[FetchPartition], **options: int) -> FetchRequest:
    return FetchRequest(
        replica_id=-1, topics=[FetchTopic(topic=topic, partitions=asked)], **{"max_wait_ms": 0, **options}
    )


def told(answer: FetchResponse) -> list[tuple[int, int, int]]:
    """Partition, error code and number of bytes, in the order of the answer."""
    assert answer.error_code == 0
    return [
        (row.partition, row.error_code, len(row.record_set or b""))
        for topic in answer.responses
        for row in topic.partition_responses
    ]


@pytest.fixture
def topic(client: Client, request: pytest.FixtureRequest) -> str:
    name = f"many-{abs(hash(request.node.name))}"
    client.create(name, partitions=REAL)
    return name


@pytest.mark.parametrize("version", [3, 4, 9, 11, 12])
def test_every_partition_is_answered_in_its_place(client: Client, topic: str, version: int) -> None:
    client.produce(topic, batch(b"x"), partition=1)
    asked = [2, *range(10, MANY), 1, 0]
    answer = told(client.call(FETCH, request(topic, rows(asked), max_bytes=1 << 20), version))
    assert [partition for partition, _, _ in answer] == asked
    assert {(error, size) for partition, error, size in answer if partition >= REAL} == {(UNKNOWN, 0)}
    assert [(number, error, size > 0) for number, error, size in answer if number < REAL] == [
        (2, 0, False),
        (1, 0, True),
        (0, 0, False),
    ]


@pytest.mark.trio
async def test_others_run_between_pieces(nursery: trio.Nursery) -> None:
    seen: list[object] = []

    async def others() -> None:
        while seen[-1:] != ["end"]:
            seen.append("others")
            await trio.lowlevel.checkpoint()

    call = SimpleNamespace(in_slices=partial(serve, SimpleNamespace(in_background=nursery.start_soon)))
    context = cast("Context", SimpleNamespace(call=call))

    def in_slices(count: int) -> None:
        Context.in_slices(
            context, count, lambda start, stop: seen.append(range(start, stop)), lambda: seen.append("end")
        )

    in_slices(7 * ROWS + 5)
    assert not seen, "many are never served at once"
    await others()
    pieces = [*(range(start * ROWS, (start + 1) * ROWS) for start in range(7)), range(7 * ROWS, 7 * ROWS + 5)]
    assert [one for one in seen if one != "others"] == [*pieces, "end"]
    # trio runs every task once before one runs again, in any order: others may run twice before the first piece.
    for slices, piece in enumerate(pieces):
        assert seen[: seen.index(piece)].count("others") >= slices
    seen.clear()
    in_slices(ROWS)
    assert seen == [range(ROWS), "end"], "few are served at once"


@pytest.mark.trio
async def test_a_leader_epoch_that_begins_during_a_reading_knows_nothing_of_it(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offset that a follower had under the older one is not noted."""
    noted: list[int] = []

    def followed(partition: SimpleNamespace, *_: object) -> bool:
        noted.append(partition.index)
        return True

    monkeypatch.setattr(leading, "followed", followed)

    def led(index: int) -> SimpleNamespace:
        return SimpleNamespace(
            index=index,
            leader_epoch=1,
            leader_error=lambda *_: 0,
            compression_type="producer",
            log=SimpleNamespace(end_offset=5),
        )

    partitions = {("t", index): led(index) for index in range(WIDE)}
    asked = [
        SimpleNamespace(key=key, leader_epoch=1, last_fetched_epoch=-1, offset=5, log_start_offset=0, bytes_max=1)
        for key in partitions
    ]

    rooms = SimpleNamespace(
        replicas=SimpleNamespace(partitions=partitions),
        metadata=None,
        server=SimpleNamespace(token=lambda: 1),
    )
    context = SimpleNamespace(
        call=SimpleNamespace(in_slices=partial(serve, SimpleNamespace(in_background=nursery.start_soon))),
        rooms=rooms,
        version=11,
        bytes_max=1,
        is_follower=True,
        rights=None,
        rack="",
        reads_followers=False,
        throttles=None,
        fetch=SimpleNamespace(replica_id=7, read=lambda *_: FetchRow(0)),
    )
    context.in_slices = partial(Context.in_slices, cast("Context", context))
    done = trio.Event()
    Reading(cast("Context", context), cast("Any", asked), lambda _: done.set()).start()
    await done.wait()
    assert noted == list(range(WIDE))

    noted.clear()
    done = trio.Event()
    reading = Reading(cast("Context", context), cast("Any", asked), lambda _: done.set())
    reading.start()
    while not reading._followed:
        await trio.lowlevel.checkpoint()
    partitions["t", 3].leader_epoch = 2
    await done.wait()
    assert noted == [index for index in range(WIDE) if index != 3]


def test_others_are_answered_meanwhile(client: Client, shared_broker: Broker, topic: str) -> None:
    with connect(shared_broker) as other:
        client.send(FETCH, request(topic, rows(range(MOST))), 4)
        for _ in range(3):
            other.call(API_VERSIONS, ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
        assert not is_readable(client._socket), "the larger request held up the smaller ones"
        assert len(told(client.receive(timeout_ms=60_000))) == MOST


def test_a_request_of_more_is_refused(client: Client, shared_broker: Broker, topic: str) -> None:
    with pytest.raises(ConnectionLost):
        client.call(FETCH, request(topic, rows(range(MOST + 1))), 4)
    with connect(shared_broker) as other:
        assert values(other.fetch(topic)) == []
    assert "a Fetch may name at most 200000 partitions" in shared_broker.output_tail()


@pytest.mark.parametrize("version", [3, 4, 9, 11, 12])
def test_a_partition_that_is_named_twice_is_answered_once(client: Client, topic: str, version: int) -> None:
    for value in (b"a", b"b"):
        client.produce(topic, batch(value))
    for number in (0, 1):
        client.fetch(topic, partition=number)  # from now on under leases
    asked = [*rows([0], offset=0), *rows([1]), *rows([0], offset=1)]
    answer = client.call(FETCH, request(topic, asked, max_bytes=1 << 20), version)
    assert [partition for partition, _, _ in told(answer)] == [0, 1]
    answer.responses[0].partition_responses.pop()
    assert values(answer) == [b"b"], "what is asked last counts"


def test_a_million_rows_of_one_partition_are_refused(client: Client, shared_broker: Broker, topic: str) -> None:
    with pytest.raises(ConnectionLost):
        client.call(FETCH, request(topic, rows([0]) * 1_000_000), 4)


@pytest.mark.parametrize("is_committed", [0, 1])
def test_one_that_waits_is_woken_by_each_of_its_partitions(
    client: Client, shared_broker: Broker, is_committed: int
) -> None:
    topic = f"wide-{is_committed}"
    client.create(topic, partitions=WIDE)
    asked = rows(range(WIDE))
    limits = {"max_wait_ms": 300_000, "min_bytes": 1, "isolation_level": is_committed}
    with connect(shared_broker) as other:
        for number in (0, ROWS, WIDE - 1):
            client.send(FETCH, request(topic, asked, **limits), 11)
            other.produce(topic, batch(b"x"), partition=number)
            answer = told(client.receive(timeout_ms=60_000))
            assert [partition for partition, _, size in answer if size] == [number]
            asked[number].fetch_offset += 1


def test_a_session_of_many_names_what_is_new(client: Client, shared_broker: Broker) -> None:
    topic = "wide-session"
    client.create(topic, partitions=WIDE)
    first = client.call(FETCH, request(topic, rows(range(WIDE)), session_epoch=0), 11)
    assert len(told(first)) == WIDE
    session = {"session_id": first.session_id, "session_epoch": 1, "max_wait_ms": 300_000, "min_bytes": 1}
    client.send(FETCH, FetchRequest(replica_id=-1, topics=[], **session), 11)
    with connect(shared_broker) as other:
        other.produce(topic, batch(b"x"), partition=ROWS)
    assert told(client.receive(timeout_ms=60_000)) == [(ROWS, 0, len(batch(b"x")))]
    session = {"session_id": first.session_id, "session_epoch": 2}
    again = client.call(FETCH, request(topic, rows(range(WIDE), offset=0), **session), 11)
    assert told(again) == [(ROWS, 0, len(batch(b"x")))], "all are named, one has news"


def test_a_broker_without_the_partition_gets_no_records_of_it(client: Client, topic: str) -> None:
    """As in Kafka: a broker that was just taken off a partition may not have heard of it yet."""
    client.produce(topic, batch(b"x"))
    asked = FetchRequest(replica_id=7, max_wait_ms=0, topics=[FetchTopic(topic=topic, partitions=rows([0]))])
    answer: FetchResponse = client.call(FETCH, asked, 11)
    (row,) = answer.responses[0].partition_responses
    assert (row.error_code, row.high_watermark, row.record_set or b"") == (0, 1, b"")


@pytest.mark.parametrize("offset", [1, 2], ids=["nothing came", "a record came"])
def test_what_comes_before_a_fetch_is_registered_ends_its_wait(offset: int) -> None:
    begun: list[bool] = []

    class Read(FullFetch):
        def start(self) -> None:
            begun.append(self.is_again)

    partition = Mock(**{"leader_error.return_value": 0, "log.high_watermark": offset, "log.end_offset": offset})
    partition.log.last_stable_offset = offset
    context = MagicMock(bytes_min=1, follower=None, is_follower=False, wait_ms=1000)
    context.rooms.replicas.partitions = {("t", 0): partition}
    context.is_throttled.return_value = False
    context.is_behind = partial(Context.is_behind, context)
    context.bound.return_value = offset
    context.in_slices = partial(Context.in_slices, context)
    asked = SimpleNamespace(key=("t", 0), leader_epoch=1, offset=1, bytes_max=1)
    fetch = Read(context, [cast("Any", asked)])
    result = FetchResult()
    result.rows.append(FetchRow(high_watermark=1, last_stable_offset=1))
    fetch.wait(result, 1)
    assert begun == [True] * (offset - 1)
    assert fetch.done is bool(begun)
    context.rooms.deadlines.add.assert_called_once_with(1000, fetch)
    assert partition.waiting_fetches.unpark.call_count == len(begun)
