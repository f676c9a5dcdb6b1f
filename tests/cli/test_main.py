"""The command line itself: help, mistakes, and that it is quick."""

import gc
import json
import logging
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ottla.cli._errors import explained
from ottla.cli.main import ottla as command
from ottla.errors import InvalidConfig, RequestTimedOut, UnknownTopicOrPartition

from .conftest import Ottla

COMMANDS = [*command.list_commands(None)]  # type: ignore[arg-type]


def test_each_file_is_a_command(ottla: Ottla) -> None:
    assert {"serve", "topic"} <= set(COMMANDS)
    text = ottla("--help").out
    assert all(f"  {name} " in text for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_explains_itself(ottla: Ottla, name: str) -> None:
    assert ottla(name, "--help").out.startswith(f"Usage: ottla {name} ")


def test_an_unknown_command_names_the_nearest(ottla: Ottla) -> None:
    assert "No such command 'srve'; did you mean serve?" in ottla("srve", code=2).err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("topic", "create"), "Missing argument 'NAME'"),
        (("topic", "create", "a", "-p", "0"), "0 is not in the range 1<=x<=2147483647"),
        (("topic", "create", "a", "-s", "x"), "'x' is not NAME=VALUE"),
        (("topic", "alter", "a"), "nothing to change"),
        (("topic", "list", "-b", "nowhere:x"), "--bootstrap"),
        (("serve", "--set", "num.partitions"), "'num.partitions' is not NAME=VALUE"),
        (("serve", "--listen", "9092"), "'9092' is not HOST:PORT"),
        (("serve", "--id", "-1"), "--id"),
    ],
)
def test_a_wrong_command_line(ottla: Ottla, arguments: tuple[str, ...], message: str) -> None:
    assert message in ottla(*arguments, code=2).err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "num.partitons=3"), "no setting is called num.partitons; did you mean num.partitions?"),
        (("--set", "num.partitions=0"), "num.partitions=0: it must be at least 1"),
        (
            ("--set", "listeners=SSL://:9093"),
            "not among the advertised listeners SSL://:9093; set inter.broker.listener.name",
        ),
        (("--config", "/no/such/file"), "cannot read /no/such/file: No such file or directory"),
    ],
)
def test_settings_that_cannot_work_stop_the_start(ottla: Ottla, arguments: tuple[str, ...], message: str) -> None:
    error = ottla("serve", *arguments, code=1).err
    assert message in error
    assert error.startswith("Error: cannot start the broker: ")
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            UnknownTopicOrPartition("topic 'a'"),
            "doing 'a': it does not exist; `ottla topic list` shows the topics that do (UNKNOWN_TOPIC_OR_PARTITION)",
        ),
        (InvalidConfig("topic 'a': x=1: it must be 2"), "doing 'a': x=1: it must be 2 (INVALID_CONFIG)"),
        (InvalidConfig("topic 'b': why"), "doing 'a': topic 'b': why (INVALID_CONFIG)"),
        (RequestTimedOut("late"), "doing 'a': late (REQUEST_TIMED_OUT)"),
        (FileNotFoundError(2, "No such file", "/x"), "doing 'a': /x: No such file"),
        (TimeoutError("127.0.0.1:1 did not answer"), "doing 'a': 127.0.0.1:1 did not answer"),
        (ExceptionGroup("of one", [OSError(98, "Address already in use")]), "doing 'a': Address already in use"),
    ],
)
def test_errors_are_one_line(error: Exception, line: str) -> None:
    with pytest.raises(click.ClickException) as caught, explained("doing 'a'"):
        raise error
    assert caught.value.message == line


def test_mistakes_of_ours_keep_their_traceback() -> None:
    with pytest.raises(ZeroDivisionError), explained("doing"):
        raise ZeroDivisionError
    with pytest.raises(ExceptionGroup), explained("doing"):
        raise ExceptionGroup("two", [OSError("a"), ValueError("b")])


def test_nobody_listening_is_said_at_once(ottla: Ottla, free_port: int) -> None:
    error = ottla("topic", "list", "-b", f"127.0.0.1:{free_port}", code=1).err
    assert f"cannot list topics: no broker answers at 127.0.0.1:{free_port}: Connection refused; " in error
    assert "`ottla serve` starts one" in error


def test_the_broker_is_not_loaded_for_help() -> None:
    """Start time is a feature: what costs it must be imported by those who need it."""
    code = (
        "import sys, json; import ottla.cli.main, ottla.cli.serve, ottla.cli.topic, ottla.config.broker;"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & {
        "trio",
        "rich",
        "kazoo",
        "msgspec",
        "pyarrow",
        "sqlite3",
        "difflib",
        "ottla.config.documentation",
    }


def test_python_dash_m_is_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "--help"], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert done.stdout.startswith("Usage: ottla ")


def test_what_a_command_says_of_the_process_goes_with_it(ottla: Ottla, tmp_path: Path) -> None:
    handlers = logging.getLogger().handlers[:]
    (tmp_path / "data").write_text("no directory")
    ottla("serve", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0", code=1)
    assert logging.getLogger().handlers == handlers
    assert gc.isenabled()
