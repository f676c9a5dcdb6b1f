"""Logs that are put aside and taken back, also where that is interrupted at any step."""

import os
from pathlib import Path

import msgspec
import pytest

from ottla._core import LogDirectory
from ottla.errors import KafkaError, StorageError
from ottla.log import LogConfig
from ottla.replication import aside as files
from ottla.replication import log_notes, taking_back
from tests.support.put_aside import OLD, made

LONGEST = "t" * 249


class Interrupted(Exception):
    """The process ends here."""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != log_notes.FILE}


@pytest.mark.parametrize("topic", ["t", LONGEST])
def test_nothing_is_lost_on_the_way_there_and_back(tmp_path: Path, topic: str) -> None:
    described = made(tmp_path, topic)
    before = contents(tmp_path / f"{topic}-0")
    assert sum(name.endswith(".log") for name in before) > 2
    identity = files.put_aside(tmp_path, described)
    assert not [entry for entry in tmp_path.iterdir() if entry.is_dir()]
    ((found, whole),) = files.found(tmp_path)
    assert found == identity
    assert whole.is_whole
    assert (whole.end_offset, whole.start_offset) == (6, 1)
    assert taking_back.take_back(tmp_path, identity, whole, replace=False) is None
    assert not [*files.found(tmp_path)]
    assert not [*tmp_path.glob(f"{files.PREFIX}*")]
    folder = tmp_path / f"{topic}-0"
    assert log_notes.read(folder) is None
    after = contents(folder)
    assert {name: after[name] for name in before if name.endswith(".log")} == {
        name: data for name, data in before.items() if name.endswith(".log")
    }
    native = LogDirectory.open(tmp_path)
    log = native.load(topic, 0, LogConfig().native)
    assert (log.start_offset, log.end_offset, log.high_watermark) == (1, 6, 6)
    native.close()


def steps(monkeypatch: pytest.MonkeyPatch, interrupted: int) -> list[str]:
    """Has the process end before the step of this number."""
    done: list[str] = []

    def ends(name: str) -> None:
        if len(done) == interrupted:
            raise Interrupted
        done.append(name)

    def rename(path: Path, target: Path, real: object = Path.rename) -> Path:
        ends(f"rename {path.name}")
        os.rename(path, target)
        return target

    def rmdir(path: Path) -> None:
        ends("rmdir")
        os.rmdir(path)

    def unlink(path: Path, missing_ok: bool = False) -> None:
        ends(f"unlink {path.name}")
        if path.exists() or not missing_ok:
            os.unlink(path)

    def mkdir(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        ends("mkdir")
        if not (exist_ok and path.is_dir()):
            os.mkdir(path, mode)

    for name, replaced in {"rename": rename, "rmdir": rmdir, "unlink": unlink, "mkdir": mkdir}.items():
        monkeypatch.setattr(Path, name, replaced)
    return done


def start(directory: Path) -> dict[str, int]:
    """Starts as a broker does with the folders that are there. Returns where the logs end, by topic."""
    native = LogDirectory.open(directory)
    logs, _ = native.load_all({}, LogConfig(cleanup_policy="compact").native)
    native.close()
    return {log.topic: log.end_offset for log in logs}


def test_a_log_that_was_half_put_aside_is_put_aside(tmp_path: Path) -> None:
    for step in range(1000):
        directory = tmp_path / str(step)
        described = made(directory)
        before = contents(directory / "t-0")
        with pytest.MonkeyPatch.context() as patched:
            steps(patched, step)
            try:
                files.put_aside(directory, described)
            except Interrupted:
                pass
            else:
                break
        if (directory / "t-0").exists():
            start(directory)
            # Who finds a part finds out whose it is.
            assert log_notes.read(directory / "t-0") == OLD
            files.put_aside(directory, described)
        ((identity, aside),) = files.found(directory)
        assert not (directory / "t-0").exists()
        taking_back.take_back(directory, identity, aside, replace=False)
        after = contents(directory / "t-0")
        logs = {name: data for name, data in before.items() if name.endswith(".log") or "epoch" in name}
        assert {name: after[name] for name in logs} == logs
    assert step > 10


@pytest.mark.parametrize("starts", [False, True])
def test_a_log_that_was_half_taken_back_is_taken_back(tmp_path: Path, starts: bool) -> None:
    """Also where a broker starts between, which puts it aside again."""
    for step in range(1000):
        directory = tmp_path / str(step)
        described = made(directory)
        before = contents(directory / "t-0")
        identity = files.put_aside(directory, described)
        ((_, aside),) = files.found(directory)
        with pytest.MonkeyPatch.context() as patched:
            steps(patched, step)
            try:
                files.take_back(directory, identity, aside)
            except Interrupted:
                pass
            else:
                break
        folder = directory / "t-0"
        if folder.exists():
            assert log_notes.read(folder) == OLD
        if starts:
            ends = start(directory)
            if folder.exists():
                files.put_aside(directory, msgspec.structs.replace(described, end_offset=ends["t"]))
        for found, each in [*files.found(directory)]:
            # An empty folder makes an empty log.
            if each.end_offset > 0:
                taking_back.take_back(directory, found, each, replace=False)
        after = contents(folder)
        logs = {name: data for name, data in before.items() if name.endswith(".log") or "epoch" in name}
        assert {name: after[name] for name in logs} == logs
    assert step > 10


def test_the_log_that_is_there_is_replaced_only_when_asked(tmp_path: Path) -> None:
    identity = files.put_aside(tmp_path, made(tmp_path, values=6))
    made(tmp_path, values=3, note=None)
    ((_, aside),) = files.found(tmp_path)
    with pytest.raises(StorageError, match="--replace"):
        taking_back.take_back(tmp_path, identity, aside, replace=False)
    other = taking_back.take_back(tmp_path, identity, aside, replace=True)
    assert other is not None
    ((found, replaced),) = files.found(tmp_path)
    assert found == other != identity
    assert replaced.end_offset == 3
    assert taking_back.take_back(tmp_path, other, replaced, replace=True) is not None
    ((_, again),) = files.found(tmp_path)
    assert again.end_offset == 6


def test_a_broker_on_the_directory_is_not_disturbed(tmp_path: Path) -> None:
    identity = files.put_aside(tmp_path, made(tmp_path))
    native = LogDirectory.open(tmp_path)
    ((_, aside),) = files.found(tmp_path)
    with pytest.raises(KafkaError):
        taking_back.take_back(tmp_path, identity, aside, replace=True)
    native.close()
    assert [*files.found(tmp_path)] == [(identity, aside)]


def test_a_folder_in_a_folder_is_no_part_of_a_log(tmp_path: Path) -> None:
    described = made(tmp_path)
    (tmp_path / "t-0" / "mine").mkdir()
    with pytest.raises(StorageError, match="move it away"):
        files.put_aside(tmp_path, described)
    (tmp_path / "t-0" / "mine").rmdir()
    files.put_aside(tmp_path, described)


def test_descriptions_that_nobody_understands_are_left_alone(tmp_path: Path) -> None:
    for content in (b"", b"{}", b"\xff", b'{"topic": 5}'):
        (tmp_path / f"{files.PREFIX}1.json").write_bytes(content)
        assert not [*files.found(tmp_path)]
        assert files.described(tmp_path, "1") is None
    assert files.described(tmp_path, "2") is None
