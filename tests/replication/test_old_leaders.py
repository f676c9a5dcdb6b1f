"""A leader or a broker that does not have the versions in which it is asked: it ends the connection, and the log says
what it lacks, by name.
"""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from ottla.client.errors import ConnectionLost
from ottla.controller.channel import Channel
from ottla.controller.model import Broker
from ottla.controller.requests import ControlRequest
from ottla.coordination.znodes import Endpoint
from ottla.peers import Dialer, Peers
from ottla.replication.questions import Questions
from ottla.wire.k01_fetch import FETCH
from ottla.wire.k02_list_offsets import LIST_OFFSETS
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR, LeaderAndIsrRequest
from ottla.wire.k23_offset_for_leader_epoch import OFFSET_FOR_LEADER_EPOCH
from tests.replication.followers import LEADER, ME, Event, following
from tests.support.old_broker import OldBroker
from tests.support.waiting import comes_true

pytestmark = pytest.mark.trio
ENOUGH = {FETCH.key: (0, 12), LIST_OFFSETS.key: (0, 5), OFFSET_FOR_LEADER_EPOCH.key: (0, 3), LEADER_AND_ISR.key: (0, 4)}
END = ": it is too old or too new for the inter.broker.protocol.version of this broker"


@asynccontextmanager
async def broker(offers: Mapping[int, tuple[int, int]]) -> AsyncIterator[OldBroker]:
    async with trio.open_nursery() as nursery:
        one = OldBroker(offers)
        await nursery.start(one.serve)
        yield one
        nursery.cancel_scope.cancel()


CASES = [
    pytest.param({FETCH.key: (0, 11)}, "has Fetch in versions 0 to 11, and not in 12", id="older"),
    pytest.param({FETCH.key: (13, 17)}, "has Fetch in versions 13 to 17, and not in 12", id="newer"),
    pytest.param(
        {LIST_OFFSETS.key: (0, 4), OFFSET_FOR_LEADER_EPOCH.key: (0, 2)},
        "has ListOffsets in versions 0 to 4, and not in 5 and has OffsetForLeaderEpoch in versions 0 to 2, "
        "and not in 3",
        id="questions",
    ),
    pytest.param({FETCH.key: None}, "has no Fetch", id="none"),
    pytest.param({}, None, id="another reason"),
]


@pytest.mark.parametrize(("changes", "told"), CASES)
async def test_a_leader(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    changes: dict[int, tuple[int, int] | None],
    told: str | None,
) -> None:
    """The fetcher has lost its connection, and says so as often as it is made anew."""
    offers = {key: versions for key, versions in (ENOUGH | changes).items() if versions is not None}
    async with broker(offers) as old, following(tmp_path, monkeypatch) as stand:
        stand.is_at(LEADER, old.port)
        await stand.follow(0)
        await stand.until(lambda: stand.adds())
        for _ in range(3):
            stand.tell(Event("connection", partition=-1, topic="", leader_epoch=-1, message="it closed the connection"))
            await stand.settled()
        lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        wanted = f"broker {LEADER} cannot be followed: 127.0.0.1:{old.port} {told}{END}"
        assert lines == ([] if told is None else [wanted])


async def test_a_peer_that_is_asked() -> None:
    async with broker(ENOUGH | {OFFSET_FOR_LEADER_EPOCH.key: (0, 2)}) as old:
        peers = Peers(lambda _: ("127.0.0.1", old.port), Dialer("test", 5_000))
        questions = Questions(ME, peers)
        with pytest.raises(
            ConnectionLost, match=r"has OffsetForLeaderEpoch in versions 0 to 2, and not in 3: it is too"
        ):
            await questions.epoch_ends(LEADER, {("t", 0): (1, 1)})
        # It has this one, and closes the connection all the same.
        with pytest.raises(ConnectionLost, match="closed the connection"):
            await questions.log_ranges(LEADER, {("t", 0): 1})


async def test_a_broker_that_the_controller_tells(caplog: pytest.LogCaptureFixture) -> None:
    async with broker(ENOUGH | {LEADER_AND_ISR.key: (0, 3)}) as old, trio.open_nursery() as nursery:
        other = Broker(2, 7, (Endpoint("PLAINTEXT", "127.0.0.1", old.port),))
        channel = Channel(other, "PLAINTEXT", Dialer("1", 5_000).open, lambda *_: None)
        nursery.start_soon(channel.run)
        channel.send(ControlRequest(2, 7, LEADER_AND_ISR, 4, LeaderAndIsrRequest()))
        text = f"127.0.0.1:{old.port} has LeaderAndIsr in versions 0 to 3, and not in 4{END}"
        await comes_true("a line", lambda: any(text in record.getMessage() for record in caplog.records))
        assert len([record for record in caplog.records if text in record.getMessage()]) == 1
        channel.close()
