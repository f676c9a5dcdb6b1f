"""Spark's own Kafka connector for the benchmarks, of the version of the installed pyspark, fetched by Maven."""

import subprocess
from importlib.metadata import version
from pathlib import Path

# Rows per second of the connector of Spark 4.2 on two cores, 100-byte values, when its jars could be had: these stand
# in where they cannot. A figure of another machine: its ratio to ours is for orientation.
STORED = {"count": 1.31e6, "parquet": 0.87e6, "write": 1.30e6}
SECONDS_MAX = 300

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>bench</groupId><artifactId>connector</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_2.13</artifactId><version>{version}</version>
  </dependency></dependencies>
</project>
"""


def fetch(folder: Path) -> tuple[str, str]:
    """The connector's jars and those that it needs, with commas, and what to say of it; no jars if it cannot be had."""
    spark = version("pyspark")
    (folder / "pom.xml").write_text(POM.format(version=spark))
    command = ["mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=jars"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return "", f"cannot be fetched: {problem}"
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if "ERROR" in line]
        reason = lines[0].rpartition(": ")[2] if lines else done.stderr.strip()
        reason = reason.partition(" -> [Help")[0].partition(" was not found")[0]
        return "", f"cannot be fetched: {reason}"
    # Spark has the others; two versions of one do not go together.
    needed = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
    jars = [str(jar) for jar in sorted((folder / "jars").glob("*.jar")) if jar.name.startswith(needed)]
    return ",".join(jars), f"version {spark}, in the same run"
