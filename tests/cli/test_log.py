"""`ottla log dump|verify|repair`, on logs that were damaged on purpose."""

import json
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla._core import LogDirectory
from ottla.cli.log import command
from ottla.log import Log, LogConfig
from tests.support.client import batch


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Two segments of ten batches of three records."""
    path = tmp_path / "orders-0"
    with Log.open(path, mode="a", config=LogConfig(index_interval_bytes=100)) as log:
        for number in range(20):
            if number == 10:
                log.roll()
            log.append_many([(f"k{number}", "x" * 20, {"h": "1"})] * 3, timestamp_ms=1_000 + number)
    return path


def damage(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 0xFF
    file.write_bytes(data)


def batches(path: Path) -> list[dict[str, int]]:
    rows = [json.loads(line) for line in run("dump", str(path), "--json").splitlines()]
    return [row for row in rows if "size_bytes" in row]


def test_dump_shows_batches_records_and_indexes(partition: Path) -> None:
    found = batches(partition)
    assert [row["base_offset"] for row in found] == list(range(0, 60, 3))
    rows = [json.loads(line) for line in run("dump", str(partition), "--json", "--records").splitlines()]
    records = [row for row in rows if "value" in row]
    assert [row["offset"] for row in records] == list(range(60))
    assert records[31] == {
        "file": str(partition / f"{30:020}.log"),
        "offset": 31,
        "timestamp_ms": 1_010,
        "key": "k10",
        "value": "x" * 20,
        "headers": [["h", "1"]],
    }
    text = run("dump", str(partition))
    assert "offsets 0-2, 3 records" in text
    assert "timestamp_ms 1009  offset 29" in text
    assert "leader-epoch-checkpoint" in text
    assert run("dump", str(partition / f"{30:020}.log")).count("3 records") == 10


def test_verify_finds_every_damage_and_changes_nothing(partition: Path) -> None:
    assert "1 partition, 2 segments, 20 batches, 60 records" in run("verify", str(partition.parent))
    found = batches(partition)
    first, second = partition / f"{0:020}.log", partition / f"{30:020}.log"
    damage(first, found[3]["position"] + 80)  # a record: the checksum fails
    damage(first, found[6]["position"] + 10)  # a length: the next batch has to be searched for
    second.write_bytes(second.read_bytes()[:-5])
    damage(partition / f"{30:020}.index", 7)
    damage(partition / f"{30:020}.snapshot", 3)
    before = {name: name.read_bytes() for name in partition.iterdir()}
    report = json.loads(run("verify", str(partition), "--json", code=1))
    places = {(Path(found["path"]).name, found["position"]) for found in report["damage"]}
    assert places >= {
        (first.name, found[3]["position"]),
        (first.name, found[6]["position"]),
        (second.name, found[19]["position"]),
        (f"{30:020}.index", 0),
        (f"{30:020}.snapshot", 0),
    }
    assert report["batches"] == 17
    assert {name: name.read_bytes() for name in partition.iterdir()} == before
    assert "DAMAGED at byte" in run("dump", str(partition), code=1)


def test_entries_that_are_out_of_order_are_named(partition: Path) -> None:
    offsets, times = partition / f"{0:020}.index", partition / f"{0:020}.timeindex"
    entries = struct.unpack(">6i", offsets.read_bytes()[:24])
    offsets.write_bytes(struct.pack(">6i", *entries[:2], *entries[4:], *entries[2:4]))
    times.write_bytes(struct.pack(">qiqi", 1_009, 29, 1_005, 17))
    aborted = struct.pack(">hqqqq", 0, 7, 9, 3, 2)
    (partition / f"{0:020}.txnindex").write_bytes(aborted * 2)
    said = run("verify", str(partition), code=1)
    (first, second), (at, last) = entries[2:4], entries[4:]
    assert f"offset {first} at position {second} stands behind offset {at} at position {last}" in said
    assert "timestamp 1005 up to offset 17 stands behind timestamp 1009 up to offset 29" in said
    one = "a transaction of producer 7 from offset 9 to its marker at 3, with the last stable offset 2"
    assert f"{one} cannot be\n" in said
    assert f"{one} cannot stand behind {one}\n" in said


def test_repair_cuts_at_the_first_damage(partition: Path) -> None:
    assert "nothing is damaged" in run("repair", str(partition))
    position = batches(partition)[13]["position"]
    damage(partition / f"{30:020}.log", position + 70)
    before = {name: name.read_bytes() for name in partition.iterdir()}
    run("repair", str(partition), code=2)  # nobody can be asked
    assert f"{partition / f'{30:020}.log'} at byte {position}" in run("repair", str(partition), "--dry-run")
    assert {name: name.read_bytes() for name in partition.iterdir()} == before
    said = run("repair", str(partition.parent), "--yes")
    lost = "21 records lost (3 in damaged batches, 18 readable behind them), 0 damages left"
    assert said == f"orders-0: offsets 0 to 39, {lost}\n"
    assert "all whole" in run("verify", str(partition))
    with Log.open(partition, mode="a") as log:
        assert log.append("next") == 39


def test_a_header_that_is_damaged_too_counts_nothing(partition: Path) -> None:
    position = batches(partition)[13]["position"]
    damage(partition / f"{30:020}.log", position + 58)  # how many records
    said = run("repair", str(partition), "--yes")
    assert "at least 18 records lost (0 in damaged batches, 18 readable behind them)" in said


def test_epochs_that_begin_anew_below_are_no_damage(tmp_path: Path) -> None:
    """The coordination tree was restored from a backup. A batch whose epoch the table does not know is damaged."""
    for epochs in ((3, 21), (1, 2)):
        directory = LogDirectory.open(tmp_path)
        (log,) = directory.create("t", [0], LogConfig().native)
        for epoch in epochs:
            log.begin_epoch(epoch)
            for _ in range(2):
                log.append_bytes(batch(b"x"), epoch)
        directory.close()
    assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n1 4\n2 6\n"
    assert "all whole" in run("verify", str(tmp_path))
    table = tmp_path / "t-0" / "leader-epoch-checkpoint"
    table.write_text("0\n1\n2 6\n")
    assert "leader epoch 1 after 21" in run("verify", str(tmp_path), code=1)
