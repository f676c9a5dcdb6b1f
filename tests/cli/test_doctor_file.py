"""`ottla doctor --config`, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

from ottla.doctor.broker_file import CERTIFICATES, CHECK, FILES, LISTENERS, PASSWORDS, RULES
from tests.cli.conftest import Ottla
from tests.doctor.broker_files import public_folder
from tests.peers.ports import free_port


def test_a_file_alone_is_looked_at(ottla: Ottla) -> None:
    with public_folder() as machine:
        found = json.loads(ottla("doctor", "--json", "--config", str(machine.write()), code=1).out)
        assert found["target"] == str(machine.folder / "server.properties")
    assert {each["check"] for each in found["findings"]} == {CHECK, CERTIFICATES, LISTENERS, PASSWORDS, FILES, RULES}


def test_a_file_and_a_cluster(ottla: Ottla) -> None:
    with public_folder() as machine:
        address = f"127.0.0.1:{free_port()}"
        found = json.loads(ottla("doctor", address, "--json", "--config", str(machine.write()), code=2).out)
    checks = [each["check"] for each in found["findings"]]
    assert "port" in checks
    assert CHECK in checks


def test_a_file_that_is_absent(ottla: Ottla, tmp_path: Path) -> None:
    assert "absent" in ottla("doctor", "--config", str(tmp_path / "absent"), code=2).out
