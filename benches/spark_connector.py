"""Spark's own Kafka connector for the benchmarks, fetched by Maven: of the version of the installed pyspark, or the
newest one whose jars can be had.
"""

import subprocess
from importlib.metadata import version
from pathlib import Path

# Rows per second of the connector of Spark 4.2 on two cores, 100-byte values, when its jars could be had: these stand
# in where they cannot. A figure of another machine: its ratio to ours is for orientation.
STORED = {"count": 1.31e6, "parquet": 0.87e6, "write": 1.30e6}
SECONDS_MAX = 300
# Connector and token provider. Spark 4.2 and 4.3 run those of 4.1 and 4.0, of which Maven mirrors have more.
OLDER = ("4.1.1", "4.0.0")

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>bench</groupId><artifactId>connector</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_2.13</artifactId><version>{connector}</version>
      <exclusions>
        <exclusion><groupId>org.apache.hadoop</groupId><artifactId>*</artifactId></exclusion>
        <exclusion><groupId>org.scala-lang</groupId><artifactId>*</artifactId></exclusion>
        <exclusion><groupId>org.scala-lang.modules</groupId><artifactId>*</artifactId></exclusion>
        <exclusion><groupId>org.apache.spark</groupId><artifactId>spark-token-provider-kafka-0-10_2.13</artifactId></exclusion>
      </exclusions>
    </dependency>
    <dependency>
      <groupId>org.apache.spark</groupId><artifactId>spark-token-provider-kafka-0-10_2.13</artifactId>
      <version>{provider}</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>
  </dependencies>
</project>
"""
# Spark has the others; two versions of one do not go together.
NEEDED = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")


def fetch(folder: Path) -> tuple[str, str]:
    """The connector's jars and those that it needs, with commas, and what to say of it; no jars if it cannot be had."""
    spark = version("pyspark")
    problem = ""
    for connector, provider in ((spark, spark), OLDER):
        jars, problem = _fetch(folder / f"connector-{connector}", connector, provider)
        if jars:
            return ",".join(jars), f"spark-sql-kafka {connector}, token provider {provider}, in the same run"
    return "", f"cannot be fetched: {problem}"


def _fetch(folder: Path, connector: str, provider: str) -> tuple[list[str], str]:
    """The jars, or why not."""
    folder.mkdir()
    (folder / "pom.xml").write_text(POM.format(connector=connector, provider=provider))
    command = ["mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=jars"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return [], str(problem)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if "ERROR" in line]
        reason = lines[0].rpartition(": ")[2] if lines else done.stderr.strip()
        return [], reason.partition(" -> [Help")[0].partition(" was not found")[0]
    return [str(jar) for jar in sorted((folder / "jars").glob("*.jar")) if jar.name.startswith(NEEDED)], ""
