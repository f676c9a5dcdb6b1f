"""Nodes of the tree that nobody understands: each costs a log line, and what it says is left out. Everything else is
served, by the same controller.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from ottla.controller import NewTopic, create_topic
from ottla.coordination import znodes
from ottla.coordination.tree import Tree, get_or_none
from ottla.coordination.znodes import TopicAssignment
from ottla.kafka import TopicPartition
from tests.controller.conftest import TestCluster
from tests.controller.fakes import FakeBroker
from tests.support.trees import state_of
from tests.support.waiting import comes_true

pytestmark = pytest.mark.trio
GARBAGE = (b"", b"no json", b"[]", b"{}", b"null", b"\xff\xfe", b"[" * 100_000)
HUGE = 10**40
ASSIGNMENTS = (
    *GARBAGE,
    *(
        json.dumps({"version": 2, "partitions": partitions}).encode()
        for partitions in (
            [],
            None,
            "0",
            {"x": [1]},
            {"-1": [1]},
            {str(2**31): [1]},
            {"0": []},
            {"0": "12"},
            {"0": [1, 1]},
            {"0": [-1]},
            {"0": [HUGE]},
            {"0": [None]},
        )
    ),
    b'{"partitions":{"0":[1e999]}}',
    b'{"partitions":{"0":[1]},"adding_replicas":[]}',
)
STATE = {"controller_epoch": 1, "leader": 1, "leader_epoch": 1, "isr": [1]}
STATES = (
    *GARBAGE,
    *(
        json.dumps(STATE | wrong).encode()
        for wrong in (
            {"leader": -2},
            {"leader": None},
            {"leader": HUGE},
            {"leader_epoch": -1},
            {"leader_epoch": 2**31 - 1},
            {"isr": "1"},
            {"isr": [1, 1]},
            {"isr": [-1]},
            {"isr": None},
            {"controller_epoch": -5},
            {"controller_epoch": []},
        )
    ),
)
NAME = {"listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"}, "version": 5}
REGISTRATIONS = (
    *GARBAGE,
    *(
        json.dumps(NAME | wrong).encode()
        for wrong in (
            {"endpoints": None},
            {"endpoints": [5]},
            {"endpoints": ["PLAINTEXT"]},
            {"endpoints": ["PLAINTEXT://h:1e3"]},
            {"endpoints": ["PLAINTEXT://h:65536"]},
            {"endpoints": ["PLAINTEXT://h\0:9092"]},
            {"endpoints": ["PLAINTEXT://" + "h" * 64 + ":9092"]},
            {"endpoints": ["PLAINTEXT://h:9092"], "rack": 5},
            {"endpoints": ["PLAINTEXT://h:9092"], "listener_security_protocol_map": [5]},
            {"endpoints": ["PLAINTEXT://h:9092"], "listener_security_protocol_map": {"PLAINTEXT": 0}},
            {"version": 1, "host": 5, "port": 9092},
        )
    ),
)
NOTIFICATIONS = (
    *GARBAGE,
    b'{"partitions":[5]}',
    b'{"partitions":[{"topic":[],"partition":0}]}',
    b'{"partitions":[{"topic":"t","partition":"x"}]}',
    b'{"partitions":[{"topic":"t","partition":-1}]}',
    b'{"partitions":[{"topic":"t","partition":0,"replicas":"12"}]}',
    b'{"broker":"x"}',
    b'{"broker":1e999}',
)


def hostile(path: str, rows: tuple[bytes, ...]) -> dict[str, bytes]:
    return {path.format(number): row for number, row in enumerate(rows)}


NODES = {
    **hostile(znodes.topic_path("bad{}"), ASSIGNMENTS),
    **hostile(znodes.config_path("topics", "bad{}"), GARBAGE),
    **hostile(znodes.broker_path(70) + "{}", REGISTRATIONS),
    **{znodes.topic_path(name): b'{"partitions":{"0":[1]}}' for name in ("a b", "x" * 250, "\u00e9")},
    **{f"{znodes.BROKER_IDS}/{name}": b"{}" for name in ("x", "-5", "1e3", "\u0665", "9" * 5000)},
}
PASSING = {
    **hostile(znodes.ISR_CHANGES + "/isr_change_000000000{}", NOTIFICATIONS),
    **hostile(znodes.LOG_DIR_EVENTS + "/log_dir_event_000000000{}", NOTIFICATIONS),
    **hostile(znodes.delete_topic_path("bad{}"), GARBAGE),
    znodes.delete_topic_path("a b"): b"",
}
"""Those that are removed when they were looked at."""


async def write(tree: Tree, nodes: dict[str, bytes]) -> None:
    for path, data in nodes.items():
        await tree.create(path, data)


async def serves(cluster: TestCluster, broker: FakeBroker, topic: str) -> None:
    await create_topic(cluster.admin, NewTopic(topic, assignment={0: (1,)}))
    await broker.until(lambda: broker.metadata(topic).keys() == {0} and broker.metadata(topic)[0].leader == 1)


async def are_gone(tree: Tree, paths: dict[str, bytes]) -> None:
    for path in paths:
        while await get_or_none(tree, path) is not None:
            pass


def lines(caplog: pytest.LogCaptureFixture) -> Counter[str]:
    return Counter(record.getMessage() for record in caplog.records if record.levelname == "ERROR")


@pytest.mark.parametrize("first", [True, False])
async def test_every_node_costs_one_line(cluster: TestCluster, caplog: pytest.LogCaptureFixture, first: bool) -> None:
    broker = await cluster.broker(1)
    if not first:
        controller = cluster.controller(broker)
        await serves(cluster, broker, "before")
    await write(cluster.admin, NODES | PASSING)
    if first:
        controller = cluster.controller(broker)
    await serves(cluster, broker, "t")
    await are_gone(cluster.admin, PASSING)
    await serves(cluster, broker, "u")
    assert controller.epoch == 1
    assert controller.cluster is not None
    assert controller.cluster.topics.keys() == {"t", "u"} | (set() if first else {"before"})
    assert controller.cluster.brokers.keys() == {1}
    said = lines(caplog)
    assert {message: times for message, times in said.items() if times > 1} == {}
    for path in NODES:
        if not path.startswith(znodes.CONFIG):
            name = path.rpartition("/")[2]
            assert any(path[:80] in message or f'"{name}"' in message or f": {name}" in message for message in said), (
                path
            )


async def test_states_that_nobody_understands(cluster: TestCluster, caplog: pytest.LogCaptureFixture) -> None:
    """Their partitions go without a controller until the nodes are put right, and nobody writes there."""
    tree = cluster.admin
    bad = {number: znodes.state_path("t", number) for number in range(len(STATES))}
    good = len(bad)
    await tree.create(znodes.topic_path("t"), TopicAssignment(dict.fromkeys([*bad, good], (1,))).encode())
    await tree.create(znodes.partitions_path("t"))
    for number, path in bad.items():
        await tree.create(znodes.partition_path("t", number))
        await tree.create(path, STATES[number])
    broker = await cluster.broker(1)
    controller = cluster.controller(broker)
    await broker.until(lambda: broker.metadata("t").keys() == {good})
    two = await cluster.broker(2)
    await two.until(lambda: two.live_brokers() == [1, 2])
    await cluster.kill(two)
    await broker.until(lambda: broker.live_brokers() == [1])
    assert controller.epoch == 1
    assert [node.data for node in await tree.get_many([*bad.values()]) if node is not None] == [*STATES]
    assert [path for path in bad.values() if sum(path in line for line in lines(caplog).elements()) != 1] == []
    for path in bad.values():
        await tree.set(path, json.dumps(STATE).encode())
    await cluster.restart(broker)
    cluster.controller(broker)
    await broker.until(lambda: broker.metadata("t").keys() == {*range(good + 1)})
    assert {state.leader for state in broker.metadata("t").values()} == {1}


async def test_a_state_that_is_overwritten(cluster: TestCluster) -> None:
    one, two = await cluster.broker(1), await cluster.broker(2)
    controller = cluster.controller(one)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (2, 1), 1: (2, 1)}))
    await one.until(lambda: one.metadata("t").keys() == {0, 1})
    await cluster.admin.set(znodes.state_path("t", 0), b"no json")
    await cluster.kill(two)
    await one.until(lambda: one.metadata("t")[1].leader == 1)
    assert controller.epoch == 1
    assert (await state_of(cluster.admin, "t", 1)).leader == 1


@pytest.mark.parametrize("path", [znodes.REASSIGN_PARTITIONS, znodes.PREFERRED_REPLICA_ELECTION])
async def test_what_tools_ask_for(cluster: TestCluster, path: str) -> None:
    broker = await cluster.broker(1)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (1,)}))
    await cluster.admin.create(path, NOTIFICATIONS[0])
    controller = cluster.controller(broker)
    await are_gone(cluster.admin, {path: NOTIFICATIONS[0]})
    for data in NOTIFICATIONS[1:]:
        await cluster.admin.create(path, data)
        await are_gone(cluster.admin, {path: data})
    await serves(cluster, broker, "u")
    assert controller.epoch == 1


async def test_a_topic_is_overwritten_while_it_is_moved(cluster: TestCluster) -> None:
    one = await cluster.broker(1)
    await cluster.broker(2)
    controller = cluster.controller(one)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (1, 2)}))
    await one.until(lambda: one.metadata("t").keys() == {0})
    await cluster.admin.set(znodes.topic_path("t"), b"no json")
    await controller.reassign({TopicPartition("t", 0): (2, 1)})
    await serves(cluster, one, "u")
    assert controller.epoch == 1


async def test_settings_that_nobody_understands_allow_no_unclean_election(cluster: TestCluster) -> None:
    one, two = await cluster.broker(1), await cluster.broker(2)
    controller = cluster.controller(one)
    for topic in ("t", "u"):
        await create_topic(
            cluster.admin, NewTopic(topic, assignment={0: (2, 1)}, config={"unclean.leader.election.enable": "true"})
        )
        await one.until(lambda topic=topic: one.metadata(topic).keys() == {0})  # type: ignore[misc]
        state = await cluster.admin.get(znodes.state_path(topic, 0))
        alone = json.dumps(json.loads(state.data) | {"isr": [2]}).encode()
        await cluster.admin.set(znodes.state_path(topic, 0), alone)
    await cluster.admin.set(znodes.config_path("topics", "t"), b"no json")
    change = znodes.encode_isr_change([TopicPartition("t", 0), TopicPartition("u", 0)])
    await cluster.admin.create(znodes.ISR_CHANGE_PREFIX, change, sequential=True)
    await one.until(lambda: one.metadata("t")[0].isr == one.metadata("u")[0].isr == [2])
    await cluster.kill(two)
    await one.until(lambda: one.metadata("u")[0].leader == 1)
    await one.until(lambda: one.metadata("t")[0].leader == -1)
    assert controller.epoch == 1


@pytest.mark.parametrize("data", [b"", b"no json", b'{"brokerid":-1}'])
async def test_a_controller_that_nobody_understands_is_waited_for(
    cluster: TestCluster, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    """Somebody holds the place. When the node is removed there is an election."""
    await cluster.admin.create(znodes.CONTROLLER, data)
    broker = await cluster.broker(1)
    controller = cluster.controller(broker)
    await comes_true("a line", lambda: bool(lines(caplog)))
    assert controller.active_id is None
    assert not controller.is_active
    await cluster.admin.delete(znodes.CONTROLLER)
    await serves(cluster, broker, "t")
    assert sum(lines(caplog).values()) == 1


@pytest.mark.parametrize("data", [b"", b"x", b"-1", b"1.5", b"%d" % (2**31 - 1), b"9" * 5000])
async def test_without_an_epoch_there_is_no_election(
    cluster: TestCluster, caplog: pytest.LogCaptureFixture, autojump_clock: object, data: bytes
) -> None:
    """It is looked at again and again, and said once. Put right, somebody is elected."""
    await cluster.admin.create(znodes.CONTROLLER_EPOCH, data)
    broker = await cluster.broker(1)
    controller = cluster.controller(broker)
    await comes_true("a line", lambda: bool(lines(caplog)))
    assert not controller.is_active
    await cluster.admin.set(znodes.CONTROLLER_EPOCH, b"7")
    await comes_true("an election", lambda: controller.epoch == 8)
    assert sum(lines(caplog).values()) == 1
