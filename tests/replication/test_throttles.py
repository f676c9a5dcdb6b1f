"""The settings of throttled replication, as a broker understands them."""

import pytest

from ottla.config import BrokerConfig, TopicConfig
from ottla.replication.throttles import LOOK_MS, Throttles, throttled

ME, OTHER = 3, 4
PARTITIONS = range(4)


@pytest.mark.parametrize(
    ("replicas", "partitions"),
    [
        ([], set()),
        (["*"], None),
        (["0:3", "1:4", "2:3"], {0, 2}),
        (["0:33", "3:4"], set()),
        (["0:3", ""], {0}),
        (["0:3", "9999999999:3", "1:9999999999"], {0}),
    ],
)
def test_which_partitions_a_list_means_on_this_broker(replicas: list[str], partitions: set[int] | None) -> None:
    assert throttled(replicas, ME) == partitions


def topic(**replicas: str) -> TopicConfig:
    given = {f"{side}.replication.throttled.replicas": value for side, value in replicas.items()}
    return TopicConfig.from_broker(BrokerConfig(), given)


def test_each_side_has_its_list_and_its_rate() -> None:
    throttles = Throttles(ME, BrokerConfig().with_dynamic({"leader.replication.throttled.rate": "1"}, {}))
    throttles.topic_changed("t", topic(leader="0:3,1:3", follower="2:3"))
    of = [
        [index for index in PARTITIONS if quota.is_throttled("t", index)]
        for quota in (throttles.leader, throttles.follower)
    ]
    assert of == [[0, 1], [2]]
    for quota in (throttles.leader, throttles.follower):
        quota.record(1_000_000)
    assert (throttles.leader.is_exceeded, throttles.follower.is_exceeded) == (True, False)
    throttles.topic_changed("t", topic())
    assert not throttles.leader.is_used
    assert not throttles.follower.is_used


def test_rates_change_and_go() -> None:
    throttles = Throttles(ME, BrokerConfig())
    throttles.topic_changed("t", topic(leader="*", follower="*"))
    for own, exceeded in (({"follower.replication.throttled.rate": "1"}, True), ({}, False)):
        throttles.rates_changed(BrokerConfig().with_dynamic(own, {}))
        throttles.follower.record(1_000_000)
        assert throttles.follower.is_exceeded is exceeded


def test_the_windows_settings_say_for_how_long_is_remembered_what_went() -> None:
    """Nobody waits for more than ten times as long as all samples take."""
    window = {"replication.quota.window.num": "2", "replication.quota.window.size.seconds": "30"}
    config = BrokerConfig.load(None, window)
    throttles = Throttles(ME, config.with_dynamic({"leader.replication.throttled.rate": "100"}, {}))
    throttles.topic_changed("t", topic(leader="*"))
    assert throttles.leader_look_ms == LOOK_MS
    throttles.leader.record(1_000_000)
    assert throttles.leader_look_ms == pytest.approx(600_000, rel=0.01)
