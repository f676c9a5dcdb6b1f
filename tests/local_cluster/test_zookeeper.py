"""The error where there is no Java or no jars, and that the jars which are chosen are enough."""

from pathlib import Path

import pytest

from ottla.local_cluster import LocalClusterError, zookeeper


def test_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalClusterError, match=r"apt-get install openjdk-17-jre-headless.*or name a ZooKeeper"):
        zookeeper.find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(LocalClusterError, match=f"JAVA_HOME={tmp_path} has no bin/java"):
        zookeeper.find_java()


def test_without_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(zookeeper, "find_spec", lambda name: None)
    with pytest.raises(LocalClusterError, match=r"pip install 'ottla\[spark\]'\); or name a ZooKeeper"):
        zookeeper.find_jars()
    (tmp_path / "jars").mkdir()
    for name in ("zookeeper-3.9.jar", "zookeeper-jute-3.9.jar", "slf4j-api-2.jar", "spark-core.jar"):
        (tmp_path / "jars" / name).touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert {jar.name for jar in zookeeper.find_jars()} == {
        "zookeeper-3.9.jar",
        "zookeeper-jute-3.9.jar",
        "slf4j-api-2.jar",
    }


def test_nobody_answers(free_port: int) -> None:
    assert not zookeeper.answers(free_port)
