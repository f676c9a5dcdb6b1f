"""Commands that meet something else than a broker: one line says what, where, and what to do, and comes at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.strangers import ADVERTISED, HINT, NO_BROKERS, listening, names, offers
from tests.support.waiting import PATIENCE_S

from .conftest import Ottla

FOR_EVER = ("--timeout-ms", f"{100 * PATIENCE_S * 1000:.0f}")

COMMANDS = (
    ("topic", "list"),
    ("topic", "create", "t"),
    ("consume", "t"),
    ("consume", "t", "--group", "g"),
    ("produce", "t"),
    ("group", "list"),
    ("group", "describe", "g"),
    ("transaction", "list"),
    ("broker", "list"),
    ("bench", "produce", "--topic", "t", "--num-records", "1"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_end_at_once(command: tuple[str, ...], ottla: Ottla) -> None:
    behaviour, words = NO_BROKERS["http"]
    waiting = () if command[0] == "bench" else FOR_EVER
    with listening(behaviour) as port:
        error = ottla(*command, "-b", f"127.0.0.1:{port}", *waiting, stdin=b"a\n", code=1).err
    assert error.startswith("Error: cannot ")
    assert f"127.0.0.1:{port} {words}\n" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", ["controller", "future", "tls", "noise", "no metadata"])
def test_what_is_said(name: str, ottla: Ottla) -> None:
    behaviour, words = NO_BROKERS[name]
    with listening(behaviour) as port:
        error = ottla("topic", "list", "-b", f"127.0.0.1:{port}", *FOR_EVER, code=1).err
    assert error.startswith("Error: cannot list topics: ")
    assert words in error
    assert f"127.0.0.1:{port}" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", ADVERTISED)
def test_addresses_that_brokers_name(name: str, ottla: Ottla) -> None:
    address, words = ADVERTISED[name]
    with listening(names([address])) as port:
        error = ottla("group", "list", "-b", f"127.0.0.1:{port}", "--timeout-ms", "200", code=1).err
        assert error.startswith(f"Error: cannot list groups: {words}")
        assert error.endswith(f"{HINT}\n")
        found = ottla("doctor", f"127.0.0.1:{port}", code=2).out
        assert f"it tells clients to come to {words.removesuffix(': ')}" in found


def test_the_doctor(ottla: Ottla) -> None:
    for name in ("controller", "future", "no metadata"):
        behaviour, words = NO_BROKERS[name]
        with listening(behaviour) as port:
            assert words in ottla("doctor", f"127.0.0.1:{port}", code=2).out
    with listening(offers(error_code=-1)) as port:
        assert "refused ApiVersions (UNKNOWN_SERVER_ERROR)" in ottla("doctor", f"127.0.0.1:{port}", code=2).out


def test_mirrors(ottla: Ottla, tmp_path: Path) -> None:
    behaviour, words = NO_BROKERS["http"]
    with listening(behaviour) as port:
        file = tmp_path / "mirror.properties"
        file.write_text(
            f"clusters = A, B\nA.bootstrap.servers = 127.0.0.1:{port}\nB.bootstrap.servers = 127.0.0.1:{port}\n"
            "A->B.enabled = true\nA->B.topics = .*\n"
        )
        error = ottla("mirror", "status", str(file), *FOR_EVER, code=1).err
    assert error == f"Error: cannot show 'A->B': 127.0.0.1:{port} {words}\n"
