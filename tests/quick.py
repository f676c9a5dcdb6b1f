"""Checks to run before each commit, in three minutes where nothing in Rust changed: `make quick`.

Lint of the files that changed since the last commit, and the tests of the rooms that they are in. A room has the tests
that notice most of its faults in little time; the gate (`make test`) has the rest.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent

#: The beginning of a file's name, the longest that fits, and the tests for such files.
ROOMS = {
    "benches/": ["tests/benches/test_rounds.py"],
    "packaging/": ["tests/packaging"],
    "python/ottla/": ["tests/test_package.py"],
    "python/ottla/bench/": ["tests/benches"],
    "python/ottla/broker/": [
        "tests/broker/produce/test_produce_fetch.py",
        "tests/broker/coordinators/test_groups.py",
        "tests/broker/admin/test_admin.py",
    ],
    "python/ottla/broker/faults/": ["tests/broker/faults", "tests/embedded/test_faults.py"],
    "python/ottla/broker/fetch/": [
        "tests/broker/produce/test_produce_fetch.py",
        "tests/broker/fetch/test_fetch_sessions.py",
    ],
    "python/ottla/broker/quotas/": [
        "tests/broker/quotas/test_quotas.py",
        "tests/broker/quotas/test_quotas_of_plain_requests.py",
    ],
    "python/ottla/broker/watching/": ["tests/broker/watching/test_watching.py", "tests/metrics"],
    "python/ottla/classic/": ["tests/classic"],
    "python/ottla/cli/": ["tests/cli/test_main.py", "tests/cli/test_documented.py"],
    "python/ottla/client/": [
        "tests/client/test_producer.py",
        "tests/client/test_sync.py",
        "tests/client/test_admin.py",
    ],
    "python/ottla/config/": ["tests/config"],
    "python/ottla/controller/": ["tests/controller/test_decisions.py", "tests/controller/test_controller.py"],
    "python/ottla/coordination/": ["tests/coordination"],
    "python/ottla/embedded/": ["tests/embedded"],
    "python/ottla/testing/": ["tests/embedded/test_fixtures.py"],
    "python/ottla/doctor/": ["tests/doctor"],
    "python/ottla/group/": ["tests/group"],
    "python/ottla/local_cluster/": ["tests/local_cluster"],
    "python/ottla/log/": ["tests/log"],
    "python/ottla/metrics/": ["tests/metrics"],
    "python/ottla/mirror/": ["tests/mirror"],
    "python/ottla/net/": ["tests/net"],
    "python/ottla/peers/": ["tests/peers"],
    "python/ottla/pipelines/": ["tests/pipelines/test_config.py", "tests/pipelines/test_tables.py"],
    "python/ottla/reading/": ["tests/reading", "tests/spark/test_directory.py", "tests/spark/test_brokers.py"],
    "python/ottla/replication/": ["tests/replication"],
    "python/ottla/spark/": ["tests/spark"],
    "python/ottla/transaction/": ["tests/transaction"],
    "python/ottla/wire/": ["tests/wire"],
    "rust/": ["tests/log", "tests/net", "tests/records"],
    "rust/direct/": ["tests/broker/leases/test_direct_table.py", "tests/broker/leases/test_leases.py"],
    "rust/log/": ["tests/log"],
    "rust/net/": ["tests/net"],
    "rust/records/": ["tests/records"],
    "rust/replication/": ["tests/replication"],
    "rust/wire/": ["tests/wire"],
}
#: For every change: the house's own rules.
ALWAYS = ["tests/test_imports.py", "tests/test_vocabulary.py", "tests/shape", "tests/faults/test_mutants.py"]


def changed() -> list[str]:
    """The files that differ from the last commit and still exist."""
    names: set[str] = set()
    for command in (["diff", "--name-only", "HEAD"], ["ls-files", "--others", "--exclude-standard"]):
        listed = subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True, text=True)
        names.update(listed.stdout.splitlines())
    return sorted(name for name in names if (ROOT / name).is_file())


def tests_for(files: list[str]) -> list[str]:
    """The arguments of pytest: the rooms' tests, and those tests that changed themselves."""
    chosen = dict.fromkeys(ALWAYS)
    for file in files:
        if file.startswith("tests/") and Path(file).name.startswith("test_"):
            chosen[file] = None
        elif fitting := [room for room in ROOMS if file.startswith(room)]:
            chosen |= dict.fromkeys(ROOMS[max(fitting, key=len)])
    return list(chosen)


def commands(files: list[str]) -> list[list[str]]:
    python = [name for name in files if name.endswith(".py")]
    found: list[list[str]] = []
    if python:
        found += [[f"{BIN}/ruff", "check", *python], [f"{BIN}/ruff", "format", "--check", *python]]
    if any(name.startswith("python/") for name in files):
        found += [[f"{BIN}/mypy"], [f"{BIN}/lint-imports"]]
    if any(name.endswith(".rs") for name in files):
        found += [["cargo", "fmt", "--check"], ["make", "test-rust"]]
    tests = tests_for(files)
    return [*found, [f"{BIN}/pytest", "-q", "-m", "not soak and not judge", "-n", "2", *tests]]


def main() -> int:
    for command in commands(changed()):
        print(" ".join(command), flush=True)
        if code := subprocess.run(command, cwd=ROOT, check=False).returncode:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
