"""The file of a cluster: whole or not at all, and clear about what is wrong with it."""

from pathlib import Path

import pytest

from ottla.local_cluster import LocalClusterError
from ottla.local_cluster.processes import Process
from ottla.local_cluster.state import FILE, LocalBroker, LocalCluster, Server, alone, existing, load


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, "127.0.0.1:2181", Server(2181, Process(1, "x")), {"num.partitions": "3"})
    cluster.brokers = [LocalBroker(9092, Process(2, "y"), 1), LocalBroker(9093, None, 2)]
    cluster.save()
    assert load(tmp_path) == cluster
    assert existing(tmp_path).bootstrap == "127.0.0.1:9092,127.0.0.1:9093"
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_none_is_none_and_says_how_to_make_one(tmp_path: Path) -> None:
    assert load(tmp_path) is None
    with pytest.raises(LocalClusterError, match=f"no cluster in {tmp_path}: `ottla cluster start 3 --dir"):
        existing(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "brokers": 7}'])
def test_what_is_not_ours_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(LocalClusterError, match="does not describe a cluster of this version"):
        load(tmp_path)


def test_one_command_at_a_time(tmp_path: Path) -> None:
    with alone(tmp_path), pytest.raises(LocalClusterError, match="another command"), alone(tmp_path):
        pass
    with alone(tmp_path):
        pass
