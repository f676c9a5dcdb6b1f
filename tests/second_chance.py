"""Runs pytest, and what failed once more, alone: a test that fails beside others and passes alone is named, not hidden.

    python -m tests.second_chance FLAKY -n 2 -m 'not soak' tests/broker

The arguments after FLAKY are pytest's. FLAKY is a file, to which each test that needed the second chance is added as a
line `FLAKY <test>: <first line of the failure>`. There is no second chance for more than `FEW` tests of several
modules, nor where tests could not be collected or a worker has crashed. Exit status: that of the last run of pytest.

CI alone calls this (`.ci/run`); `make test` has no second chance.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

#: The environment variable that names the file of failures.
VARIABLE = "OTTLA_FAILURES"
#: So many tests of several modules may fail; of one module all may, since they share servers.
FEW = 5


@dataclass(frozen=True)
class Failure:
    test: str
    #: The first line of the error.
    line: str
    #: True if the test itself can be run again: it was collected, and its process lived.
    is_a_test: bool


class Failures:
    """A plugin of pytest that writes each failure into a file, a line of JSON each."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def _write(self, report: pytest.TestReport | pytest.CollectReport, *, is_a_test: bool) -> None:
        text = getattr(getattr(report.longrepr, "reprcrash", None), "message", "") or str(report.longrepr)
        line = (text.strip().splitlines() or [""])[0]
        with self._file.open("a") as file:
            print(json.dumps({"test": report.nodeid, "line": line, "is_a_test": is_a_test}), file=file)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            # xdist says so of the test that a worker was at when it crashed, and reports no phase of it.
            self._write(report, is_a_test=report.when in ("setup", "call", "teardown"))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(report, is_a_test=False)


def pytest_configure(config: pytest.Config) -> None:
    """This module is a plugin, too. The workers of xdist report to the process that has started them, which writes."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failures(Path(os.environ[VARIABLE])))


def may_run_again(failures: list[Failure]) -> bool:
    tests = {failure.test for failure in failures}
    modules = {test.split("::")[0] for test in tests}
    return bool(tests) and all(failure.is_a_test for failure in failures) and (len(tests) <= FEW or len(modules) == 1)


def run(arguments: list[str]) -> tuple[int, list[Failure]]:
    """The exit status of pytest, and what failed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "failures"
        file.touch()
        command = [sys.executable, "-m", "pytest", "-p", "tests.second_chance", *arguments]
        code = subprocess.run(command, env=dict(os.environ, **{VARIABLE: str(file)}), check=False).returncode
        return code, [Failure(**json.loads(line)) for line in file.read_text().splitlines()]


def main(flaky: Path, arguments: list[str]) -> int:
    code, failures = run(arguments)
    if code != pytest.ExitCode.TESTS_FAILED or not may_run_again(failures):
        return code
    lines = {failure.test: failure.line for failure in reversed(failures)}
    print(f"once more, alone: {len(lines)} of the tests", flush=True)
    code, _ = run(list(lines))
    if code == 0:
        with flaky.open("a") as file:
            for test, line in lines.items():
                print(f"FLAKY {test}: {line}", file=file)
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
