"""Shells complete command lines of ottla: commands and options, and the names of topics and groups of the cluster that
the line names.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.cli.completion import SHELLS, VARIABLE
from ottla.client.groups import Committed
from ottla.client.sync import Admin, Cluster
from ottla.kafka import TopicPartition

from .conftest import Ottla

TOPICS = ["clicks", "orders", "orders.late"]
GROUPS = ["billing", "readers"]

Complete = Callable[..., list[str]]


@pytest.fixture(scope="module")
def names(bootstrap: str) -> str:
    """The address of a broker that has these topics and groups."""
    with Cluster(bootstrap) as cluster:
        admin = Admin(cluster)
        for topic in TOPICS:
            admin.create_topic(topic)
        for group in GROUPS:
            admin.groups.commit(group, {TopicPartition("orders", 0): Committed(0)})
    return bootstrap


@pytest.fixture
def complete(ottla: Ottla, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """complete("topic", "describe", "or"): what bash is told for the last word."""

    def ask(*words: str) -> list[str]:
        monkeypatch.setenv(VARIABLE, "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(["ottla", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        done = ottla()
        assert done.err == ""
        return [line.removeprefix("plain,") for line in done.out.splitlines() if line]

    return ask


def test_commands_and_options(complete: Complete) -> None:
    assert complete("com") == ["completion"]
    assert complete("topic", "des") == ["describe"]
    assert "--from-beginning" in complete("consume", "--fr")
    assert complete("completion", "z") == ["zsh"]


@pytest.mark.parametrize(
    "line",
    [
        "acl add User:anna --topic",
        "acl list --topic",
        "bench produce --topic",
        "bench consume --topic",
        "bench latency --topic",
        "consume",
        "generate",
        "group delete -t",
        "group reset billing -t",
        "produce",
        "scrape",
        "topic alter",
        "topic delete",
        "topic describe",
        "topic elect",
        "topic reassign",
        "transaction abort",
        "transaction producers",
        "transaction find-hanging -t",
    ],
)
def test_names_of_topics(complete: Complete, names: str, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", names)
    assert complete(*line.split(), "or") == ["orders", "orders.late"]


@pytest.mark.parametrize(
    "line", ["acl list --group", "consume -g", "group delete", "group describe", "group migrate", "group reset"]
)
def test_names_of_groups(complete: Complete, names: str, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", names)
    assert complete(*line.split(), "b") == ["billing"]


def test_the_cluster_is_the_one_that_the_line_names(
    complete: Complete, names: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free_port: int
) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", f"127.0.0.1:{free_port}")
    assert complete("topic", "describe", "or") == []
    assert complete("topic", "describe", "-b", names, "or") == ["orders", "orders.late"]
    (file := tmp_path / "client.properties").write_text(f"bootstrap.servers={names}\n")
    monkeypatch.delenv("OTTLA_BOOTSTRAP")
    assert complete("topic", "describe", "--command-config", str(file), "or") == ["orders", "orders.late"]


def test_what_was_typed_is_not_offered_again_nor_what_is_internal(complete: Complete, names: str) -> None:
    assert complete("topic", "describe", "-b", names, "orders", "") == ["clicks", "orders.late"]
    assert complete("topic", "describe", "-b", names, "__c") == ["__consumer_offsets"]


def test_a_line_that_is_wrong_has_no_names_and_no_message(complete: Complete, names: str, tmp_path: Path) -> None:
    assert complete("topic", "describe", "-b", "nowhere:x", "or") == []
    nothing = str(tmp_path / "nothing")
    assert set(complete("topic", "describe", "-b", names, "--command-config", nothing, "or")) <= set(TOPICS)


# --- shells ---


def script(shell: str, tmp_path: Path) -> dict[str, str]:
    """The environment of a shell that finds `ottla`, and its script in the file $SCRIPT."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "ottla"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ottla "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    printed = subprocess.run([program, "completion", shell], env=environment, check=True, capture_output=True)
    (tmp_path / "script").write_bytes(printed.stdout)
    return {**environment, "SCRIPT": str(tmp_path / "script")}


def said(command: list[str], environment: dict[str, str]) -> list[str]:
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash(names: str, tmp_path: Path) -> None:
    line = 'source "$SCRIPT"; COMP_WORDS=(ottla topic describe or); COMP_CWORD=3; _ottla_completion ottla; '
    environment = script("bash", tmp_path) | {"OTTLA_BOOTSTRAP": names}
    assert said(["bash", "-c", line + 'echo "${COMPREPLY[@]}"; complete -p ottla'], environment)[:2] == TOPICS[1:]


def test_fish(names: str, tmp_path: Path) -> None:
    environment = script("fish", tmp_path) | {"OTTLA_BOOTSTRAP": names}
    line = 'source "$SCRIPT"; complete -C "ottla topic describe or"'
    assert said(["fish", "--no-config", "-c", line], environment) == TOPICS[1:]


def test_zsh(tmp_path: Path) -> None:
    line = 'autoload -Uz compinit; compinit -u -d "$HOME/dump"; source "$SCRIPT"; print $_comps[ottla]'
    assert said(["zsh", "-fc", line], script("zsh", tmp_path)) == ["_ottla_completion"]


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_asks_by_the_same_variable(ottla: Ottla, shell: str) -> None:
    assert f"{VARIABLE}={shell}_complete" in ottla("completion", shell).out
