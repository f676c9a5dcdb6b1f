"""Apache Kafka's tool that reads files of a log."""

import os
import subprocess
from pathlib import Path

from tests.peers.apache import SCRIPT, environment


def dump(version: str, *arguments: str, of: list[Path]) -> str:
    """The output of dump-log, with its complaints from stderr."""
    command = [str(SCRIPT), "tool", version, "dump-log", *arguments, "--files", ",".join(map(str, of))]
    environ = {**os.environ, **environment(192)}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ, timeout=120
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
