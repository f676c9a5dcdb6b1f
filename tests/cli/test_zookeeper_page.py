"""The page of a tree that is kept for its brokers, followed block by block."""

from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError

from ottla.config import properties
from tests.cli.conftest import Ottla
from tests.peers.apache import Apache
from tests.peers.ottla import Brokers
from tests.peers.secured_zookeeper import client
from tests.support import shown
from tests.support.readme import block

SERVERS = "zookeeper-1:2181,zookeeper-2:2181,zookeeper-3:2181/kafka"


@pytest.mark.java
@pytest.mark.zookeeper
def test_a_new_cluster_by_user_and_password(ottla: Ottla, kafka: Apache, brokers: Brokers, tmp_path: Path) -> None:
    users = tmp_path / "jaas.conf"
    users.write_text(block("text", "Server {", "docs/zookeeper.md"))
    ((name, value, _),) = properties.parse(block("properties", "authProvider.1", "docs/zookeeper.md"))
    _, port = kafka.zookeeper_server(settings={name: value}, java_options=f"-Djava.security.auth.login.config={users}")
    place = f"127.0.0.1:{port}/kafka"

    file = tmp_path / "server.properties"
    text = block("properties", "zookeeper.sasl.jaas.config", "docs/zookeeper.md")
    assert SERVERS in text
    file.write_text(text.replace(SERVERS, place))
    password = tmp_path / "password"
    password.write_text("admin's password\n")
    ((program, *command),) = shown.typed(block("sh", "ottla user add", "docs/zookeeper.md"))
    here = {"password": str(password), "server.properties": str(file), "zookeeper-1:2181/kafka": place}
    ottla(program, *(here.get(each, each) for each in command))

    broker = brokers(arguments=("--config", str(file)))
    assert f"ZooKeeper at {place}" in broker.log.read_text()
    nobody = client(place)
    assert nobody.get_children("/brokers/ids")
    for path in "/config/users", "/config/users/admin":
        with pytest.raises(NoAuthError):
            nobody.get_children(path)
    nobody.stop()
    nobody.close()
    assert "the broker keeps what it makes there as the user kafka" in ottla("doctor", "--config", str(file)).out
