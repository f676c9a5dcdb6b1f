"""Commands at a ZooKeeper whose tree is kept for somebody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from ottla.coordination.digest_md5 import User
from ottla.coordination.login import Login
from tests.cli.conftest import Ottla
from tests.peers.apache import Apache
from tests.peers.secured_zookeeper import PASSWORD, USER, SecuredZooKeeper, jaas
from tests.support.node_rules import Rules, rules
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]
KEPT = frozenset({("sasl", 31), ("world", 1)})
SECRET = frozenset({("sasl", 31)})
ADD = ("--password-file", "-", "--iterations", "4096")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    folder = tmp_path_factory.mktemp("commands")
    with Apache(folder) as apache:
        yield SecuredZooKeeper(apache, folder)


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)


@pytest.fixture
def seen(secured: SecuredZooKeeper) -> Callable[[str], dict[str, Rules]]:
    """The rules of the nodes in a chroot."""

    def found(chroot: str) -> dict[str, Rules]:
        owner = KazooClient(f"{secured.place}/{chroot}")
        Login(User(USER, PASSWORD, "here")).attach(owner)
        owner.start(PATIENCE_S)
        try:
            return rules(owner, USER)
        finally:
            owner.stop()
            owner.close()

    return found


def test_the_first_user_and_rules_are_kept_by_the_jaas_file(
    ottla: Ottla, secured: SecuredZooKeeper, seen: Callable[[str], dict[str, Rules]], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ("--zookeeper", f"{secured.place}/first")
    monkeypatch.setenv("KAFKA_OPTS", secured.java_options)
    ottla("user", "add", "ann", *ADD, *place, stdin=b"secret\n")
    ottla("acl", "add", "--allow", "User:ann", "--operation", "read", "--topic", "t", *place)
    made = seen("first")
    assert made["/config/users/ann"] == SECRET
    assert made["/kafka-acl/Topic/t"] == made["/config/changes/config_change_N"] == KEPT
    assert {path for path, rule in made.items() if rule not in (SECRET, KEPT)} <= {"/consumers"}
    dumped = ottla("tree", "dump", "/config/users", *place)
    assert "/config/users/ann" in dumped.out
    monkeypatch.delenv("KAFKA_OPTS")
    for command in ("user", "add", "eve", *ADD), ("tree", "dump", "/config/users"):
        refused = ottla(*command, *place, stdin=b"secret\n", code=1)
        assert refused.err.startswith("Error: cannot ")
        assert "NoAuth" in refused.err


@pytest.mark.parametrize("option", ["--zookeeper-config", "--zk-tls-config-file"])
def test_a_brokers_file_says_who_to_be(
    ottla: Ottla, secured: SecuredZooKeeper, seen: Callable[[str], dict[str, Rules]], tmp_path: Path, option: str
) -> None:
    chroot = option.strip("-")
    file = tmp_path / "server.properties"
    # The last two are no concern of a command that asks no broker.
    file.write_text(f"zookeeper.sasl.jaas.config={jaas()}\nlisteners=nonsense\nprincipal.builder.class=org.example.X\n")
    given = ("--zookeeper", f"{secured.place}/{chroot}", option, str(file))
    ottla("user", "add", "ann", *ADD, *given, stdin=b"secret\n")
    assert seen(chroot)["/config/users/ann"] == SECRET
    ottla("acl", "add", "--allow", "User:ann", "--operation", "read", "--topic", "t", *given)
    assert seen(chroot)["/kafka-acl/Topic/t"] == KEPT
    # It is let in, and sees that nobody has been there.
    assert "no cluster is in ZooKeeper" in ottla("group", "list", *given, code=1).err


def test_who_is_not_let_in_is_told_in_one_line(ottla: Ottla, secured: SecuredZooKeeper, tmp_path: Path) -> None:
    file = tmp_path / "zookeeper.properties"
    place = ("--zookeeper", f"{secured.place}/no", "--zookeeper-config", str(file))
    commands = (("user", "add", "ann", *ADD), ("group", "list"), ("tree", "dump"), ("tree", "import"))
    for text, said in (
        (jaas(password="wrong"), f"ZooKeeper does not know the user {USER} with this password"),
        (jaas(module="com.sun.security.auth.module.Krb5LoginModule"), "Ottla has no Kerberos"),
        ("nonsense", "does not begin with a login module"),
    ):
        file.write_text(f"zookeeper.sasl.jaas.config={text}\n")
        for command in commands:
            refused = ottla(*command, *place, stdin=b"secret\n", code=1)
            (line,) = [line for line in refused.err.splitlines() if line.startswith("Error: ")]
            assert said in line
    absent = ottla("tree", "dump", "--zookeeper", "h:1", "--zookeeper-config", str(tmp_path / "no"), code=2)
    assert "cannot read" in absent.err


def test_the_doctor_sees_a_kept_tree_as_its_owner(
    ottla: Ottla, secured: SecuredZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{secured.place}/looked-at"
    asked = ("doctor", "127.0.0.1:1", "--migration", "--zookeeper", place)
    monkeypatch.setenv("KAFKA_OPTS", secured.java_options)
    ottla("user", "add", "ann", *ADD, "--zookeeper", place, stdin=b"secret\n")
    assert "nothing in it that Kafka 2.7 would not have written" in ottla(*asked, code=2).out
    monkeypatch.delenv("KAFKA_OPTS")
    assert "may be changed by" in (found := ottla(*asked, code=2).out)
    assert "zookeeper.sasl.jaas.config" in found
