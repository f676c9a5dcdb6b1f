"""The list of exceptions can shrink only, and links are followed."""

from pathlib import Path

import pytest

from tests.shape import allowed, links

NONE: dict[str, dict[str, int]] = {rule: {} for rule in allowed.RULES}


def of(**counts: int) -> dict[str, dict[str, int]]:
    return {**NONE, "functions": {f"{name}.py": number for name, number in counts.items()}}


def test_the_same_is_no_problem() -> None:
    assert allowed.problems(of(a=2), of(a=2)) == []


@pytest.mark.parametrize(("before", "may"), [(of(a=2), 2), (NONE, 0)])
def test_more_is_a_problem(before: dict[str, dict[str, int]], may: int) -> None:
    assert allowed.problems(of(a=3), before) == [
        f"a.py has 3 functions of more than 70 lines; allowed.toml allows {may}: split them"
    ]


def test_fewer_must_be_written_down() -> None:
    (problem,) = allowed.problems(of(a=1), of(a=2))
    assert problem == (
        "a.py has 1 functions of more than 70 lines, fewer than the 2 of allowed.toml: "
        "run `.venv/bin/python -m tests.shape`"
    )
    assert len(allowed.problems(NONE, of(a=2))) == 1, "a file that is gone"


def test_the_command_lowers_and_removes_only() -> None:
    found = of(fewer=1, same=2, more=4, new=1)
    assert allowed.lowered(found, of(fewer=3, same=2, more=3, gone=1)) == of(fewer=1, same=2, more=3)


def test_the_list_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowed, "LIST", tmp_path / "allowed.toml")
    allowed.LIST.write_text(allowed.written(of(b=1, a=2)))
    assert allowed.read() == of(a=2, b=1)


def test_counts_of_a_tree(tmp_path: Path) -> None:
    (tmp_path / "rust").mkdir()
    (tmp_path / "rust" / "a.rs").write_text("/// What it is.\n// " + "x " * 60 + "\n" * 501)
    (tmp_path / "README.md").write_text("word " * 25 + "\n" * 600)
    (tmp_path / "docs" / "benchmarks").mkdir(parents=True)
    (tmp_path / "docs" / "benchmarks" / "README.md").write_text("word " * 25)
    assert allowed.counted(allowed.files(tmp_path)) == {
        **NONE,
        "columns": {"README.md": 1, "rust/a.rs": 1},
        "files": {"rust/a.rs": 600},
        "docs": {"rust/a.rs": 1},
    }


def test_links(tmp_path: Path) -> None:
    (tmp_path / "docs" / "more").mkdir(parents=True)
    pages = {
        "README.md": "[a](docs/a.md#part), [here](#here), [there](https://example.org/a.md), ![b](docs/b.png)",
        "docs/a.md": '[more](more/ "title"), [gone](gone.md)',
        "docs/more/README.md": "[back](../../README.md)",
        "docs/alone.md": "[a](a.md)",
    }
    for name, text in pages.items():
        (tmp_path / name).write_text(text)
    reached, broken = links.walk(tmp_path)
    assert reached == pages.keys() - {"docs/alone.md"}
    assert sorted(broken) == ["README.md: docs/b.png", "docs/a.md: gone.md"]
