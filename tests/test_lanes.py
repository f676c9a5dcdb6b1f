"""The lanes of the tests leave nothing out: the table of `make quick`, and the parts of `make judges`."""

from pathlib import Path

import pytest

from tests import judges, quick
from tests.support.lanes import judged_by

ROOT = Path(__file__).parents[1]


def test_every_room_has_its_quick_tests() -> None:
    for room, tests in quick.ROOMS.items():
        assert (ROOT / room).is_dir()
        assert tests
        assert all((ROOT / test).exists() for test in tests), room
    rooms = [path for path in (ROOT / "python" / "ottla").iterdir() if any(path.glob("*.py"))]
    assert {f"python/ottla/{path.name}/" for path in rooms} <= quick.ROOMS.keys()


def test_the_longest_room_decides() -> None:
    chosen = quick.tests_for(["python/ottla/broker/quotas/client.py", "tests/wire/test_schema.py", "README.md"])
    assert chosen == [*quick.ALWAYS, *quick.ROOMS["python/ottla/broker/quotas/"], "tests/wire/test_schema.py"]
    assert quick.tests_for(["README.md"]) == quick.ALWAYS


def test_every_test_is_in_one_part() -> None:
    named = judges.parts().items()
    parts = [ROOT / path for name, paths in named for path in paths if name not in judges.VARIABLES]
    for file in (ROOT / "tests").rglob("test_*.py"):
        assert len([part for part in parts if part == file or part in file.parents]) == 1, file


def test_with_other_variables_files_are_run_once_more() -> None:
    for name, at_least in ((judges.LEASES_OFF, 10), (judges.THREADS, 5)):
        again = judges.parts()[name]
        assert len(again) > at_least
        assert all((ROOT / path).exists() for path in again)


def test_the_whole_is_green_when_its_last_part_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "FILE", tmp_path / "judged.json")
    monkeypatch.setattr(judges, "git", lambda *arguments: "" if arguments[0] == "status" else "c0ffee")
    monkeypatch.setattr(judges, "ROOT", tmp_path)
    monkeypatch.setattr(judges, "parts", lambda: {"one": ["tests/one"], "two": ["tests/two"]})
    state: dict[str, object] = {"whole": None, "begun": "beef", "green": {}}
    judges.note(state, "two")
    assert judges.read() == {"whole": None, "begun": "beef", "green": {"two": "c0ffee"}}
    assert "not been green" in judges.last(judges.read())
    judges.note(state, "one")
    assert judges.read()["whole"]["commit"] == "beef"
    assert judges.read()["green"] == {}
    assert judges.last(judges.read()).startswith("the judges were green as a whole at beef (20")


def test_which_soak_forms_ran_to_their_end_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = ""
    monkeypatch.setattr(judges, "FILE", tmp_path / "judged.json")
    monkeypatch.setattr(judges, "git", lambda *arguments: changed if arguments[0] == "status" else "c0ffee")
    monkeypatch.setattr(judges, "ROOT", tmp_path)
    monkeypatch.setattr(judges, "soak", lambda path, seed: seed != 2)
    judges.FILE.write_text('{"whole": null, "begun": null, "green": {}}')
    assert judges.soaks("tests/one.py", [1, 2, 3]) == 1
    first, second = judges.read()["soaks"]["tests/one.py"]
    assert (first["seed"], first["commit"], second["seed"]) == (1, "c0ffee", 3)
    changed = "M rust/lib.rs"
    assert judges.soaks("tests/one.py", [4]) == 0
    assert len(judges.read()["soaks"]["tests/one.py"]) == 2, "of what nobody can build again nothing is noted"


def test_the_gate_has_some_of_the_judges() -> None:
    one, two = judged_by(["1", "2"], ["1"])
    assert one == "1"
    assert (two.values, [mark.name for mark in two.marks]) == (("2",), ["judge"])
    with pytest.raises(AssertionError):
        judged_by(["1", "2"], ["3"])
