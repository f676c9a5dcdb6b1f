"""Files and folders of other programs: one line says what and where, and nothing is changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.foreign_files import FOREIGN, folder_with

from .conftest import Ottla

YAML = b"clusters:\n  - A\n  - B\nA:\n  bootstrap.servers: a:1\n"
JSON = json.dumps({"clusters": ["A", "B"]}).encode()
CONNECT = b"name=m\nconnector.class=org.apache.kafka.connect.mirror.MirrorSourceConnector\ntopics=.*\n"
WORKER = b"bootstrap.servers=a:1\ngroup.id=connect\nkey.converter=x\n"
BROKERS = b"broker.id=1\nlog.dirs=/nowhere\n"
UTF_16 = "clusters = A, B\n".encode("utf-16")


@pytest.mark.parametrize("name", FOREIGN)
def test_a_repair_leaves_them_alone(ottla: Ottla, tmp_path: Path, name: str) -> None:
    folder, file = folder_with(tmp_path, FOREIGN[name])
    for path in (folder, tmp_path):
        error = ottla("log", "repair", str(path), "--yes", code=1).err
        assert error.startswith(f"Error: {file} is no log: it has no batch, and begins with the bytes ")
        assert error.endswith("; nothing was repaired\n")
    assert file.read_bytes() == FOREIGN[name]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("m.yaml", YAML, "it is not written as NAME = VALUE (JSON and YAML are not read, TOML if the name ends with"),
        ("m.json", JSON, "it is not written as NAME = VALUE (JSON and YAML are not read, TOML if the name ends with"),
        ("source.properties", CONNECT, "it is the file of a connector for Kafka Connect, and not that of connect-mirr"),
        ("worker.properties", WORKER, "it is a client's file, or that of a worker of Kafka Connect; "),
        ("server.properties", BROKERS, "it is a broker's file (server.properties); "),
        ("mirror.properties", UTF_16, "it is UTF-16, as some editors of Windows write it; save it as UTF-8"),
        ("mirror.properties", b"a\0b", "it is not a text file: byte 1 is 0"),
        ("mirror.properties", b"", "it names no cluster; say `clusters = A, B`"),
        ("mirror.toml", b"\xff\xfe", "it is not TOML, which is text in UTF-8: byte 0 is not"),
    ],
)
def test_what_is_no_mirrors_file(ottla: Ottla, tmp_path: Path, name: str, content: bytes, words: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    for command in (("mirror", str(file)), ("mirror", "status", str(file))):
        error = ottla(*command, code=1).err
        assert error.startswith("Error: cannot mirror: ")
        assert str(file) in error
        assert words in error
        assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (YAML, " has no setting of a broker, but 'clusters', '-', 'A', ...: is it another program's file? "),
        (JSON, " has no setting of a broker, but '{\"clusters\"': is it another program's file? "),
        (
            CONNECT,
            " has no setting of a broker, but 'name', 'connector.class', 'topics': is it another program's ",
        ),
        (UTF_16, ": it is UTF-16, as some editors of Windows write it; save it as UTF-8"),
        (b"process.roles=broker\nnode.id=1\n", " sets process.roles, so it is for KRaft mode; "),
    ],
)
def test_what_is_no_brokers_file(ottla: Ottla, tmp_path: Path, content: bytes, words: str) -> None:
    file, data = tmp_path / "server.properties", tmp_path / "data"
    file.write_bytes(content)
    error = ottla("serve", "--config", str(file), "--data-dir", str(data), code=1).err
    assert f"cannot start the broker: {file}{words}" in error
    assert not data.exists()


def test_a_directory_of_kraft(ottla: Ottla, tmp_path: Path) -> None:
    """It has logs and no coordination tree: that it is KRaft's is the reason that helps."""
    data = tmp_path / "data"
    (data / "__cluster_metadata-0").mkdir(parents=True)
    (data / "__cluster_metadata-0" / f"{0:020}.log").touch()
    meta = data / "meta.properties"
    meta.write_text("version=1\nnode.id=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n")
    before = meta.read_bytes()
    error = ottla("serve", "--data-dir", str(data), "--listen", "127.0.0.1:0", code=1).err
    assert f"{meta} is of a broker in KRaft mode" in error
    assert meta.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[]", "it is JSON of another shape than "),
        (b'{"partitions": {"a": 1}}', "it is JSON of another shape than "),
        (b'{"partitions": [{"topic": "t", "partition": 0, "replicas": "12"}]}', "it is JSON of another shape than "),
        (b'{"topics": [{"topic": "t"}], "version": 1}', "'partitions' is missing"),
        (b"\xa5\xff", "it is not JSON ("),
        (b"partitions: []", "it is not JSON ("),
    ],
)
def test_what_is_no_plan(ottla: Ottla, tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(content)
    error = ottla("topic", "reassign", "--plan", str(file), "-b", "127.0.0.1:1", code=2).err
    assert f"--plan: {file} is no plan of kafka-reassign-partitions: {words}" in error


def test_the_mark_of_an_editor_is_passed_over(ottla: Ottla, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(b"\xef\xbb\xbfbootstrap.servers=127.0.0.1:1\r\n")
    error = ottla("topic", "list", "--command-config", str(file), code=1).err
    assert "no broker answers at 127.0.0.1:1: " in error
