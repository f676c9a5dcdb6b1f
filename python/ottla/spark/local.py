"""A Spark session on this machine that finds this Python and its packages."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.extras import extra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


EARLY = Path(__file__).with_name("early")
# A collector for throughput: a fifth less of the JVM's CPU. And Arrow's buffers, which are those of our own workers,
# without a check of bounds and reference counts at each access: a tenth less.
JAVA = "-XX:+UseParallelGC -Darrow.enable_unsafe_memory_access=true"
# Checkpoints of streams without Hadoop's file contexts, which start processes to learn about users: a micro-batch of
# few rows takes 150 ms instead of 250.
CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def session(
    name: str = "ottla", *, cores: int | None = None, memory: str = "1g", settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """The running session, or a new one on this machine.

    `cores` is all unless given, `memory` the driver's heap in Java's form, `settings` any Spark settings, which win.

    Python processes of streams connect to Spark before they import anything (`early/sitecustomize.py`), since Spark
    gives them ten seconds, too few on a busy machine. Idle ones end without a word (`early/daemon.py`).

    Without PYSPARK_PYTHON Spark's workers run whatever `python3` is in the path, where neither pyarrow nor this
    package may be; it is set to the Python that runs now. Spark listens on 127.0.0.1 alone, and its web interface is
    off.

    Raises:
        ImportError: pyspark is not installed.
        RuntimeError: there is no Java, which Spark runs on.
    """
    with extra("spark"):
        from pyspark.sql import SparkSession

    _check_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    cores = cores or os.cpu_count() or 1
    chosen = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.memory": memory,
        "spark.ui.showConsoleProgress": "false",
        # Between the JVM and its Python workers.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.driver.extraJavaOptions": JAVA,
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
        **(settings or {}),
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with _python_path(EARLY):
        return builder.getOrCreate()


def _check_java() -> None:
    """Spark itself would only say that a gateway process exited."""
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise RuntimeError(f"Spark needs Java 17 or newer, and JAVA_HOME={home} has no bin/java")
    if not home and shutil.which("java") is None:
        raise RuntimeError(
            "Spark needs Java 17 or newer, and there is no java in the path (Debian: apt-get install "
            "openjdk-17-jre-headless; else set JAVA_HOME)"
        )


@contextmanager
def _python_path(folder: Path) -> Iterator[None]:
    """A folder at the front of PYTHONPATH for the JVM, which hands its own on to its Python processes."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), before)))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
