"""The metrics of a broker's replicas change with them; and telling them for thousands holds nobody up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from ottla._core import Fetcher, LargeAnswers, PartitionToFetch
from ottla.broker.broker import Broker
from ottla.config import BrokerConfig
from ottla.controller.model import Partition as Known
from ottla.coordination.znodes import PartitionState as Stored
from ottla.replication.following import _Thread
from ottla.replication.partition import Partition
from ottla.replication.roles import PartitionState
from tests.peers.ports import free_port
from tests.peers.skips import require
from tests.support.loop_steps import counted
from tests.support.waiting import comes_true

try:
    from ottla.broker.watching.metrics import BrokerMetrics
    from ottla.metrics.http import Pages
except ImportError:
    is_there = False
else:
    is_there = True

pytestmark = pytest.mark.trio

OTHER, ADDED = 7, 8
THOUSANDS = 5000
TOPIC = "t"
#: Lines that a scrape may run in one go: six for each of a thousand partitions, and some. All at once are 30,000.
STEP_LINES_MAX = 10_000
REPLICAS = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"


@pytest.fixture(autouse=True, scope="module")
def metrics_extra() -> None:
    if not is_there:
        require("clients", "the packages of the extra `metrics` are not installed")


def started(path: Path) -> Any:
    settings = {"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0", "metrics.listener": "127.0.0.1:1"}
    return Broker.start(BrokerConfig(settings))


class Told:
    """The metrics of a broker that serves."""

    def __init__(self, broker: Broker) -> None:
        self._metrics = BrokerMetrics(cast("Any", SimpleNamespace(broker=broker, reasons=dict, is_stopping=False)))

    def metrics(self) -> Iterator[Any]:
        return self._metrics()

    def not_ready(self) -> dict[str, str]:
        return {}

    def __getitem__(self, name: str) -> float:
        """The value of a metric, or the sum of its values."""
        # Each family is read, as in a scrape: some are what others were found to be.
        every = [(family.name, list(rows)) for family, rows in self.metrics()]
        return sum(value for family, rows in every if family == name for _, value in rows)


async def test_gauges_of_replicas_follow_what_the_controller_says(tmp_path: Path) -> None:
    async with started(tmp_path) as broker:
        told, me, epoch = Told(broker), broker.id, 0

        async def becomes(
            isr: tuple[int, ...], *, leader: int = me, adding: tuple[int, ...] = (), removing: tuple[int, ...] = ()
        ) -> None:
            nonlocal epoch
            epoch += 1
            state = PartitionState(1, leader, epoch, isr, (me, OTHER), epoch, adding, removing)
            assert await broker.replicas.apply(TOPIC, {0: state}) == {}

        def figures() -> tuple[float, ...]:
            names = ("leadercount", "underreplicatedpartitions", "underminisrpartitioncount", "atminisrpartitioncount")
            return tuple(told[REPLICAS + name] for name in (*names, "reassigningpartitions"))

        await becomes((me, OTHER))
        partition = broker.replicas.partitions[TOPIC, 0]
        assert figures() == (1, 0, 0, 0, 0)
        partition.change(min_insync_replicas=2)
        assert figures() == (1, 0, 0, 1, 0)
        await becomes((me,))
        assert figures() == (1, 1, 1, 0, 0)
        await becomes((me, OTHER), adding=(OTHER,))
        assert figures() == (1, 0, 0, 1, 1)
        await becomes((me,), adding=(OTHER,))
        assert figures() == (1, 0, 1, 0, 1)
        await becomes((me, OTHER), removing=(me,))
        assert figures() == (1, 0, 0, 1, 1)
        await becomes((me, OTHER))
        assert figures() == (1, 0, 0, 1, 0)
        # Followers are their leaders' business.
        await becomes((OTHER,), leader=OTHER, adding=(me,))
        assert figures() == (0, 0, 0, 0, 0)


async def test_what_others_have_counted_is_told(tmp_path: Path) -> None:
    """That it is counted when it happens: `tests/replication/test_isr_changes.py`, `tests/controller`."""
    async with started(tmp_path) as broker:
        told = Told(broker)
        names = [f"{REPLICAS}{name}_total" for name in ("isrshrinks", "isrexpands", "failedisrupdates")]
        names.append("kafka_controller_controllerstats_uncleanleaderelections_total")
        assert [told[name] for name in names] == [0, 0, 0, 0]
        changes = broker.isr_changes
        changes.shrinks_total, changes.expansions_total, changes.failures_total = 3, 2, 1
        broker.controller._unclean.total = 4
        assert [told[name] for name in names] == [3, 2, 1, 4]


async def test_what_the_controller_counts_follows_who_lives(tmp_path: Path) -> None:
    async with started(tmp_path) as broker:
        told, me = Told(broker), broker.id
        await comes_true("it is the controller", lambda: told[f"{CONTROLLER}activecontrollercount"] == 1)
        cluster = broker.controller.cluster
        assert cluster is not None
        names = ("globalpartitioncount", "offlinepartitionscount", "preferredreplicaimbalancecount")

        def figures() -> tuple[float, ...]:
            return tuple(told[CONTROLLER + name] for name in names)

        cluster.topics[TOPIC] = {0: Known((me, OTHER), state=Stored(me, 0, (me,), 1))}
        assert figures() == (1, 0, 0)
        cluster.topics[TOPIC][1] = Known((OTHER, me), state=Stored(me, 0, (me,), 1))
        assert figures() == (2, 0, 1)
        cluster.topics[TOPIC][2] = Known((OTHER,), state=Stored(OTHER, 0, (OTHER,), 1))
        cluster.topics[TOPIC][3] = Known((OTHER,), state=Stored(-1, 0, (OTHER,), 1))
        assert figures() == (4, 2, 2)
        del cluster.topics[TOPIC]


async def test_thousands_of_partitions_are_told_in_steps(tmp_path: Path) -> None:
    """Partitions that share one log: what is counted is the walk over them, of which each is done once a scrape."""
    with counted() as steps:
        async with started(tmp_path) as broker:
            me = broker.id
            assert await broker.replicas.apply(TOPIC, {0: PartitionState(1, me, 1, (me, OTHER), (me, OTHER), 1)}) == {}
            await comes_true("it is the controller", lambda: broker.controller.is_active)
            cluster, known = broker.controller.cluster, broker.replicas.partitions
            assert cluster is not None
            log = known[TOPIC, 0].log
            state = PartitionState(1, me, 1, (me,), (me, OTHER), 1, (), (OTHER,))
            led = {}
            for index in range(THOUSANDS):
                partition = led[TOPIC, index] = Partition(TOPIC, index, me, log)
                partition.change(state=state, is_leader=True)
            stored = Stored(OTHER, 0, (OTHER,), 1)
            cluster.topics[TOPIC] = {index: Known((me, OTHER), state=stored) for index in range(THOUSANDS)}
            token = broker.server.token()
            broker.server.listen_to(token, lambda *_: None)
            # Nobody answers this one.
            fetcher = Fetcher(
                host="127.0.0.1",
                port=free_port(),
                replica_id=me,
                client_id="f",
                fetch_version=12,
                wait_max_ms=500,
                bytes_min=1,
                response_bytes_max=1 << 20,
                partition_bytes_max=1 << 20,
                batch_bytes_max=1 << 20,
                backoff_ms=1000,
                socket_timeout_ms=1000,
                receive_buffer_bytes=-1,
                quota=broker.throttles.follower,
                large=LargeAnswers(1),
                completions=broker.server.hub.completions,
                token=token,
            )
            fetcher.add([PartitionToFetch(TOPIC, index, log, leader_epoch=1) for index in range(THOUSANDS)])
            # As for a leader that has no address: the broker looks at all of them when metadata change.
            thread = _Thread(OTHER, 0)
            running = SimpleNamespace(fetcher=fetcher, address=None, token=token)
            broker.following._fetchers[thread] = cast("Any", running)
            logs = broker.logs.logs
            broker.replicas.partitions = led
            broker.logs.logs = dict.fromkeys(led, log)
            pages = Pages(Told(broker))
            try:
                # What was prepared above is no step of the broker's.
                await trio.lowlevel.checkpoint()
                steps.reset()
                answer = await pages.answer("GET", "/metrics")
                await trio.lowlevel.checkpoint()
                longest, what = steps.longest, steps.what
            finally:
                broker.replicas.partitions, broker.logs.logs = known, logs
                del broker.following._fetchers[thread]
                fetcher.close()
                del cluster.topics[TOPIC]
    text = b"".join(answer.pieces).decode()
    for line in (
        f"{REPLICAS}reassigningpartitions {THOUSANDS}.0",
        f"{REPLICAS}underreplicatedpartitions {THOUSANDS}.0",
        f"{CONTROLLER}offlinepartitionscount {THOUSANDS}.0",
        f'kafka_log_log_size{{partition="{THOUSANDS - 1}",topic="{TOPIC}"}} 0.0',
    ):
        assert f"{line}\n" in text
    print(f"longest step: {longest} lines: {what}")
    assert longest < STEP_LINES_MAX, what
