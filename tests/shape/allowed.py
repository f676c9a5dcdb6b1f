"""The exceptions that the tree has from before there were rules: by rule and file, as counts that may only shrink."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.shape import rules
from tests.shape.rules import File

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("allowed.toml")
LOWER = ".venv/bin/python -m tests.shape"
#: Pages that `make bench` writes anew.
MEASURED = "docs/benchmarks/"

#: Counts by rule, then by file.
Counts = Mapping[str, Mapping[str, int]]

HEAD = f"""\
# What each file has more than the rules of shape allow (tests/shape/rules.py), from before there were rules.
# A count may shrink, never grow, and a file that is not here has none. Where something shrank,
# `{LOWER}` writes it anew.
"""
#: The things that are counted, and what to do about more.
RULES = {
    "columns": ("lines of more than {columns} columns", "break them"),
    "functions": ("functions of more than {function} lines", "split them"),
    "files": ("lines, to the next hundred, where {file} are enough", "give a part of it a file of its own"),
    "docs": ('doc comments that begin with "What" or "Whether"', "name their subject"),
    "imports": ("imports from test modules", "move what is shared into a file beside them, or tests/support"),
}
PLACES = {
    "columns": rules.columns,
    "functions": rules.long_functions,
    "docs": rules.empty_first_words,
    "imports": rules.imports_of_tests,
}


def files(root: Path = ROOT) -> list[File]:
    """Whatever is written by hand or shown to people, in the order of its names."""
    folders = [root / name for name in ("python", "rust", "tests", "benches", "docs", "packaging")]
    paths = [*root.glob("*.md"), *(path for folder in folders for path in folder.rglob("*"))]
    kept = [path for path in paths if path.suffix in (".py", ".pyi", ".rs", ".md") and path.is_file()]
    return [File(path.relative_to(root), path.read_text()) for path in sorted(kept)]


def places(rule: str, file: File) -> list[str]:
    """Where a file breaks a rule, as far as the rule is about such files and about places."""
    is_markdown, is_python = file.path.suffix == ".md", file.path.suffix in (".py", ".pyi")
    if rule not in PLACES or (is_python if rule == "columns" else is_markdown) or str(file.path).startswith(MEASURED):
        return []
    return list(PLACES[rule](file))


def count(rule: str, file: File) -> int:
    if rule == "files":
        return 0 if file.path.suffix == ".md" else rules.long_file(file)
    return len(places(rule, file))


def counted(tree: list[File]) -> dict[str, dict[str, int]]:
    """The violations in the tree, by rule and file."""
    found = {rule: {str(file.path): count(rule, file) for file in tree} for rule in RULES}
    return {rule: {path: number for path, number in by_file.items() if number} for rule, by_file in found.items()}


def problems(found: Counts, allowed: Counts) -> list[str]:
    """The differences from the list, each with what to do about it."""
    lines = []
    for rule, (meaning, remedy) in RULES.items():
        of = meaning.format(columns=rules.COLUMNS_MAX, function=rules.FUNCTION_LINES_MAX, file=rules.FILE_LINES_MAX)
        now, then = found.get(rule, {}), allowed.get(rule, {})
        for path in sorted(now.keys() | then.keys()):
            has, may = now.get(path, 0), then.get(path, 0)
            if has > may:
                lines.append(f"{path} has {has} {of}; {LIST.name} allows {may}: {remedy}")
            elif has < may:
                lines.append(f"{path} has {has} {of}, fewer than the {may} of {LIST.name}: run `{LOWER}`")
    return lines


def lowered(found: Counts, allowed: Counts) -> dict[str, dict[str, int]]:
    """The list with what shrank: never a larger count, never a new row."""
    return {
        rule: {
            path: min(may, found[rule][path])
            for path, may in allowed.get(rule, {}).items()
            if found.get(rule, {}).get(path, 0)
        }
        for rule in RULES
    }


def read() -> dict[str, dict[str, int]]:
    return tomllib.loads(LIST.read_text())


def written(allowed: Counts) -> str:
    """The list as its file has it."""
    sections = (
        f"\n[{rule}]\n" + "".join(f'"{path}" = {number}\n' for path, number in sorted(allowed[rule].items()))
        for rule in RULES
    )
    return HEAD + "".join(sections)
