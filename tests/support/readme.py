"""What README tells people to type."""

import re
from pathlib import Path

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text()


def block(language: str, containing: str) -> str:
    """The code block of README that has this text in it."""
    (found,) = [text for text in re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL) if containing in text]
    return str(found)
