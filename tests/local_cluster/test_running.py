"""A cluster that does not come to be."""

from pathlib import Path

import pytest

from ottla.local_cluster import LocalClusterError, running
from ottla.local_cluster.state import load


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(LocalClusterError, match=r"file is a file: take another --dir"):
            running.start(directory)
    assert (tmp_path / "file").read_text() == "kept"


def test_one_that_never_served_is_none(tmp_path: Path, free_port: int) -> None:
    """Its ZooKeeper is not there. Then it may have another number of brokers, and other settings."""
    for count in (2, 1):
        with pytest.raises(LocalClusterError, match=r"ended instead of being ready; its log .* ends with:\n"):
            running.start(
                tmp_path,
                count=count,
                given_zookeeper="127.0.0.1:1",
                port=free_port,
                settings={"zookeeper.connection.timeout.ms": "100", "min.insync.replicas": str(count)},
            )
        assert load(tmp_path) is None
