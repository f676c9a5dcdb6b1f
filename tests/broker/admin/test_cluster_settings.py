"""Settings of a cluster's broker that need no second one: of its controller, its checkpoints and its moves."""

from pathlib import Path

import pytest
import trio

from ottla.broker.broker import Broker
from ottla.broker.quotas.clients import ClientQuotas
from ottla.broker.quotas.limits import ABSENT, Entity
from ottla.config import BrokerConfig
from ottla.coordination.embedded import EmbeddedTree
from tests.controller.fakes import FakeBroker
from tests.peers.ottla import Brokers
from tests.support.client import batch, connect
from tests.support.moves import move, places, throttle
from tests.support.waiting import comes_true, eventually

CHECKPOINT = "replication-offset-checkpoint"


def test_high_watermarks_are_written_down_as_often_as_is_set(brokers: Brokers) -> None:
    """One broker writes them each tenth of a second, and another one when it stops."""
    often, seldom = (brokers(settings={"replica.high.watermark.checkpoint.interval.ms": ms}) for ms in (100, 3_600_000))
    for broker in (seldom, often):
        with connect(broker) as client:
            client.create("t")
            for _ in range(3):
                client.produce("t", batch(b"x"), acks=-1)
    for _ in range(3):
        with connect(often) as client:
            client.produce("t", batch(b"x"), acks=-1)
            end = client.fetch("t").responses[0].partition_responses[0].high_watermark
        eventually("it is written down", lambda end=end: f"t 0 {end}" in lines(often.data))  # type: ignore[misc]
    assert "t 0 3" not in lines(seldom.data)
    seldom.stop()
    assert "t 0 3" in lines(seldom.data)


def lines(data: Path) -> list[str]:
    path = data / CHECKPOINT
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("threads", [1, 2])
def test_so_many_replicas_move_between_directories_at_a_time(brokers: Brokers, tmp_path: Path, threads: int) -> None:
    """The copy of the first one waits for its throttle until the second has been asked for."""
    a, b, c = (tmp_path / name for name in "abc")
    settings = {"num.replica.alter.log.dirs.threads": threads}
    broker = brokers(arguments=("--data-dir", f"{a},{b},{c}"), settings=settings)
    with connect(broker) as client:
        throttle(client, 10_000)
        client.create("t", 2)
        for partition in (0, 1):
            for _ in range(5):
                client.produce("t", batch(b"x" * 10_000), partition=partition)
        first, second = (places(client, "t")[partition, False] for partition in (0, 1))
        third = next(str(path) for path in (a, b, c) if str(path) not in (first, second))
        assert move(client, "t", 0, third) == 0
        eventually("the first begins", lambda: begun(broker.output()) == [0])
        assert move(client, "t", 1, third) == 0
        if threads == 2:
            eventually("the second begins beside it", lambda: begun(broker.output()) == [0, 1])
        assert places(client, "t").keys() >= {(0, True), (1, True)}
        assert begun(broker.output()) == [0, 1][:threads]
        throttle(client, 100_000_000)
        eventually("both have moved", lambda: places(client, "t") == {(0, False): third, (1, False): third})
    assert begun(broker.output()) == [0, 1]


def begun(output: str) -> list[int]:
    """The partitions whose copies have begun, in this order."""
    return [index for _, index in sorted((output.find(f"copying t-{i} into"), i) for i in (0, 1)) if _ >= 0]


class Mute(FakeBroker):
    """Takes connections and answers nothing."""

    connections = 0

    async def _connection(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        try:
            while await stream.receive_some():
                pass
        except OSError:
            pass


@pytest.mark.trio
async def test_a_controller_waits_so_long_for_a_brokers_answer(tmp_path: Path) -> None:
    """Then it tries with a new connection. By default it would wait for half a minute."""
    settings = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0", "broker.id": "1"}
    async with trio.open_nursery() as nursery:
        async with Broker.start(BrokerConfig({**settings, "controller.socket.timeout.ms": "300"})) as broker:
            assert isinstance(broker.tree, EmbeddedTree)
            other = Mute(2)
            await nursery.start(other.serve)
            begin = trio.current_time()
            await other.register(await broker.tree._store.session())
            await comes_true("it is asked again and again", lambda: other.connections >= 4)
            assert trio.current_time() - begin >= 3 * 0.3
        nursery.cancel_scope.cancel()


def test_the_window_in_which_changes_to_topics_count() -> None:
    """A client may make as many partitions at once as its quota gives in the whole window: at half a partition a
    second, ten in two samples of ten seconds. By default they would be five and a half.
    """
    settings = {"controller.quota.window.num": "2", "controller.quota.window.size.seconds": "10"}
    quotas = ClientQuotas(BrokerConfig(settings))
    quotas.set(Entity(ABSENT, "c"), {"controller_mutation_rate": "0.5"})
    found = quotas.mutation(("u", "c"))
    assert found is not None
    bucket, quota = found
    bucket.take(10, quota, 0)
    assert bucket.throttle_ms(quota, 0) == 0
    bucket.take(1, quota, 0)
    assert bucket.throttle_ms(quota, 0) == 2000
