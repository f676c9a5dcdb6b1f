"""The blocks that README and the pages of `docs` tell people to type.

A block of a page is run by a test as it stands, but for addresses and folders; the test names it with `block`. One that
cannot be run, since it is about machines of the reader or a part of something else, has the word `fragment` behind its
language. `unproven` finds those that are neither.
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from tests.support import shown

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text()
#: Those with blocks that people type. The pages of measurements list what the benchmarks have typed.
PAGES = ["README.md", *(str(each.relative_to(PROJECT)) for each in sorted((PROJECT / "docs").glob("*.md")))]
for folder in ("pipelines", "python"):
    PAGES += [str(each.relative_to(PROJECT)) for each in sorted((PROJECT / "docs" / folder).glob("*.md"))]


def block(language: str, containing: str, page: str = "README.md") -> str:
    """The block of code of a page that has this text in it.

    `unproven` reads the calls of this function in the tests, so arguments are written out.
    """
    text = (PROJECT / page).read_text()
    (found,) = [each for each in shown.blocks(text, language) if containing in each]
    return found


def unproven(page: str, text: str) -> list[str]:
    """The first lines of those blocks of a page, whose text this is, that no test runs and no mark excuses."""
    named = [(language, containing) for language, containing, of in _named() if of == page]
    return [
        content.splitlines()[0]
        for language, is_fragment, content in shown.all_blocks(text)
        if not is_fragment and not any(language == each and containing in content for each, containing in named)
    ]


@functools.cache
def _named() -> frozenset[tuple[str, str, str]]:
    """Language, text and page of each block that a test asks for."""
    return frozenset(call for file in sorted((PROJECT / "tests").rglob("test_*.py")) for call in _calls(file))


def _calls(file: Path) -> Iterator[tuple[str, str, str]]:
    text = file.read_text()
    if "support.readme import" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "block":
            values = [each.value for each in node.args if isinstance(each, ast.Constant)]
            assert len(values) == len(node.args), f"{file}:{node.lineno}: not written out"
            language, containing, page = map(str, [*values, "README.md"][:3])
            yield language, containing, page
