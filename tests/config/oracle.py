"""Apache Kafka's own code as the judge: Java source files of this folder, run with Kafka's jars."""

import os
import subprocess
from pathlib import Path

from tests.peers.apache import fetch, need_java

HERE = Path(__file__).parent


def run_java(source: str, *arguments: str, version: str = "2.7.2", stdin: str = "") -> str:
    """The output of a single-file Java program. Skips where there is no Java."""
    need_java()
    fetch(version)
    peers = Path(os.environ.get("OTTLA_PEERS", Path.home() / ".cache" / "ottla-peers"))
    command = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", f"{peers}/kafka-{version}/libs/*", str(HERE / source), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout
