"""`ottla user`, with Ottla and with Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramMechanism

from tests.broker.authentication.use import VALUES, read, sasl, sasl_client, write
from tests.cli.conftest import Ottla
from tests.peers.apache import tool
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.clients


def known(bootstrap: str, user: str) -> dict[ScramMechanism, int]:
    """As another client sees it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.describe_user_scram_credentials([user])[user].result(PATIENCE_S)
    return {each.mechanism: each.iterations for each in found.scram_credential_infos}


def test_users_come_and_go(ottla: Ottla, bootstrap: str, tmp_path: Path) -> None:
    server = ("-b", bootstrap)
    file = tmp_path / "password"
    file.write_text("it's secret\nand more\n")
    done = ottla("user", "add", "ann", "--password-file", str(file), *server)
    assert done.out == "user ann can come in by SCRAM-SHA-256 and SCRAM-SHA-512\n"
    assert known(bootstrap, "ann") == {ScramMechanism.SCRAM_SHA_256: 4096, ScramMechanism.SCRAM_SHA_512: 4096}
    one = ("--mechanism", "scram-sha-512", "--iterations", "8192", "--password-file", "-")
    ottla("user", "add", "ben", *one, *server, stdin=b"secret\n")
    listed = ottla("user", "list", *server).out.splitlines()
    assert [line.split() for line in listed if line.startswith(("ann", "ben"))] == [
        ["ann", "4096", "4096"],
        ["ben", "-", "8192"],
    ]
    rows = {
        row["user"]: row["iterations"] for row in ottla("user", "list", "--json", *server).json if isinstance(row, dict)
    }
    assert rows["ben"] == {"SCRAM-SHA-512": 8192}
    shown = ottla("user", "remove", "ann", "--mechanism", "SCRAM-SHA-256", "--dry-run", *server)
    assert shown.out == "to remove: credentials of user ann for SCRAM-SHA-256\n"
    ottla("user", "remove", "ann", "--mechanism", "SCRAM-SHA-256", "-y", *server)
    assert known(bootstrap, "ann") == {ScramMechanism.SCRAM_SHA_512: 4096}
    again = ottla("user", "remove", "ann", "--mechanism", "SCRAM-SHA-256", "-y", *server, code=1)
    assert again.err == "Error: cannot remove credentials of user 'ann': there is none for SCRAM-SHA-256\n"
    for user in ("ann", "ben"):
        assert ottla("user", "remove", user, "-y", *server).out.endswith("for SCRAM-SHA-512\n")
    gone = ottla("user", "remove", "ann", "-y", *server, code=1)
    assert gone.err.startswith("Error: cannot remove credentials of user 'ann': user 'ann': ")


def test_a_password_is_never_an_argument(ottla: Ottla, bootstrap: str, tmp_path: Path) -> None:
    nobody = ottla("user", "add", "ann", "-b", bootstrap, code=2)
    assert "give --password-file FILE, or - for stdin" in nobody.err
    empty = ottla("user", "add", "ann", "--password-file", "-", "-b", bootstrap, stdin=b"\n", code=2)
    assert "the password is empty" in empty.err
    few = ottla("user", "add", "ann", "--iterations", "100", "-b", bootstrap, code=2)
    assert "100 is not in the range 4096<=x<=16384" in few.err
    asked = ottla("user", "remove", "nobody", "-b", bootstrap, code=1)
    assert "cannot remove credentials of user 'nobody'" in asked.err


@pytest.mark.parametrize("user", ["x" * 300, "ben, jr=/½"])
def test_names_may_be_odd(ottla: Ottla, bootstrap: str, user: str) -> None:
    ottla("user", "add", user, "--password-file", "-", "-b", bootstrap, stdin=b"p\n")
    assert len(known(bootstrap, user)) == 2
    ottla("user", "remove", user, "-y", "-b", bootstrap)


def test_a_user_has_a_name(ottla: Ottla, bootstrap: str) -> None:
    done = ottla("user", "add", "", "--password-file", "-", "-b", bootstrap, stdin=b"p\n", code=1)
    assert done.err.startswith("Error: cannot set the password of user '': ")


def test_the_first_user_of_a_broker_alone(ottla: Ottla, brokers: Brokers, tmp_path: Path) -> None:
    """Nobody could come in to make it: not even the broker, at itself."""
    data = tmp_path / "data"
    given = ("--data-dir", str(data), "--password-file", "-", "--mechanism", "SCRAM-SHA-512")
    done = ottla("user", "add", "admin", *given, stdin=b"between\n")
    assert done.out == "user admin can come in by SCRAM-SHA-512\n"
    port = free_port()
    broker = brokers(data=data, port=port, settings=sasl(port, "SCRAM-SHA-512"))
    ours = sasl_client(port, "SCRAM-SHA-512")
    write(ours, "first")
    assert read(ours, "first", len(VALUES)) == VALUES
    busy = ottla("user", "add", "ann", *given, stdin=b"p\n", code=1)
    assert "Error: cannot set the password of user 'ann': " in busy.err
    assert broker.stop() == 0
    ottla("user", "add", "admin", *given, stdin=b"another\n")
    brokers.restart(broker, settings=sasl(port, "SCRAM-SHA-512", "another"))
    assert read({**ours, "sasl.password": "another"}, "first", len(VALUES)) == VALUES


@pytest.mark.java
@pytest.mark.zookeeper
def test_the_first_user_of_a_cluster(ottla: Ottla, zookeeper: str) -> None:
    """Apache Kafka's tool finds it."""
    given = ("--zookeeper", zookeeper, "--password-file", "-", "--iterations", "8192")
    ottla("user", "add", "odd, name", *given, stdin=b"between\n")
    described = tool("2.7.2", "configs", "--zookeeper", zookeeper, "--describe", "--entity-type", "users")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert f"{mechanism}=salt=" in described
    assert described.count("iterations=8192") == 2
    assert "odd, name" in described


def test_a_tree_that_cannot_be_written_to(ottla: Ottla, tmp_path: Path) -> None:
    both = ("--data-dir", str(tmp_path), "--zookeeper", "127.0.0.1:1")
    assert "--data-dir" in ottla("user", "add", "ann", *both, "--password-file", "-", stdin=b"p\n", code=2).err
    (tmp_path / "file").write_text("")
    none = ottla("user", "add", "a", "--data-dir", str(tmp_path / "file"), "--password-file", "-", stdin=b"p\n", code=1)
    assert none.err.startswith("Error: cannot set the password of user 'a': ")
    odd = ottla("user", "add", "..", "--data-dir", str(tmp_path / "d"), "--password-file", "-", stdin=b"p\n", code=1)
    assert "has no place in the coordination tree" in odd.err
