"""Load on a cluster whose ZooKeepers are away, or most of them, and what must come of it."""

import time
from collections.abc import Sequence

from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster, ZooKeeper
from tests.faults.broker import settings
from tests.support.waiting import PATIENCE_S, eventually

SHORT_OUTAGE_S, OUTAGE_S = 5.0, 20.0
RECOVERY_S = 10.0


def without(cluster: Cluster, zookeepers: Sequence[ZooKeeper], outage_s: float) -> float:
    """Checks that the brokers' earlier decisions hold: writes and reads go on. Nothing new is decided until ZooKeeper
    is back. Returns the seconds from then until a topic was made.
    """
    pids = [member.server.pid for member in cluster.brokers]
    with Round(cluster, settings.seed(), copies=False) as load:
        for zookeeper in zookeepers:
            zookeeper.kill()
        until = time.monotonic() + outage_s
        before = load.acknowledged
        (late,) = load.admin.create_topics([load.new(load.prefix + "late")], request_timeout=outage_s / 2).values()
        while time.monotonic() < until:
            writes_unseen(load)
        during = load.acknowledged - before
        assert late.exception() is not None
        for zookeeper in zookeepers:
            zookeeper.start(wait=False)
        for zookeeper in zookeepers:
            zookeeper.ready()
        back = time.monotonic()
        (made,) = load.admin.create_topics([load.new(load.prefix + "after")]).values()
        made.result(PATIENCE_S)
        took_s = time.monotonic() - back
        for member in cluster.brokers:
            cluster.returns(member)
        cluster.all_in_sync(*load.topics, load.prefix + "after")
        load.writes()
        load.finish()
    print(
        f"figures: {during} records acknowledged without ZooKeeper, a topic was made {took_s:.1f} s after it was back"
    )
    assert during > 100
    assert [member.server.pid for member in cluster.brokers] == pids
    load.judge(at_least=300)
    logs_equal(cluster.directories, *load.topics)
    return took_s


def writes_unseen(load: Round) -> None:
    """Each writer is told of more; what the tree says cannot be asked."""
    wanted = [writer.acknowledged + 20 for writer in load.writers]
    eventually(
        "writes go on without ZooKeeper",
        lambda: all(writer.acknowledged >= least for writer, least in zip(load.writers, wanted, strict=True)),
        facts=lambda: [writer.acknowledged for writer in load.writers],
    )
