"""Changes of a running broker's listeners with SASL: which are made, and which are refused."""

from __future__ import annotations

from typing import Any

from ottla.wire.k44_incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.authentication.conftest import PLAIN
from tests.broker.authentication.talking import Talk, plain
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.support.client import connect
from tests.support.waiting import eventually

INVALID_REQUEST = 42
NAME = "listener.security.protocol.map"


def alter(broker: Broker, **settings: str) -> tuple[int, str]:
    """Changes several settings of the broker at once."""
    configs = [AlterableConfig(name, 0, value) for name, value in settings.items()]
    resource = AlterConfigsResource(4, str(broker.id), configs)
    with connect(broker) as client:
        answer: Any = client.call(INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest([resource]))
    (row,) = answer.responses
    return row.error_code, row.error_message or ""


def test_open_listeners_stay_and_new_ones_come(brokers: Brokers) -> None:
    first, second, third = free_port(), free_port(), free_port()
    here = "127.0.0.1"
    own = "listener.name.second.plain.sasl.jaas.config"
    given = {
        "listeners": f"PLAINTEXT://{here}:{first},SECOND://{here}:{second}",
        NAME: "PLAINTEXT:PLAINTEXT,SECOND:SASL_PLAINTEXT,THIRD:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        own: f'{PLAIN} required user_alice="a";',
        "password.encoder.secret": "for the tree",
    }
    broker = brokers(broker_id=7, port=first, settings=given)
    for change in (
        {"listener.name.second.sasl.enabled.mechanisms": "SCRAM-SHA-256"},
        {own: f'{PLAIN} required user_alice="b";'},
    ):
        code, said = alter(broker, **change)
        assert code == INVALID_REQUEST
        assert "of a listener that is open only change with a restart, or with another listener" in said
    three = f"{given['listeners']},THIRD://{here}:{third}"
    code, said = alter(broker, listeners=three)
    assert code == INVALID_REQUEST
    assert "listener.name.third.plain.sasl.jaas.config is missing" in said
    login = f'{PLAIN} required user_bob="b";'
    assert alter(broker, **{"listeners": three, "listener.name.third.plain.sasl.jaas.config": login}) == (0, "")

    def comes_in(port: int, user: str, password: str) -> bool:
        with Talk(port) as talk:
            return talk.handshake("PLAIN")[0] == 0 and talk.authenticate(plain(user, password))[0] == 0

    eventually("the third is open", lambda: "listener THIRD://" in broker.log.read_text())
    assert comes_in(third, "bob", "b")
    assert not comes_in(third, "alice", "a")
    assert comes_in(second, "alice", "a")
    broker.stop()
    again = brokers(data=broker.data, broker_id=7, port=first, settings=given)
    assert comes_in(third, "bob", "b"), again.log.read_text()
