"""The image and the compose file: each command is one that a broker takes, each path is there, and the health check
says how a broker is. No image is built here.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from ottla.cli._settings import assignments
from ottla.cli.main import ottla
from ottla.config.broker import BrokerConfig
from tests.peers.ports import free_port
from tests.peers.skips import module
from tests.support.waiting import PATIENCE_S, eventually

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "packaging" / "container"
FILE = (FOLDER / "Containerfile").read_text().replace("\\\n", " ")
LAST_STAGE = FILE.rpartition("\nFROM ")[2]


def instruction(name: str) -> str:
    """The arguments of the one instruction of this name in the image's last stage."""
    (found,) = re.findall(rf"^{name} +(.+)$", LAST_STAGE, re.MULTILINE)
    return str(found)


def listed(name: str) -> list[str]:
    return [str(each) for each in json.loads(instruction(name))]


def options(command: list[str]) -> dict[str, Any]:
    program, name, *arguments = command
    assert program == "ottla"
    found = ottla.get_command(click.Context(ottla), name)  # type: ignore[attr-defined]
    return dict(found.make_context(name, arguments).params)


def settings(command: list[str]) -> BrokerConfig:
    """The settings that a broker with this command line has. An unknown name is an error."""
    given = options(command)
    others = {"log.dirs": given["data_dir"]}
    if given["zookeeper"]:
        others |= {"zookeeper.connect": given["zookeeper"], "broker.id": str(given["broker_id"])}
    config = BrokerConfig.load(None, {**assignments(given["settings"]), **others})
    # A container listens on every address; `podman run -p` says who reaches it.
    assert [each for each in config.warnings if "listens on every address" not in each] == []
    return config


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = module("clients", "strictyaml").load((FOLDER / "compose.yaml").read_text()).data
    return loaded


def health() -> str:
    return json.loads(instruction("HEALTHCHECK").partition(" CMD ")[2])[-1]  # type: ignore[no-any-return]


def test_the_process_is_no_root_and_writes_in_one_place() -> None:
    user, volume = instruction("USER"), instruction("VOLUME")
    assert re.fullmatch(r"(\d+):\1", user)
    assert f"useradd --uid {user.partition(':')[0]} " in LAST_STAGE
    assert f"install --directory --owner=ottla --group=ottla --mode=0750 {volume}" in LAST_STAGE
    assert settings(listed("ENTRYPOINT") + listed("CMD")).data_directories == [volume]


def test_its_ports_and_its_signal_are_those_of_the_command() -> None:
    command = listed("ENTRYPOINT") + listed("CMD")
    ports = {settings(command).listeners[0].port, options(command)["metrics_port"]}
    assert set(map(int, instruction("EXPOSE").split())) == ports
    assert f":{options(command)['metrics_port']}/healthz" in health()
    assert signal.Signals[instruction("STOPSIGNAL")] == signal.SIGTERM


def test_what_is_copied_is_there_and_all_that_the_builder_is_sent() -> None:
    copied = re.findall(r"^COPY (?!--from)(\S+) ", FILE, re.MULTILINE)
    sent = re.findall(r"^!(.+)$", (FOLDER / "Containerfile.dockerignore").read_text(), re.MULTILINE)
    assert sorted(sent) == sorted(copied)
    assert [path for path in copied if not path.startswith("dist/") and not (ROOT / path).is_file()] == []


def test_the_health_check_says_how_the_broker_is(tmp_path: Path) -> None:
    port, metrics_port = free_port(), free_port()
    moved = {"/data": str(tmp_path / "data"), "9404": str(metrics_port)}
    command = [moved.get(each, each) for each in listed("ENTRYPOINT")[1:]]
    check = [sys.executable, FOLDER / "healthy.py", health().replace("9404", str(metrics_port))]
    proxied = {**os.environ, "http_proxy": "http://127.0.0.1:1"}

    def is_healthy() -> bool:
        return subprocess.run(check, capture_output=True, env=proxied, timeout=PATIENCE_S).returncode == 0

    assert not is_healthy()
    command += [each.replace(":9092", f":{port}") for each in listed("CMD")]
    broker = subprocess.Popen([sys.executable, "-m", "ottla", *command], cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        eventually("the broker is healthy", is_healthy)
        broker.send_signal(signal.Signals[instruction("STOPSIGNAL")])
        assert broker.wait(PATIENCE_S) == 0
    finally:
        broker.kill()
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert not is_healthy()


@pytest.mark.clients
def test_the_brokers_of_the_compose_file_are_a_cluster() -> None:
    services = compose()["services"]
    brokers = {name: service for name, service in services.items() if name != "zookeeper"}
    assert len(brokers) == 3
    ids, outside = set(), set()
    for name, service in brokers.items():
        config = settings(listed("ENTRYPOINT") + service["command"])
        ids.add(config.get_int("broker.id"))
        assert config.get_str("zookeeper.connect").partition(":")[0] in services
        told = {endpoint.name: endpoint for endpoint in config.advertised_listeners}
        assert told[config.get_str("inter.broker.listener.name")].host == name
        outside.add(told["OUTSIDE"].port)
        assert service["ports"] == [f"127.0.0.1:{told['OUTSIDE'].port}:{told['OUTSIDE'].port}"]
        assert {endpoint.port for endpoint in config.listeners} == {endpoint.port for endpoint in told.values()}
        assert service["read_only"] == "true"
        assert service["cap_drop"] == ["ALL"]
        (volume,) = service["volumes"]
        assert volume.partition(":")[0] in compose()["volumes"]
        assert volume.partition(":")[2] == instruction("VOLUME")
        assert (FOLDER / service["build"]["context"]).resolve() == ROOT
        assert (ROOT / service["build"]["dockerfile"]).is_file()
    assert (len(ids), len(outside)) == (3, 3)


def test_comments_name_files_that_are_there() -> None:
    for file in (FOLDER / "Containerfile", FOLDER / "compose.yaml"):
        typed = [line.lstrip("# ") for line in file.read_text().splitlines() if re.match("# {3,}", line)]
        named = [word for line in typed for word in shlex.split(line) if word.startswith("packaging/")]
        assert named
        assert [path for path in named if not (ROOT / path).is_file()] == []
