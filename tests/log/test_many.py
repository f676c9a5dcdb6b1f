"""Thousands of partitions in one process with few descriptors."""

import resource
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import resource, sys
sys.path.insert(0, sys.argv[2])
from batches import batch
from ottla import _core

_core.raise_descriptor_limit()
directory = _core.LogDirectory.open(sys.argv[1])
config = _core.LogConfig()
count = int(sys.argv[3])
logs = directory.create("t", list(range(count)), config)
for round in range(2):
    for log in logs:
        log.append_bytes(batch(b"x" * 50), 0)
for log in logs[:: count // 100]:
    piece = log.read(1, 1 << 20).slice
    assert piece is not None and len(piece.read()) == piece.length
directory.close()
directory = _core.LogDirectory.open(sys.argv[1])
logs, failures = directory.load_all({}, config)
assert directory.was_clean and not failures and len(logs) == count
assert all(log.end_offset == 2 for log in logs)
for log in logs[:: count // 100]:
    assert log.append_bytes(batch(b"y"), 0).base_offset == 2
directory.close()
"""


def test_ten_thousand_partitions_under_twenty_thousand_descriptors(tmp_path: Path) -> None:
    """Thirty thousand files; half of the descriptors are for segments, the other half stays for connections."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limit = 20_000 if hard == resource.RLIM_INFINITY else min(hard, 20_000)
    count = limit // 2

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit // 4, limit))

    arguments = [sys.executable, "-c", PROGRAM, str(tmp_path), str(Path(__file__).parent), str(count)]
    done = subprocess.run(arguments, preexec_fn=limited, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_thousand_partitions_with_a_hundred_descriptors(tmp_path: Path) -> None:
    """Files are opened on use and the one that was not used for longest is closed: any number of logs works."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    arguments = [sys.executable, "-c", PROGRAM, str(tmp_path), str(Path(__file__).parent), "1000"]
    done = subprocess.run(arguments, preexec_fn=limited, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
