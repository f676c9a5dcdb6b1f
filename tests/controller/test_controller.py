"""The controller over a real tree, telling brokers that listen on real sockets."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from ottla.controller import NewTopic, create_partitions, create_topic, delete_topics
from ottla.controller.configs import set_topic_config
from ottla.coordination import znodes
from ottla.coordination.tree import SessionExpired
from ottla.coordination.znodes import PartitionState
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR
from ottla.wire.k06_update_metadata import UPDATE_METADATA
from tests.controller.conftest import TestCluster
from tests.support.trees import state_of
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio


async def test_a_cluster_of_one_creates_a_topic(cluster: TestCluster) -> None:
    broker = await cluster.broker(0)
    controller = cluster.controller(broker)
    await broker.until(lambda: broker.live_brokers() == [0])
    assert controller.is_active
    assert controller.epoch == 1

    await create_topic(cluster.admin, NewTopic("t", 3, 1))
    await broker.until(lambda: len(broker.metadata("t")) == 3)
    for number in range(3):
        role = broker.roles("t")[number]
        assert (role.leader, role.leader_epoch, role.isr, role.replicas) == (0, 0, [0], [0])
        assert role.is_new
        assert role.controller_epoch == 1
        assert await state_of(cluster.admin, "t", number) == PartitionState(0, 0, (0,), 1)
    request = broker.of(LEADER_AND_ISR)[-1]
    assert request.controller_id == 0
    assert broker.registration is not None
    assert request.broker_epoch == broker.registration.epoch
    assert [(leader.broker_id, leader.port) for leader in request.live_leaders] == [(0, broker.port)]
    assert [recorded.client_id for recorded in broker.received] == ["0"] * len(broker.received)
    assert {(recorded.api.key, recorded.version) for recorded in broker.received} == {(4, 4), (6, 6)}


async def test_a_replica_is_new_until_its_broker_was_told_of_it(cluster: TestCluster) -> None:
    """Only a new one may make its log while a log directory is offline: another's may be there."""
    one, two = await cluster.broker(1), await cluster.broker(2)
    cluster.controller(one)
    await one.until(lambda: one.live_brokers() == [1, 2])
    await cluster.kill(two)
    await one.until(lambda: one.live_brokers() == [1])
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (1, 2)}))
    await one.until(lambda: 0 in one.roles("t"))
    assert one.roles("t")[0].is_new
    for is_new in (True, False):
        two.received.clear()
        await cluster.restart_dead(two)
        await two.until(lambda: 0 in two.roles("t"))
        assert two.roles("t")[0].is_new is is_new
        await cluster.kill(two)
        await one.until(lambda: one.live_brokers() == [1])
    await cluster.restart_dead(two)
    await two.until(lambda: two.live_brokers() == [1, 2])
    await delete_topics(cluster.admin, ["t"])
    await two.until(lambda: 0 in two.stopped("t"))


async def test_partitions_are_added(cluster: TestCluster) -> None:
    broker = await cluster.broker(0)
    cluster.controller(broker)
    await create_topic(cluster.admin, NewTopic("t", 1, 1))
    await broker.until(lambda: len(broker.metadata("t")) == 1)
    await create_partitions(cluster.admin, "t", 4)
    await broker.until(lambda: len(broker.metadata("t")) == 4)
    newest = broker.of(LEADER_AND_ISR)[-1].topic_states[0].partition_states
    assert [state.partition_index for state in newest] == [1, 2, 3]


async def test_a_topic_is_deleted_when_every_replica_is(cluster: TestCluster) -> None:
    one, two = await cluster.broker(1), await cluster.broker(2)
    cluster.controller(one)
    await create_topic(cluster.admin, NewTopic("t", 4, 2))
    await create_topic(cluster.admin, NewTopic("kept", 1, 2))
    await two.until(lambda: len(two.metadata("t")) == 4 and len(two.metadata("kept")) == 1)
    two.silent = True
    assert await delete_topics(cluster.admin, ["t"]) == {"t": None}
    await one.until(lambda: len(one.stopped("t")) == 4)
    assert {(state.leader_epoch, state.delete_partition) for state in one.stopped("t").values()} == {(-2, True)}
    assert one.metadata("t") == {}
    assert await cluster.admin.exists(znodes.topic_path("t")) is not None

    gone = trio.Event()
    await cluster.admin.exists(znodes.topic_path("t"), lambda _: gone.set())
    two.speak()
    with trio.fail_after(PATIENCE_S):
        await gone.wait()
    for path in (znodes.topic_path("t"), znodes.config_path("topics", "t"), znodes.delete_topic_path("t")):
        assert await cluster.admin.exists(path) is None
    assert await cluster.admin.children(znodes.TOPICS) == ["kept"]

    await create_topic(cluster.admin, NewTopic("t", 1, 1))
    await one.until(lambda: len(one.metadata("t")) == 1)


async def test_deletion_waits_for_a_broker_that_is_away(cluster: TestCluster) -> None:
    one, two = await cluster.broker(1), await cluster.broker(2)
    cluster.controller(one)
    await create_topic(cluster.admin, NewTopic("t", 1, 2))
    await one.until(lambda: len(one.metadata("t")) == 1)
    await cluster.kill(two)
    await one.until(lambda: one.live_brokers() == [1])
    await delete_topics(cluster.admin, ["t"])
    await one.until(lambda: len(one.stopped("t")) == 1)
    assert await cluster.admin.exists(znodes.topic_path("t")) is not None
    gone = trio.Event()
    await cluster.admin.exists(znodes.topic_path("t"), lambda _: gone.set())
    two.received.clear()
    await cluster.restart_dead(two)
    with trio.fail_after(PATIENCE_S):
        await gone.wait()
    assert two.stopped("t")[0].delete_partition
    assert two.roles("t") == {}


async def test_a_mark_for_a_topic_that_is_not_there_is_removed(cluster: TestCluster) -> None:
    broker = await cluster.broker(0)
    cluster.controller(broker)
    await broker.until(lambda: broker.live_brokers() == [0])
    gone = trio.Event()
    await cluster.admin.create(znodes.delete_topic_path("nothing"))
    await cluster.admin.exists(znodes.delete_topic_path("nothing"), lambda _: gone.set())
    if await cluster.admin.exists(znodes.delete_topic_path("nothing")) is not None:
        with trio.fail_after(PATIENCE_S):
            await gone.wait()


async def test_the_leader_moves_when_its_broker_dies(cluster: TestCluster) -> None:
    one, two, three = [await cluster.broker(number) for number in (1, 2, 3)]
    cluster.controller(one)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (3, 2, 1), 1: (1, 3, 2)}))
    await two.until(lambda: len(two.metadata("t")) == 2)
    assert two.roles("t")[0].leader == 3
    await cluster.kill(three)
    await two.until(lambda: two.live_brokers() == [1, 2] and two.metadata("t")[0].leader == 2)
    assert await state_of(cluster.admin, "t", 0) == PartitionState(2, 1, (2, 1), 1)
    assert await state_of(cluster.admin, "t", 1) == PartitionState(1, 1, (1, 2), 1)
    role = two.roles("t")[0]
    assert (role.leader, role.leader_epoch, role.isr, role.zk_version, role.is_new) == (2, 1, [2, 1], 1, False)
    assert two.metadata("t")[0].offline_replicas == [3]

    three.received.clear()
    await cluster.restart_dead(three)
    await three.until(lambda: len(three.metadata("t")) == 2 and len(three.roles("t")) == 2)
    # It follows now, and is told so without a new epoch.
    assert three.roles("t")[0].leader == 2
    assert three.roles("t")[0].leader_epoch == 1
    await two.until(lambda: two.live_brokers() == [1, 2, 3])


async def test_a_bounced_broker_is_out_of_the_isr_and_gets_its_roles_again(cluster: TestCluster) -> None:
    """The same id with another czxid: it left and came, even if nobody looked in between."""
    one, two = await cluster.broker(1), await cluster.broker(2)
    cluster.controller(one)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (2, 1)}))
    await two.until(lambda: len(two.metadata("t")) == 1)
    await cluster.restart(two)
    epoch = two.registration.epoch if two.registration else -1
    await two.until(
        lambda: (
            any(message.broker_epoch == epoch for message in two.of(LEADER_AND_ISR)) and two.roles("t")[0].leader == 1
        )
    )
    assert await state_of(cluster.admin, "t") == PartitionState(1, 1, (1,), 1)
    assert {message.broker_epoch for message in two.of(LEADER_AND_ISR)} > {epoch}


async def test_no_leader_is_left_and_the_last_in_sync_replica_may_lead_again(cluster: TestCluster) -> None:
    one, two = await cluster.broker(1), await cluster.broker(2)
    cluster.controller(one)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (2,)}))
    await one.until(lambda: len(one.metadata("t")) == 1)
    await cluster.kill(two)
    await one.until(lambda: one.metadata("t")[0].leader == -1)
    assert await state_of(cluster.admin, "t") == PartitionState(-1, 1, (2,), 1)
    await cluster.restart_dead(two)
    await two.until(lambda: two.roles("t")[0].leader_epoch == 2)
    assert await state_of(cluster.admin, "t") == PartitionState(2, 2, (2,), 1)


@pytest.mark.parametrize("unclean", [False, True])
async def test_unclean_election_only_where_the_topic_allows_it(cluster: TestCluster, unclean: bool) -> None:
    one, two = await cluster.broker(1), await cluster.broker(2)
    controller = cluster.controller(one)
    config = {"unclean.leader.election.enable": "true"} if unclean else {}
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (2, 1)}, config=config))
    await one.until(lambda: len(one.metadata("t")) == 1)
    # Broker 1 fell behind: the leader shrank the ISR and said so.
    shrunk = PartitionState(2, 0, (2,), 1)
    await cluster.admin.set(znodes.state_path("t", 0), shrunk.encode())
    await cluster.admin.create(znodes.ISR_CHANGE_PREFIX, znodes.encode_isr_change([("t", 0)]), sequential=True)
    await one.until(lambda: one.metadata("t")[0].isr == [2])
    await cluster.kill(two)
    await one.until(lambda: one.metadata("t")[0].leader == (1 if unclean else -1))
    expected = PartitionState(1, 1, (1,), 1) if unclean else PartitionState(-1, 1, (2,), 1)
    assert await state_of(cluster.admin, "t") == expected
    assert controller.unclean_elections_total == unclean


@pytest.mark.parametrize("of_topic", [False, True])
async def test_allowing_unclean_elections_elects_where_nobody_leads(cluster: TestCluster, of_topic: bool) -> None:
    one, two = await cluster.broker(1), await cluster.broker(2)
    controller = cluster.controller(one)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (2, 1)}))
    await one.until(lambda: len(one.metadata("t")) == 1)
    await cluster.admin.set(znodes.state_path("t", 0), PartitionState(2, 0, (2,), 1).encode())
    await cluster.admin.create(znodes.ISR_CHANGE_PREFIX, znodes.encode_isr_change([("t", 0)]), sequential=True)
    await one.until(lambda: one.metadata("t")[0].isr == [2])
    await cluster.kill(two)
    await one.until(lambda: one.metadata("t")[0].leader == -1)
    assert controller.unclean_elections_total == 0
    if of_topic:
        await set_topic_config(cluster.admin, "t", {"unclean.leader.election.enable": "true"})
        controller.allow_unclean_elections_of("t")
    else:
        controller.allow_unclean_elections(False)
        controller.allow_unclean_elections(True)
    await one.until(lambda: one.metadata("t")[0].leader == 1)
    assert controller.unclean_elections_total == 1


async def test_an_isr_change_that_was_not_told_is_not_overwritten(cluster: TestCluster) -> None:
    """The leader wrote a new ISR and its broker died before it could say so: decide from what the tree has."""
    one, two = await cluster.broker(1), await cluster.broker(2)
    three = await cluster.broker(3)
    cluster.controller(one)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (2, 1, 3)}))
    await three.until(lambda: len(three.metadata("t")) == 1)
    await cluster.admin.set(znodes.state_path("t", 0), PartitionState(2, 0, (2, 3), 1).encode())
    await cluster.kill(two)
    await three.until(lambda: three.metadata("t")[0].leader == 3)
    assert await state_of(cluster.admin, "t") == PartitionState(3, 1, (3,), 1)


async def test_isr_notifications_are_removed(cluster: TestCluster) -> None:
    broker = await cluster.broker(0)
    cluster.controller(broker)
    await create_topic(cluster.admin, NewTopic("t", 1, 1))
    await broker.until(lambda: len(broker.metadata("t")) == 1)
    gone = trio.Event()
    path = await cluster.admin.create(
        znodes.ISR_CHANGE_PREFIX, znodes.encode_isr_change([("t", 0), ("gone", 1)]), sequential=True
    )
    if await cluster.admin.exists(path, lambda _: gone.set()) is not None:
        with trio.fail_after(PATIENCE_S):
            await gone.wait()
    assert await cluster.admin.children(znodes.ISR_CHANGES) == []


async def test_another_broker_takes_over(cluster: TestCluster) -> None:
    one, two = await cluster.broker(1), await cluster.broker(2)
    first = cluster.controller(one)
    await one.until(lambda: one.live_brokers() == [1, 2])
    second = cluster.controller(two)
    await create_topic(cluster.admin, NewTopic("t", 2, 2))
    await two.until(lambda: len(two.metadata("t")) == 2)
    assert (first.is_active, second.is_active, second.active_id) == (True, False, 1)
    two.received.clear()
    await cluster.kill(one)
    await two.until(lambda: two.live_brokers() == [2] and len(two.roles("t")) == 2)
    assert second.epoch == 2
    assert {message.controller_epoch for message in two.of(LEADER_AND_ISR)} == {2}
    for partition in range(2):
        state = await state_of(cluster.admin, "t", partition)
        assert (state.leader, state.isr) == (2, (2,))


async def test_a_deleted_controller_node_moves_the_controller(cluster: TestCluster) -> None:
    one, two = await cluster.broker(1), await cluster.broker(2)
    first = cluster.controller(one)
    await one.until(lambda: one.live_brokers() == [1, 2])
    second = cluster.controller(two)
    await cluster.admin.delete(znodes.CONTROLLER)
    await one.until(lambda: any(message.controller_epoch == 2 for message in one.of(UPDATE_METADATA)))
    assert first.is_active != second.is_active
    assert 2 in (first.epoch, second.epoch)


async def test_an_expired_session_ends_the_term_and_begins_another(cluster: TestCluster) -> None:
    broker = await cluster.broker(0)
    controller = cluster.controller(broker)
    assert broker.registration is not None
    await create_topic(cluster.admin, NewTopic("t", 1, 1))
    await broker.until(lambda: len(broker.metadata("t")) == 1)
    epoch = broker.registration.epoch
    await cluster.trees[0].expire()
    await broker.until(lambda: any(message.controller_epoch == 2 for message in broker.of(LEADER_AND_ISR)))
    assert controller.epoch == 2
    assert broker.registration.epoch > epoch
    assert await state_of(cluster.admin, "t") == PartitionState(0, 0, (0,), 1), "it never was dead to itself"
    await create_topic(cluster.admin, NewTopic("u", 1, 1))
    await broker.until(lambda: len(broker.metadata("u")) == 1)


async def test_who_is_not_the_controller_registers_again_too(cluster: TestCluster) -> None:
    one, two = await cluster.broker(1), await cluster.broker(2)
    cluster.controller(one)
    await one.until(lambda: one.live_brokers() == [1, 2])
    cluster.controller(two)
    assert two.registration is not None
    epoch = two.registration.epoch
    two.received.clear()
    await cluster.trees[2].expire()
    await two.until(lambda: two.live_brokers() == [1, 2])
    assert two.registration.epoch > epoch


async def test_a_session_that_ends_while_the_broker_registers_is_followed_by_another(cluster: TestCluster) -> None:
    one, two = await cluster.broker(1), await cluster.broker(2)
    cluster.controller(one)
    controller = cluster.controller(two)
    await one.until(lambda: one.live_brokers() == [1, 2])
    tree, registration = cluster.trees[2], two.registration
    assert registration is not None
    register, times = registration.register, 0

    async def unlucky() -> int:
        nonlocal times
        times += 1
        if times == 1:
            await tree.expire()
            raise SessionExpired
        return await register()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registration, "register", unlucky)
        two.received.clear()
        await tree.expire()
        await two.until(lambda: two.live_brokers() == [1, 2])
    assert (times, registration.is_current, controller.active_id) == (2, True, 1)


async def test_a_zombie_controller_writes_nothing(cluster: TestCluster) -> None:
    """Someone else raised the epoch: the next write is refused, the zombie gives its place back and stands again."""
    broker = await cluster.broker(0)
    controller = cluster.controller(broker)
    await broker.until(lambda: broker.live_brokers() == [0])
    await cluster.admin.set(znodes.CONTROLLER_EPOCH, b"7")
    await create_topic(cluster.admin, NewTopic("t", 1, 1))
    await broker.until(lambda: len(broker.metadata("t")) == 1)
    assert controller.epoch == 8
    assert await state_of(cluster.admin, "t") == PartitionState(0, 0, (0,), 8)
    told = {message.controller_epoch for message in broker.of(LEADER_AND_ISR)}
    assert told == {8}, "nothing of the topic was told in the old epoch"


async def test_a_broker_that_does_not_answer_holds_up_nobody(cluster: TestCluster) -> None:
    one, two = await cluster.broker(1), await cluster.broker(2)
    cluster.controller(one)
    await two.until(lambda: two.live_brokers() == [1, 2])
    two.silent = True
    for number in range(3):
        await create_topic(cluster.admin, NewTopic(f"t{number}", 1, 2))
        await one.until(lambda number=number: len(one.metadata(f"t{number}")) == 1)
    assert two.metadata("t0") == {}
    two.speak()
    await two.until(lambda: all(len(two.metadata(f"t{number}")) == 1 for number in range(3)))
    told = [message.topic_states[0].topic_name for message in two.of(LEADER_AND_ISR)]
    assert told == ["t0", "t1", "t2"]


async def test_a_controller_knows_when_all_were_told(cluster: TestCluster) -> None:
    one, two = await cluster.broker(1), await cluster.broker(2)
    controller = cluster.controller(one)
    await two.until(lambda: two.live_brokers() == [1, 2])
    two.silent = True
    await create_topic(cluster.admin, NewTopic("t", 1, 2))
    await one.until(lambda: len(one.metadata("t")) == 1)
    told: list[bool] = []
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def wait() -> None:
            await controller.all_told()
            told.append(bool(two.metadata("t")))

        await trio.testing.wait_all_tasks_blocked(0.05)
        assert told == []
        two.speak()
    assert told == [True]
    # Who is gone is not waited for.
    two.silent = True
    await create_topic(cluster.admin, NewTopic("u", 1, 2))
    await one.until(lambda: len(one.metadata("u")) == 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.all_told)
        await trio.testing.wait_all_tasks_blocked(0.05)
        await cluster.kill(two)


async def test_a_failed_log_directory_moves_the_leader(cluster: TestCluster) -> None:
    one, two = await cluster.broker(1), await cluster.broker(2)
    cluster.controller(one)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (2, 1), 1: (2, 1)}))
    await one.until(lambda: len(one.metadata("t")) == 2)
    two.errors["t", 1] = 56
    await cluster.admin.create(znodes.LOG_DIR_EVENT_PREFIX, znodes.encode_log_dir_event(2), sequential=True)
    await one.until(lambda: one.metadata("t")[1].leader == 1)
    assert one.metadata("t")[1].offline_replicas == [2]
    assert one.metadata("t")[0].leader == 2
    assert await state_of(cluster.admin, "t", 1) == PartitionState(1, 1, (1,), 1)


async def test_a_replica_that_works_again_leads_where_nobody_else_can(cluster: TestCluster) -> None:
    """Its log could not be made at first, for want of descriptors."""
    one = await cluster.broker(1)
    cluster.controller(one)
    one.errors["t", 0] = 56
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (1,)}))
    await one.until(lambda: bool(one.metadata("t")) and one.metadata("t")[0].leader == -1)
    del one.errors["t", 0]
    await cluster.admin.create(znodes.LOG_DIR_EVENT_PREFIX, znodes.encode_log_dir_event(1), sequential=True)
    await one.until(lambda: one.metadata("t")[0].leader == 1)
    assert one.metadata("t")[0].offline_replicas == []
    assert (await state_of(cluster.admin, "t", 0)).leader == 1


async def test_existing_states_are_taken_over(cluster: TestCluster) -> None:
    """A directory that another controller, or Kafka, has served before."""
    await create_topic_by_hand(cluster)
    broker = await cluster.broker(0)
    cluster.controller(broker)
    await broker.until(lambda: len(broker.metadata("t")) == 1)
    role = broker.roles("t")[0]
    assert (role.leader, role.leader_epoch, role.zk_version, role.is_new) == (0, 42, 0, False)
    data = (await cluster.admin.get(znodes.state_path("t", 0))).data
    assert b"leader_recovery_state" in data


async def create_topic_by_hand(cluster: TestCluster) -> None:
    tree = cluster.admin
    await tree.create(znodes.topic_path("t"), b'{"version":3,"topic_id":"abc","partitions":{"0":[0]}}')
    await tree.create(znodes.partitions_path("t"))
    await tree.create(znodes.partition_path("t", 0))
    state = b'{"controller_epoch":9,"leader":0,"version":1,"leader_epoch":42,"isr":[0],"leader_recovery_state":0}'
    await tree.create(znodes.state_path("t", 0), state)


async def test_a_changed_registration_is_told(cluster: TestCluster) -> None:
    broker = await cluster.broker(0)
    cluster.controller(broker)
    await broker.until(lambda: broker.live_brokers() == [0])
    broker.rack = "r1"
    assert broker.registration is not None
    await broker.registration.update()
    await broker.until(lambda: broker.of(UPDATE_METADATA)[-1].live_brokers[0].rack == "r1")


async def test_nodes_that_nobody_understands_stop_nothing_else(cluster: TestCluster) -> None:
    """Written by hand: a topic and a broker that are no JSON, before the election and after."""
    await cluster.admin.create(znodes.topic_path("broken"), b"no json")
    await cluster.admin.create(znodes.broker_path(7), b"no json")
    broker = await cluster.broker(0)
    controller = cluster.controller(broker)
    await cluster.admin.create(znodes.topic_path("broken-too"), b"{}")
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (0,)}))
    await broker.until(lambda: len(broker.metadata("t")) == 1)
    assert broker.live_brokers() == [0]
    assert controller.epoch == 1
    # Put right, it is served.
    await cluster.admin.delete(znodes.topic_path("broken"))
    await create_topic(cluster.admin, NewTopic("broken", assignment={0: (0,)}))
    await broker.until(lambda: len(broker.metadata("broken")) == 1)
