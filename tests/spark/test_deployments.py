"""The same source in the other ways to run Spark: a cluster with two workers, Spark Connect, a declarative pipeline."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.ports import free_port
from tests.peers.processes import Server
from tests.peers.skips import module, require
from tests.spark.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.soak]

COUNTS = [300, 0, 450]
HERE = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
CONNECT = Path(__file__).parents[2] / ".venvs" / "connect"
SCRIPT = Path(__file__).with_name("deployed.py")
#: Several JVMs start at once, on a machine that may have other work.
PATIENCE_S = 900


@pytest.fixture
def deployed(topics: Topics) -> Topics:
    topics.make("deployed", COUNTS)
    return topics


def home() -> Path:
    pyspark = module("spark", "pyspark")
    return Path(pyspark.__file__).parent


def connect() -> dict[str, str]:
    """The environment for Spark Connect: what it needs of Python, above all pandas, is in a folder of its own (`make
    soak`).
    """
    if not CONNECT.is_dir():
        require("clients", f"there is no {CONNECT}")
    return {"PYTHONPATH": str(CONNECT)}


def run(topics: Topics, folder: Path, *arguments: str, **environment: str) -> str:
    """The answer of `deployed.py`: the rows of a batch, and those of a stream."""
    command = [sys.executable, str(SCRIPT), topics.bootstrap, str(folder), *arguments]
    script = Server("script", command, folder / "log", environment={**HERE, **environment})
    assert script.process.wait(PATIENCE_S) == 0, script.output_tail()
    return (folder / "answer").read_text()


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """spark://HOST:PORT of a master with two workers of one core each."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    spark_class = str(home() / "bin" / "spark-class")
    environment = {**HERE, "SPARK_HOME": str(home()), "SPARK_DAEMON_MEMORY": "256m", "SPARK_WORKER_DIR": str(tmp_path)}
    started: list[Server] = []

    def start(name: str, *arguments: str) -> Server:
        command = [spark_class, f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *arguments]
        started.append(Server(name, command, tmp_path / f"{name}-{len(started)}.log", environment=environment))
        return started[-1]

    try:
        web = ["--webui-port", "0"]
        start("master.Master", "--port", str(port), *web).wait_until(lambda: listens(port))
        for _ in range(2):
            worker = start("worker.Worker", "--cores", "1", "--memory", "600m", *web, url)
            worker.wait_until(lambda worker=worker: "Successfully registered" in worker.output())  # type: ignore[misc]
        yield url
    finally:
        for server in reversed(started):
            server.kill()


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_cluster_with_two_workers(deployed: Topics, master: str, tmp_path: Path) -> None:
    assert run(deployed, tmp_path, "master", master) == f"batch {sum(COUNTS)} by 2 workers, stream {sum(COUNTS)}"


def test_spark_connect(deployed: Topics, tmp_path: Path) -> None:
    assert run(deployed, tmp_path, "remote", "local[2]", **connect()) == f"batch {sum(COUNTS)}, stream {sum(COUNTS)}"


def test_a_declarative_pipeline(deployed: Topics, tmp_path: Path) -> None:
    python = {"SPARK_HOME": str(home()), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment = {**HERE, **python, **connect()}
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "requests.py").write_text(
        f"""
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions

spark = SparkSession.active()

@dp.table
def requests():
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", "{deployed.bootstrap}")
    return reader.option("subscribe", "deployed").option("startingOffsets", "earliest").load()

@dp.materialized_view
def counts():
    return spark.read.table("requests").groupBy("partition").agg(functions.count("*").alias("records"))
"""
    )
    warehouse = tmp_path / "warehouse"
    (tmp_path / "spark-pipeline.yml").write_text(
        f"""
name: requests
storage: file://{tmp_path}/storage
libraries:
  - glob:
      include: transformations/**
"""
    )
    command = [str(home() / "bin" / "spark-pipelines"), "run", "--spec", str(tmp_path / "spark-pipeline.yml")]
    options = ["--conf", f"spark.sql.warehouse.dir=file://{warehouse}"]
    pipeline = Server("pipeline", [*command, *options], tmp_path / "log", environment=environment)
    assert pipeline.process.wait(PATIENCE_S) == 0, pipeline.output_tail()
    import pyarrow.parquet as parquet

    found = parquet.read_table(warehouse / "counts").to_pylist()
    assert sorted((row["partition"], row["records"]) for row in found) == [(0, 300), (2, 450)]
