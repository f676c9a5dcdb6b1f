"""Who may read what a broker writes: its owner alone, or everybody to whom its data directory is open."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.ottla import Brokers
from tests.support.client import batch, connect
from tests.support.confluent import producer
from tests.support.waiting import PATIENCE_S


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """The umask that a broker inherits."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(data: Path) -> dict[str, int]:
    """By path, of all that is in a data directory."""
    return {str(path.relative_to(data)): stat.S_IMODE(path.stat().st_mode) for path in [data, *data.rglob("*")]}


def live(brokers: Brokers, data: Path) -> dict[str, int]:
    """The modes of what is there after all kinds of files were written, replaced and renamed."""
    settings = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
    seen: dict[str, int] = {}
    port = None
    for _ in range(2):
        broker = brokers(data=data, port=port, settings=settings)
        port = broker.port
        with connect(broker) as client:
            if not seen:
                client.create("t", 2, segment_bytes="1000")
            for _ in range(5):
                client.produce("t", batch(b"x" * 600))
        for _ in range(2):
            transactional = producer(broker, "id")
            transactional.begin_transaction()
            transactional.produce("t", b"y" * 600, partition=1)
            transactional.flush(PATIENCE_S)
            transactional.abort_transaction(PATIENCE_S)
        seen |= modes(data)
        assert broker.stop() == 0
        seen |= modes(data)
    names = {Path(name).name for name in seen}
    assert names >= {"meta.properties", ".lock", "leader-epoch-checkpoint", "recovery-point-offset-checkpoint"}
    ends = {Path(name).suffix for name in seen}
    assert ends >= {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".sqlite", ".sqlite-wal", ".sqlite-shm"}
    return seen


def test_a_new_directory_is_for_its_owner_alone(brokers: Brokers, tmp_path: Path, umask: int) -> None:
    tmp_path.chmod(0o755)
    data = tmp_path / "made" / "data"
    for name, mode in live(brokers, data).items():
        assert mode == (0o700 if (data / name).is_dir() else 0o600), name
    assert modes(tmp_path)["made"] == 0o700


@pytest.mark.parametrize(("own", "folder", "file"), [(0o750, 0o750, 0o640), (0o755, 0o755, 0o644)])
def test_what_is_made_is_as_open_as_the_directory(
    brokers: Brokers, tmp_path: Path, umask: int, own: int, folder: int, file: int
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(own)
    for name, mode in live(brokers, data).items():
        assert mode == (folder if (data / name).is_dir() else file), name


def test_a_directory_that_is_open_to_everybody_is_a_warning(brokers: Brokers, tmp_path: Path) -> None:
    data = tmp_path / "data"
    for mode, is_said in ((0o700, False), (0o750, False), (0o755, True)):
        data.mkdir(exist_ok=True)
        data.chmod(mode)
        broker = brokers(data=data)
        assert broker.stop() == 0
        assert ("every user of this machine can read" in broker.log.read_text()) == is_said, oct(mode)
