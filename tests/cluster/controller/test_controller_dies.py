"""The broker that is the controller is killed, alone or with the partitions that it leads: another one takes over, with
the next controller epoch, and everybody hears of what it decides.

How long that takes is counted from when its registration is gone. Before that its end was proved, or its session ended.
"""

import time
from dataclasses import replace

import pytest

from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
NEW_CONTROLLER_S = 3.0
NEW_LEADER_S = 2.0
RESIGNED_S = 1.0


def test_the_controller_is_killed(cluster: Cluster) -> None:
    """While another broker leads what is written to."""
    killed_again_and_again(cluster, 1, leads=False)


@pytest.mark.soak
def test_the_controller_is_killed_five_times(cluster: Cluster) -> None:
    judge_times(killed_again_and_again(cluster, 5, leads=False))


@pytest.mark.soak
def test_the_controller_leads_and_is_killed_five_times(cluster: Cluster) -> None:
    judge_times(killed_again_and_again(cluster, 5, leads=True))


@pytest.mark.judge
def test_a_controller_goes_on_after_its_session(cluster: Cluster) -> None:
    """It stood still while another one was elected, and takes itself for the controller: it decides nothing more, and
    says who is.
    """
    stood_still_again_and_again(cluster, 1)


@pytest.mark.soak
def test_controllers_go_on_after_their_sessions_three_times(cluster: Cluster) -> None:
    """They say soon who is the controller."""
    for resigned_s in stood_still_again_and_again(cluster, 3):
        assert resigned_s <= RESIGNED_S


def stood_still_again_and_again(cluster: Cluster, times: int) -> list[float]:
    """Returns the seconds from each end of standing still until the old controller knew the new one."""
    taken = []
    for _ in range(times):
        controller, epoch = cluster.observer.controller()
        old = cluster.broker(controller)
        with (
            Round(cluster, settings.seed(), copies=False, led_by=controller) as load,
            cluster.observer.follow(*load.topics) as chronicle,
        ):
            with old.paused():
                new, later = cluster.another_controls(than=controller)
                assert later == epoch + 1
                state = cluster.led_by_another(load.plain, 0, than=controller)
                load.writes()
            went_on = time.monotonic()
            eventually(
                f"{old.name} knows the new controller",
                lambda old=old.id, new=new: cluster.observer.controller_known_to(old) == new,  # type: ignore[misc]
            )
            resigned_s = time.monotonic() - went_on
            cluster.returns(old)
            cluster.all_in_sync(*load.topics)
            assert cluster.observer.controller() == (new, later)
            everybody_knows(cluster, load)
            load.writes()
            load.finish()
        print(
            f"figures: controller {controller} went on while {new} was it with epoch {later}, and knew that after "
            f"{resigned_s:.2f} s; broker {state.leader} led"
        )
        assert chronicle.moved() > 0
        assert chronicle.unclean() == []
        chronicle.check()
        load.judge(at_least=300)
        logs_equal(cluster.directories, *load.topics)
        taken.append(resigned_s)
    return taken


def judge_times(taken: list[tuple[float, float]]) -> None:
    for elected_s, led_s in taken:
        assert elected_s <= NEW_CONTROLLER_S
        assert led_s <= NEW_CONTROLLER_S + NEW_LEADER_S


def killed_again_and_again(cluster: Cluster, times: int, *, leads: bool) -> list[tuple[float, float]]:
    """Each round of load has topics of its own, so that the broker that leads them can be chosen. Returns the seconds
    from the end of each registration to the new controller and to the new leader.
    """
    taken = []
    for _ in range(times):
        controller, epoch = cluster.observer.controller()
        leader = controller if leads else next(one.id for one in cluster.brokers if one.id != controller)
        with (
            Round(cluster, settings.seed(), copies=False, led_by=leader) as load,
            cluster.observer.follow(*load.topics) as chronicle,
        ):
            cluster.broker(controller).kill()
            gone = cluster.leaves(cluster.broker(controller))
            new, later = cluster.another_controls(than=controller)
            elected_s = time.monotonic() - gone
            assert later == epoch + 1
            state = cluster.led_by_another(load.plain, 0, than=controller)
            led_s = time.monotonic() - gone
            load.writes()
            assert not cluster.broker(controller).running
            everybody_knows(cluster, load)
            known_s = time.monotonic() - gone
            print(
                f"figures: controller {controller} killed, {new} elected {elected_s:.2f} s after its registration, "
                f"broker {state.leader} leads after {led_s:.2f} s, all know after {known_s:.2f} s"
            )
            taken.append((elected_s, led_s))
            cluster.broker(controller).start()
            cluster.all_in_sync(*load.topics)
            load.writes()
            load.finish()
        assert (chronicle.moved() > 0) == leads
        assert chronicle.shrank()
        assert chronicle.unclean() == []
        chronicle.check()
        load.judge(at_least=300)
        logs_equal(cluster.directories, *load.topics)
    return taken


def everybody_knows(cluster: Cluster, load: Round) -> None:
    """Waits until each broker that runs says of the topics what the tree says."""
    for member in cluster.brokers:
        if not member.running:
            continue
        for topic in load.topics:

            def says_so(member: int = member.id, topic: str = topic) -> bool:
                states = cluster.observer.states(topic).items()
                known = cluster.observer.states_known_to(member, topic)
                return all(state is not None and known[index] == replace(state, version=-1) for index, state in states)

            eventually(f"{member.name} knows {topic}", says_so, facts=load.facts)
