"""`ottla log` and `ottla tree` at paths that are not what they should be: one line, and never a success."""

import struct
import subprocess
from pathlib import Path

import pytest

from ottla.coordination.embedded import TREE_FILE
from ottla.log import Log, dump
from tests.peers.disks import small_tmpfs
from tests.peers.ottla import Brokers
from tests.support.message_sets import message_set

from .conftest import Ottla


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "orders-0"
    path.parent.mkdir()
    with Log.open(path, mode="a") as log:
        for number in range(3):
            log.append(b"value %d" % number)
    return path


def one_line(error: str) -> str:
    assert error.startswith("Error: ")
    assert len(error.splitlines()) == 1, error
    return error


@pytest.mark.parametrize("command", ["verify", "repair"])
def test_a_file_is_not_a_log(ottla: Ottla, partition: Path, command: str) -> None:
    file = partition / f"{0:020}.log"
    error = one_line(ottla("log", command, str(file), code=2).err)
    assert f"{file} is a file; name the partition's folder, {partition}" in error


@pytest.mark.parametrize("command", ["verify", "repair"])
@pytest.mark.parametrize("content", ["nothing", "folders that are none", "folders that are called like one"])
def test_a_folder_without_logs_is_not_whole(ottla: Ottla, tmp_path: Path, command: str, content: str) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    if content != "nothing":
        (folder / "logs").mkdir()
    if content == "folders that are called like one":
        (folder / "python-3").mkdir()
        (folder / "python-3" / "install.log").write_text("installed")
        (folder / "orders-0").mkdir()
    said = ottla("log", command, str(folder), code=2)
    assert said.out == ""
    assert f"there is no log in {folder}" in one_line(said.err)
    assert ottla("log", command, str(folder / "nosuch"), code=2).err


def test_foreign_files(ottla: Ottla, partition: Path) -> None:
    (partition / "shuffle_116_439_0.index").write_bytes(bytes(16))
    (partition / "shuffle_116_439_0.timeindex").write_bytes(bytes(24))
    for suffix in ("index", "timeindex", "txnindex", "snapshot", "log"):
        (partition / f"{7:020}.{suffix}").write_bytes(b"foreign" * 20)
    out = ottla("log", "dump", str(partition), code=1).out
    assert "no index of a log" in out
    assert "offsets 0-0" in out
    rows = ottla("log", "dump", str(partition), "--json", code=1).json
    foreign = [row for row in rows if "shuffle" in row["file"]]  # type: ignore[index]
    assert len(foreign) == 2
    # What is looked at for damage is said as damage, not as a mistake of ours.
    ottla("log", "verify", str(partition), code=1)
    for file in sorted(partition.iterdir()):
        if file.is_file():
            is_damaged = any("damage" in row for row in dump.rows(str(file), records=True))
            ottla("log", "dump", str(file), "--records", code=1 if is_damaged else 0)


TEXT = b"the index of a book: 12, 27"
NO_ENTRY = "no entry of an index in order; an index is made anew by `ottla log repair`"


@pytest.mark.parametrize(
    ("name", "content", "damage"),
    [
        (f"{0:020}.index", struct.pack(">4i", 80, 16, 16, 80), f"at byte 8: it is {NO_ENTRY}"),
        (f"{0:020}.index", struct.pack(">2i", -1, 0), f"at byte 0: it is {NO_ENTRY}"),
        (f"{0:020}.index", struct.pack(">2i", 1, 100) + b"torn", "at byte 8: 4 bytes are no whole entry of 8 bytes"),
        (f"{0:020}.timeindex", TEXT, f"at byte 12: it is {NO_ENTRY}"),
        (f"{0:020}.timeindex", struct.pack(">qi", 5, 1) + b"t", "at byte 12: 1 byte is no whole entry of 12 bytes"),
        (f"{10**20 - 1}.index", TEXT, "at byte 0: it is not named by an offset: no index of a log"),
    ],
)
def test_an_index_that_is_none_is_shown_as_damage(
    ottla: Ottla, partition: Path, name: str, content: bytes, damage: str
) -> None:
    """Nothing behind the first thing that is no entry is shown as one, and a repair makes it anew."""
    (partition / name).write_bytes(content)
    lines = ottla("log", "dump", str(partition / name), code=1).out.splitlines()
    assert lines[-1] == f"  DAMAGED {damage}"
    if len(name) == len(f"{0:020}.index") and int(Path(name).stem):
        return  # no log has such a file
    ottla("log", "repair", str(partition), "--yes")
    assert "DAMAGED" not in ottla("log", "dump", str(partition)).out


def test_a_folder_with_an_index_only_is_not_repaired(ottla: Ottla, partition: Path) -> None:
    (partition / f"{0:020}.log").unlink()
    (partition / f"{0:020}.index").write_bytes(TEXT)
    error = one_line(ottla("log", "repair", str(partition), "--yes", code=1).err)
    assert f"{partition} has no segment" in error
    assert error.endswith("; nothing was repaired\n")
    assert (partition / f"{0:020}.index").read_bytes() == TEXT


def test_checkpoints_with_the_line_ends_of_windows(ottla: Ottla, brokers: Brokers, tmp_path: Path) -> None:
    """Kafka reads them with Java's `readLine`, to which CR LF is the end of a line."""
    broker = brokers()
    ottla("topic", "create", "t", "-b", broker.bootstrap)
    ottla("produce", "t", "-b", broker.bootstrap, stdin=b"a\nb\n")
    broker.stop()
    changed = [path for path in broker.data.rglob("*") if path.name.endswith(("-checkpoint", "meta.properties"))]
    assert len(changed) >= 5
    for path in changed:
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert "all whole" in ottla("log", "verify", str(broker.data)).out
    broker = brokers.restart(broker)
    assert ottla("consume", "t", "-b", broker.bootstrap, "--from-beginning", "--until-end").out == "a\nb\n"


def test_a_wrong_checksum_is_shown(ottla: Ottla, partition: Path) -> None:
    file = partition / f"{0:020}.log"
    assert "DAMAGED" not in ottla("log", "dump", str(file)).out
    data = bytearray(file.read_bytes())
    data[-2] ^= 1
    file.write_bytes(data)
    lines = ottla("log", "dump", str(file), code=1).out.splitlines()
    assert "offsets 2-2" in lines[-2]
    assert "DAMAGED: crc at byte 17" in lines[-1]
    for options in ((), ("--records",)):
        rows = ottla("log", "dump", str(file), "--json", *options, code=1).json
        damaged = [row for row in rows if "damage" in row]  # type: ignore[operator]
        assert [row["base_offset"] for row in damaged] == [2]  # type: ignore[index]


def test_a_wrong_checksum_of_an_old_message_is_shown(ottla: Ottla, tmp_path: Path) -> None:
    file = tmp_path / f"{0:020}.log"
    whole = message_set(1, "none", (1_000, b"key", b"value"))
    file.write_bytes(whole)
    assert "DAMAGED" not in ottla("log", "dump", str(file)).out
    file.write_bytes(whole[:-1] + b"!")
    assert "DAMAGED" in ottla("log", "dump", str(file), code=1).out


def test_a_log_of_kraft_metadata(ottla: Ottla, partition: Path) -> None:
    """Its snapshots hold batches too."""
    metadata = partition.with_name("__cluster_metadata-0")
    partition.rename(metadata)
    (metadata / f"{3:020}-{1:010}.checkpoint").write_bytes((metadata / f"{0:020}.log").read_bytes())
    (metadata / "quorum-state").write_text('{"clusterId":""}')
    out = ottla("log", "dump", str(metadata)).out
    assert out.count("offsets 2-2") == 2
    assert 'quorum-state\n  {"clusterId":""}' in out


def test_a_folder_without_a_tree(ottla: Ottla, tmp_path: Path) -> None:
    for command in ("dump", "export"):
        to = ("--zookeeper", "127.0.0.1:1") if command == "export" else ()
        error = one_line(ottla("tree", command, "--data-dir", str(tmp_path), *to, code=1).err)
        assert f"there is no tree {tmp_path / TREE_FILE}" in error
        assert list(tmp_path.iterdir()) == []


def test_a_tree_on_a_file_system_that_nobody_may_write(ottla: Ottla, brokers: Brokers, tmp_path: Path) -> None:
    with small_tmpfs(tmp_path / "disk", 40) as disk:
        broker = brokers(data=disk / "data")
        ottla("topic", "create", "kept", "-b", broker.bootstrap)
        broker.kill()  # so that the last changes stand in the write-ahead log only
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        out = ottla("tree", "dump", "/brokers/topics", "--data-dir", str(disk / "data")).out
        assert "/brokers/topics/kept" in out
