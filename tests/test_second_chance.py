"""The second chance of CI: who gets one, and that it is told."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.second_chance import FEW

ROOT = Path(__file__).parents[1]
FAILS_ONCE = """
import pathlib
import pytest

@pytest.mark.parametrize("word", {words})
def test_it(word):
    seen = pathlib.Path(__file__ + word)
    assert seen.exists() or seen.touch(), f"the first time of {{word}}"
"""

FIXTURE_FAILS_ONCE = """
import pathlib
import pytest

@pytest.fixture
def it():
    seen = pathlib.Path(__file__ + "x")
    assert seen.exists() or seen.touch(), "the first time"

def test_of_it(it):
    pass
"""


def tried(folder: Path, *arguments: str) -> tuple[int, list[str], str]:
    """Exit status, the lines about flaky tests, and all that was printed."""
    (folder / "flaky").touch()
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "tests.second_chance", "flaky", "-p", "xdist.plugin", *arguments]
    # Other plugins take a second to import, in each process.
    environment = dict(os.environ, PYTHONPATH=str(ROOT), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, sorted((folder / "flaky").read_text().splitlines()), done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments", [pytest.param([], id="alone"), pytest.param(["-n", "2"], id="xdist", marks=pytest.mark.judge)]
)
def test_what_passes_alone_is_named(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "test_a.py").write_text(FAILS_ONCE.format(words=["one", "a b[c]"]))
    (tmp_path / "test_b.py").write_text(FAILS_ONCE.format(words=["two"]) + "\ndef test_good(): pass\n")
    code, lines, said = tried(tmp_path, *arguments)
    assert code == 0, said
    assert [line.partition(": ") for line in lines] == [
        ("FLAKY test_a.py::test_it[a b[c]]", ": ", "AssertionError: the first time of a b[c]"),
        ("FLAKY test_a.py::test_it[one]", ": ", "AssertionError: the first time of one"),
        ("FLAKY test_b.py::test_it[two]", ": ", "AssertionError: the first time of two"),
    ]
    assert "3 passed" in said, "the one that had passed is not run again"


def test_all_of_one_module_may_fail(tmp_path: Path) -> None:
    words = [str(number) for number in range(FEW + 1)]
    (tmp_path / "test_a.py").write_text(FAILS_ONCE.format(words=words))
    code, lines, said = tried(tmp_path)
    assert (code, len(lines)) == (0, FEW + 1), said


def test_a_fixture_that_fails_once(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(FIXTURE_FAILS_ONCE)
    code, lines, said = tried(tmp_path)
    assert code == 0, said
    assert [line.partition(": ")[0] for line in lines] == ["FLAKY test_a.py::test_of_it"]


@pytest.mark.parametrize(
    "files",
    [
        {"test_a.py": FAILS_ONCE.format(words=["x"]) + "\ndef test_never(): assert 0\n"},
        {f"test_{number}.py": FAILS_ONCE.format(words=["x"]) for number in range(FEW + 1)},
        {"test_a.py": FAILS_ONCE.format(words=["x"]), "test_b.py": "import no_such_module"},
        {
            "test_a.py": FAILS_ONCE.replace(
                "assert", "import os; seen.exists() or seen.touch() or os._exit(3);"
            ).format(words=["x"])
        },
    ],
    ids=["fails again", "too many", "not collected", "crashed"],
)
def test_no_second_chance(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    code, lines, said = tried(tmp_path, "-n", "1")
    assert code != 0, said
    assert lines == []
