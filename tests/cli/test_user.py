"""`ottla user`, with Ottla and with Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramMechanism

from tests.cli.conftest import Ottla
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
