"""A broker that has no other comes back without a disk or a folder: it serves what is left, and says what is gone."""

import shutil
from pathlib import Path

import pytest
import trio

from tests.support.client import Client
from tests.support.control_requests import produced, started
from tests.support.waiting import comes_true

pytestmark = pytest.mark.trio


def create(port: int, partitions: int) -> None:
    with Client.connect("127.0.0.1", port, "test") as client:
        client.create("t", partitions)


async def filled(*paths: Path) -> list[str]:
    """A broker makes a topic and stops; the folders in the last directory."""
    async with started(*paths) as broker:
        await trio.to_thread.run_sync(create, broker.addresses.listening[0].port, 4)
        assert await produced(broker, "t") == 0
    return sorted(path.name for path in paths[-1].glob("t-*"))


@pytest.mark.parametrize("lost", ["disk", "folder"])
async def test_what_is_gone_is_said_and_led(tmp_path: Path, lost: str, caplog: pytest.LogCaptureFixture) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    folders = await filled(first, second)
    assert len(folders) == 2
    if lost == "disk":
        shutil.rmtree(second)
    else:
        for folder in folders:
            shutil.rmtree(second / folder)
    async with started(first, second) as broker:
        assert f"2 partitions had a log here that is gone, among them {folders[0]}" in caplog.text
        await comes_true("all are led", lambda: len(broker.replicas.partitions) == 4)
        assert all(partition.is_leader for partition in broker.replicas.partitions.values())
    caplog.clear()
    async with started(first, second):
        assert "had a log here that is gone" not in caplog.text
