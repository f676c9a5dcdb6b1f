"""`ottla log aside` and `ottla log take-back`."""

from __future__ import annotations

from pathlib import Path

from ottla._core import LogDirectory
from ottla.replication import aside as files
from tests.cli.conftest import Ottla
from tests.support.put_aside import made


def test_logs_are_listed_and_taken_back(ottla: Ottla, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    assert ottla("log", "aside", str(data)).out == f"no log was put aside in {data}\n"
    assert ottla("log", "aside", str(data), "--json").out == ""
    identity = files.put_aside(data, made(data))
    listed = ottla("log", "aside", str(data)).out
    assert listed == f"{identity}: t-0, offsets 1 to 6, put aside at 1970-01-01T00:00:00+00:00\n"
    (row,) = ottla("log", "aside", str(data), "--json").json
    assert row == {
        "id": identity,
        "topic": "t",
        "partition": 0,
        "start_offset": 1,
        "end_offset": 6,
        "put_aside_ms": 5,
    }
    taken = ottla("log", "take-back", str(data), identity, "--yes")
    assert taken.out == f"{data / 't-0'} has offsets 1 to 6\n"
    assert ottla("log", "aside", str(data)).out == f"no log was put aside in {data}\n"


def test_what_cannot_be_taken_back(ottla: Ottla, tmp_path: Path) -> None:
    data = tmp_path / "data"
    identity = files.put_aside(data, made(data))
    for arguments, said in [
        ((str(data), identity), "--yes does it without asking"),
        ((str(data), "0123", "--yes"), f"there is no 0123 in {data}: `ottla log aside {data}` lists the logs"),
        ((str(data), "../x", "--yes"), "there is no ../x in"),
        ((str(data / "missing"), identity, "--yes"), "does not exist"),
    ]:
        refused = ottla("log", "take-back", *arguments, code=2)
        assert said in refused.err, refused.err
    native = LogDirectory.open(data)
    refused = ottla("log", "take-back", str(data), identity, "--yes", code=1)
    assert f"cannot take back {identity}" in refused.err
    native.close()
    made(data, values=3)
    refused = ottla("log", "take-back", str(data), identity, "--yes", code=1)
    assert "has a log: move it away, or have it put aside (--replace)" in refused.err
    assert [found for found, _ in files.found(data)] == [identity]
    replaced = ottla("log", "take-back", str(data), identity, "--yes", "--replace")
    assert replaced.out.startswith("the log that was there is put aside: ")
