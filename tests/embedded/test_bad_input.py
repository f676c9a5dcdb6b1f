"""Programs that use a broker in a wrong way: each mistake is told, nothing hangs, and nothing is lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio

import ottla
from ottla.embedded import BrokerFailed, NotRunning
from tests.peers.disks import small_tmpfs
from tests.support.directories import fill
from tests.support.faulty import connect, end, produced
from tests.support.waiting import PATIENCE_S, eventually


def refused(*, match: str, **options: object) -> None:
    """The start fails with such a text, and a program without its mistake goes on."""
    broker = ottla.Broker(**options)  # type: ignore[arg-type]
    with pytest.raises(BrokerFailed, match=match):
        broker.start()
    assert not broker.is_running
    broker.close()


# --- directories ---


def test_a_directory_of_another_broker(tmp_path: Path) -> None:
    with ottla.Broker({"broker.id": 1}, data_dir=tmp_path) as broker:
        broker.create_topic("t")
    refused(settings={"broker.id": 2}, data_dir=tmp_path, match=r"meta\.properties.*broker\.id=1")
    with ottla.Broker({"broker.id": 1}, data_dir=tmp_path) as broker:
        assert end(broker) == 0


def test_a_directory_of_a_broker_of_a_cluster(tmp_path: Path) -> None:
    with ottla.Cluster(2, data_dir=tmp_path / "cluster") as cluster:
        cluster.create_topic("t")
    refused(data_dir=tmp_path / "cluster" / "1", match="but not the coordination tree .* Nothing was changed")
    with ottla.Cluster(2, data_dir=tmp_path / "cluster") as cluster:
        eventually("both have it", lambda: cluster.in_sync("t") == [1, 2])


def test_a_directory_in_kraft_mode(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    refused(data_dir=tmp_path, match="is of a broker in KRaft mode, whose directories are made for it: name another")


def test_a_file_where_the_directory_is_to_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused(data_dir=tmp_path / "file", match="file")


def test_a_directory_whose_disk_is_full(tmp_path: Path) -> None:
    with small_tmpfs(tmp_path / "small", 8) as path:
        filler = fill(path)
        refused(data_dir=path / "data", match="No space left on device|is full")
        filler.unlink()
        with ottla.Broker(data_dir=path / "data") as broker:
            broker.create_topic("t")


# --- addresses ---


def test_a_host_of_another_machine() -> None:
    refused(host="192.0.2.1", match=r"cannot listen on 192\.0\.2\.1:0: Cannot assign requested address")


def test_a_port_that_is_none() -> None:
    with pytest.raises((BrokerFailed, ValueError), match="70000"):
        ottla.Broker(port=70_000).start()


# --- threads and loops ---


def test_threads_that_outlive_it() -> None:
    """They are in the middle of a call when it ends, and call it again afterwards."""
    broker = ottla.Broker().start()
    told: list[BaseException] = []
    begun = threading.Barrier(4)

    def use(name: str) -> None:
        begun.wait(PATIENCE_S)
        number = 0
        try:
            while True:
                number += 1
                broker.create_topic(f"{name}-{number}")
        except BaseException as error:
            told.append(error)

    threads = [threading.Thread(target=use, args=(f"t{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    begun.wait(PATIENCE_S)
    broker.close()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert len(told) == 3
    for error in told:
        assert isinstance(error, NotRunning | BrokerFailed | OSError), repr(error)
    with pytest.raises(NotRunning, match="call start"):
        broker.create_topic("t")


def test_a_thread_of_a_program_that_ends() -> None:
    program = """
import threading
import ottla
broker = ottla.Broker().start()
fault = broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER")
threading.Thread(target=fault.wait, daemon=True).start()
threading.Thread(target=broker.faults.add(disk="write", error="EIO").wait, daemon=True).start()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_loop_that_closes_early() -> None:
    broker = ottla.Broker()

    async def begins() -> None:
        await broker.__aenter__()

    asyncio.run(begins())
    assert broker.is_running
    broker.create_topic("t")
    with connect(broker) as client:
        assert produced(client) == 0
    asyncio.run(broker.__aexit__(None, None, None))
    assert not broker.is_running


def test_a_task_that_is_cancelled_in_the_block_closes_it() -> None:
    made = ottla.Broker()

    async def of_asyncio() -> None:
        runs = asyncio.Event()

        async def use() -> None:
            async with made:
                runs.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(use())
        await runs.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(of_asyncio())
    assert not made.is_running

    async def of_trio() -> None:
        with trio.CancelScope() as scope:
            async with made:
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught

    trio.run(of_trio)
    assert not made.is_running


def test_a_fork_neither_breaks_it_nor_has_its_disk_and_clock() -> None:
    program = """
import os
import ottla
with ottla.Broker() as broker:
    broker.create_topic("t")
    child = os.fork()
    if not child:
        calls = [
            lambda: broker.faults.add(disk="write", error="EIO"),
            lambda: broker.clock.jump(1),
            broker.power_loss,
            broker.kill,
            broker.start,
        ]
        code = 7
        for call in calls:
            try:
                call()
                code = 1
            except ottla.embedded.NotRunning:
                pass
        broker.close()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    broker.create_topic("u")
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=PATIENCE_S)
