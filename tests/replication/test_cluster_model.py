"""Nothing committed is lost by three replicas, whatever the network does: random runs of a model
(`cluster_model.py`)."""

import os
from typing import Any

import pytest

from tests.replication.cluster_model import Cluster

STEPS = 1500
RUNS = int(os.environ.get("OTTLA_CASES", "60"))


def run(first: int, runs: int, *, steps: int = STEPS, **rules: Any) -> list[Cluster]:
    clusters = []
    for seed in range(first, first + runs):
        cluster = Cluster(seed, **rules)
        try:
            for _ in range(steps):
                cluster.step()
            cluster.rests()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        clusters.append(cluster)
    return clusters


def test_nothing_committed_is_lost() -> None:
    clusters = run(1, RUNS)
    # The runs do what they are for.
    assert sum(len(cluster.committed) for cluster in clusters) > 10 * RUNS
    for what in (
        "elections",
        "truncations",
        "shrinks",
        "expansions",
        "needless_removals",
        "deaths_between",
        "resigned",
        "served",
    ):
        assert sum(getattr(cluster, what) for cluster in clusters) > RUNS // 4, what
    assert sum(cluster.led_anew for cluster in clusters) > 0


def test_who_has_resigned_leads_again() -> None:
    """Without both rules somebody leads by the tree, and nobody in truth."""
    with pytest.raises(AssertionError, match="does not lead in epoch"):
        run(1, 3000, leads_anew=False, renews=False)


def test_a_late_answer_makes_nobody_resign() -> None:
    with pytest.raises(AssertionError, match="does not lead in epoch"):
        # What happens later hides it: another leader is elected.
        run(1, 50_000, steps=100, believes_the_right_answers=False, renews=False, expiries=0.9)


@pytest.mark.parametrize("renews", [True, False])
def test_a_state_that_was_written_later_says_nothing_of_who_has_resigned(renews: bool) -> None:
    """A controller removes the registration of the leader, which registers again. Then the controller writes a state,
    and dies before it looks who is registered.
    """
    cluster = Cluster(0, renews=renews)
    while cluster.messages:
        cluster.messages.pop(0)()
    one = cluster.replicas[1]
    assert one.is_leader
    cluster._unregister(1)
    cluster.look = lambda: None  # type: ignore[method-assign]
    cluster.ask(one)
    cluster.messages.pop(0)()
    assert not one.is_leader
    cluster._write()
    del cluster.look
    cluster.take_over()
    assert (cluster.leader, cluster.epoch) == (1, 0)
    if renews:
        cluster.rests()
        assert cluster.renewed == 1
    else:
        with pytest.raises(AssertionError, match="broker 1 does not lead in epoch 0"):
            cluster.rests()


def test_what_nobody_in_sync_has_lost_survives_power_losses() -> None:
    clusters = run(1, RUNS, power=True)
    assert sum(len(cluster.committed) for cluster in clusters) > 5 * RUNS
    for what in ("power_losses", "refusals", "offers", "orders", "lost"):
        assert sum(getattr(cluster, what) for cluster in clusters) >= RUNS // 20, what


def test_who_may_have_lost_records_does_not_simply_lead() -> None:
    """Without the rule the model loses what another that was in sync had."""
    with pytest.raises(AssertionError, match="seed"):
        run(1, 3000, power=True, suspects=False)


def test_what_anybody_in_sync_has_survives_the_loss_of_disks() -> None:
    clusters = run(1, RUNS, disks=True)
    for what in ("power_losses", "refusals", "offers", "orders", "lost"):
        assert sum(getattr(cluster, what) for cluster in clusters) >= RUNS // 20, what


@pytest.mark.parametrize("rule", ["suspects", "waits_for_all"])
def test_who_has_lost_its_log_does_not_simply_lead(rule: str) -> None:
    """Without the rule the model loses what another that was in sync had."""
    with pytest.raises(AssertionError, match="seed"):
        run(1, 3000, disks=True, **{rule: False})


def test_nobody_alone_vouches_for_what_the_disk_may_lose() -> None:
    """Without the rule a leader that is left alone commits what others were to have, and loses it."""
    with pytest.raises(AssertionError, match="alone vouched"):
        run(1, 3000, power=True, waits_for_disk=False)


def test_the_hub_hands_on_who_is_not_in_sync() -> None:
    """Without the rule a Fetch of such a follower moves the high watermark of a leader that is left alone, whatever the
    disk has.
    """
    with pytest.raises(AssertionError, match="alone vouched"):
        # One run of several hundred shows it: the first that does is soon after these.
        run(600, 3000, power=True, hands_on=False)


def test_a_newer_epoch_says_nothing_of_what_was_committed() -> None:
    """Without the rule an operator has one led that was not in sync, ends in a newer epoch, and has other records than
    the last one in sync has committed.
    """
    assert run(292, 1, power=True)[0].orders > 0
    with pytest.raises(AssertionError, match="replica 2 had 0, and did not lead"):
        run(292, 1, power=True, asks_who_goes_on=False)


def test_a_follower_joins_with_all_of_the_older_epochs() -> None:
    """Without this rule (KAFKA-7128) the model loses what was committed: so it would notice."""
    with pytest.raises(AssertionError, match="seed"):
        run(1, 3000, waits_for_epoch_start=False)


@pytest.mark.parametrize("forgets_followers", [True, False])
def test_what_a_follower_had_in_an_older_epoch_counts_for_nothing(forgets_followers: bool) -> None:
    """Broker 1 leads, and 3 has three records of it. Then 2 leads for an epoch of which 1 never hears, and 3 cuts off
    what 2 does not have. Broker 1 leads again: those records are not in 3 any more.
    """
    cluster = Cluster(0, forgets_followers=forgets_followers)
    one, three = cluster.replicas[1], cluster.replicas[3]

    def deliver() -> None:
        while cluster.messages:
            cluster.messages.pop(0)()

    deliver()
    cluster.rng.randint = lambda low, high: high  # type: ignore[method-assign]
    for _ in range(3):
        cluster.produce(one)
    for _ in range(2):
        cluster.fetch(three)
        deliver()
    assert one.in_sync is not None
    assert one.in_sync.followers[3].end_offset == three.end == 3
    cluster.leader, cluster.epoch, cluster.version = 2, 1, 1
    cluster._tell()
    cluster.messages.pop(0)  # to broker 1: lost
    deliver()
    cluster.fetch(three)
    deliver()
    assert three.end == 0
    cluster.leader, cluster.epoch, cluster.isr, cluster.version = 1, 2, (1, 3), 2
    cluster._tell()
    deliver()
    cluster.committed.clear()
    if forgets_followers:
        assert one.high_watermark == 0
        cluster.check()
    else:
        with pytest.raises(AssertionError, match="replica 3 in sync has lost offset 0"):
            cluster.check()
