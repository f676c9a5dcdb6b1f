"""The decisions that depend on the version of the protocol between brokers."""

import pytest

from ottla.config import BrokerConfig, InvalidValue
from ottla.config.protocol import OLDEST


@pytest.mark.parametrize(
    ("version", "tells_divergence", "has_alter_isr"),
    [
        ("2.6", False, False),
        ("2.6-IV0", False, False),
        ("2.7-IV0", False, False),
        ("2.7-IV1", True, False),
        ("2.7-IV2", True, True),
        ("2.7", True, True),
        ("2.7.2", True, True),
    ],
)
def test_what_a_version_has(version: str, tells_divergence: bool, has_alter_isr: bool) -> None:
    config = BrokerConfig.load(None, {"inter.broker.protocol.version": version})
    protocol = config.inter_broker_protocol
    assert (protocol.tells_divergence, protocol.has_alter_isr) == (tells_divergence, has_alter_isr)
    assert not config.warnings


def test_without_the_setting_it_is_the_newest() -> None:
    protocol = BrokerConfig.load(None).inter_broker_protocol
    assert (protocol.version, protocol.has_alter_isr) == ("2.7-IV2", True)


def test_an_older_version_acts_as_the_oldest_that_is_spoken() -> None:
    config = BrokerConfig.load(None, {"inter.broker.protocol.version": "2.3"})
    assert not config.inter_broker_protocol.tells_divergence
    (warning,) = config.warnings
    assert f"inter.broker.protocol.version=2.3-IV1 acts as {OLDEST}" in warning


def test_a_newer_version_is_none() -> None:
    with pytest.raises(InvalidValue):
        BrokerConfig.load(None, {"inter.broker.protocol.version": "2.8"})
