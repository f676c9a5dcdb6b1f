"""The tree of a local cluster: its process, and the directory of a cluster that was in a ZooKeeper of its own."""

import signal
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from ottla.local_cluster import LocalClusterError, running, tree
from ottla.local_cluster.processes import send
from ottla.local_cluster.state import LocalBroker, LocalCluster, Server
from tests.support.waiting import eventually


def test_it_is_found_again_by_another_process(tmp_path: Path, free_port: int) -> None:
    log = tmp_path / "log.txt"
    for wrote in (False, True):
        process = tree.launch_tree(tmp_path / "tree", free_port, log)
        eventually("it serves", lambda: tree.answers(free_port))
        client = KazooClient(f"127.0.0.1:{free_port}")
        client.start()
        assert (client.exists("/a") is not None) == wrote
        if not wrote:
            client.create("/a")
        client.stop()
        client.close()
        send(process, signal.SIGTERM)
        eventually("it has ended", lambda: not process.runs)  # noqa: B023
    said = log.read_text()
    assert said.count("This is for laptops and tests") == 2
    assert said.rstrip().endswith("stopped")
    assert "Traceback" not in said


def test_two_do_not_share_a_file_nor_a_port(tmp_path: Path, free_port: int) -> None:
    one = tree.launch_tree(tmp_path / "tree", free_port, tmp_path / "one.txt")
    eventually("it serves", lambda: tree.answers(free_port))
    for directory, why in (("tree", "is in use by another process"), ("other", "ddress already in use")):
        log = tmp_path / "other.txt"
        other = tree.launch_tree(tmp_path / directory, free_port, log)
        eventually("it has ended", lambda: not other.runs)  # noqa: B023
        assert why in log.read_text()
    assert "Traceback" not in log.read_text()
    assert one.runs
    send(one, signal.SIGTERM)
    eventually("it has ended", lambda: not one.runs)


def test_the_tree_of_a_former_zookeeper_is_left_alone(tmp_path: Path, free_port: int) -> None:
    own = Server(free_port)
    LocalCluster(tmp_path, own.address, own, {}, [LocalBroker(free_port, id=1)]).save()
    (tmp_path / "zookeeper").mkdir()
    (tmp_path / "zookeeper" / "zoo.cfg").touch()
    with pytest.raises(LocalClusterError, match=r"start a ZooKeeper with .*zoo\.cfg, or take another --dir"):
        running.start(tmp_path)
    assert not (tmp_path / "tree").exists()


def test_nobody_answers(free_port: int) -> None:
    assert not tree.answers(free_port)
