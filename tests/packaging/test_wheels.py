"""The page says of each wheel that `make wheels` makes what it is for."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_lists_the_wheels_of_a_release() -> None:
    (listed,) = re.findall(r"^WHEELS := (.+?[^\\])$", (ROOT / "Makefile").read_text(), re.MULTILINE | re.DOTALL)
    targets = [each.split(":") for each in listed.replace("\\\n", " ").split()]
    made = [f"{platform}_{target.partition('-')[0]}" for target, platform in targets]
    assert len(made) == 4
    page = (ROOT / "docs" / "install.md").read_text()
    assert re.findall(r"^\| `(m\w+linux_\w+)` \|", page, re.MULTILINE) == made
