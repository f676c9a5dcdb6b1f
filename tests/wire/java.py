"""Apache Kafka's own code as the judge: Java source files of this folder, run with Kafka's jars."""

import os
import subprocess
from pathlib import Path

from tests.peers.apache import SCRIPT, environment, need_java


def run_java(source: str, version: str, stdin: str = "") -> list[str]:
    """The lines that a single-file Java program prints. Skips where there is no Java."""
    need_java()
    command = [str(SCRIPT), "java", version, str(Path(__file__).with_name(source))]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=120, env={**os.environ, **environment(128)}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
