"""Links of Markdown: who follows them from README.md comes to every page, and to no page that does not exist."""

import re
from collections.abc import Iterator
from pathlib import Path

FIRST = "README.md"
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def targets(root: Path, page: str) -> Iterator[tuple[str, str]]:
    """The links of a page to files: as they stand there, and as paths from the root. A folder means its README.md."""
    for link in LINK.findall((root / page).read_text()):
        if "://" not in link and not link.startswith("mailto:"):
            path = ((root / page).parent / link).resolve()
            if path.is_dir() and (path / FIRST).exists():
                path /= FIRST
            yield link, path.relative_to(root.resolve()).as_posix()


def walk(root: Path) -> tuple[set[str], list[str]]:
    """The pages that one comes to, and the links that lead nowhere, as "page: link"."""
    reached, broken, ahead = {FIRST}, [], [FIRST]
    while ahead:
        page = ahead.pop()
        for link, target in targets(root, page):
            if not (root / target).exists():
                broken.append(f"{page}: {link}")
            elif target.endswith(".md") and target not in reached:
                reached.add(target)
                ahead.append(target)
    return reached, broken
