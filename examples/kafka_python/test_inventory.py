"""A broker that a test stops and starts, and the files that it leaves."""

from pathlib import Path

import inventory

import ottla
from ottla.log import Log


def test_the_newest_count_is_told(ottla_broker: ottla.Broker, ottla_topic: str) -> None:
    servers = ottla_broker.bootstrap_servers
    inventory.note(servers, ottla_topic, {"pear": 3, "plum": 5})
    inventory.note(servers, ottla_topic, {"pear": 2})
    assert inventory.table(servers, ottla_topic) == {"pear": 2, "plum": 5}


def test_the_table_is_there_after_a_restart(tmp_path: Path) -> None:
    with ottla.Broker(data_dir=tmp_path) as broker:
        broker.create_topic("inventory", settings={"cleanup.policy": "compact"})
        inventory.note(broker.bootstrap_servers, "inventory", {"pear": 3})
        broker.kill()
        broker.start()
        assert inventory.table(broker.bootstrap_servers, "inventory") == {"pear": 3}
    with Log.open(tmp_path / "inventory-0") as log:
        assert [(record.key, record.value) for record in log.records()] == [(b"pear", b"3")]
