r"""Expressions that choose topics, groups and settings by their names, as they stand in MirrorMaker 2's files.

They are written for Java's `java.util.regex`, and read here by Python's `re`. Most of them mean the same to both. What
does not is translated where that is certain, and refused otherwise: an expression that chose other topics than it did
before would be worse than an error.

| Java                              | here                                                      |
|-----------------------------------|-----------------------------------------------------------|
| `\Q..\E`                          | the text itself                                           |
| `\p{Alpha}`, ... of ASCII         | the same characters in brackets                           |
| `(?<name>..)`, `\k<name>`, `\z`   | `(?P<name>..)`, `(?P=name)`, `\Z`                         |
| `(?u)`, `(?d)`                    | nothing: they say nothing of names                        |
| `(?i)` not at the beginning       | refused                                                   |
| `[a-z&&[^x]]`, `[a[bc]]`          | refused                                                   |
| other `\p{..}`, and a single `{`  | refused                                                   |
| `\d`, `\w`, `\s`                  | of ASCII, as in Java                                      |

Commas separate expressions, so none can have one in itself. Java joins all of a list into one; here each is matched by
itself, so that `(?i)` holds for the expression that it stands in.
"""

from __future__ import annotations

import re
from typing import Final

#: Java's classes of ASCII characters, as they are written within brackets.
CLASSES: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r"\s",
}

_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
_CLASS: Final = re.compile(r"\\([pP])(?:\{(?:Is)?([^}]*)\}|(.))", re.DOTALL)
_GROUP: Final = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>")
_BACK: Final = re.compile(r"\\k<([a-zA-Z][a-zA-Z0-9]*)>")
_FLAGS: Final = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_COUNT: Final = re.compile(r"\{\d+\}")


class Filter:
    """Names that one of some expressions matches, and none of others does; both as whole names."""

    def __init__(self, wanted: str, excluded: str = "") -> None:
        """Expressions with commas between them. Raises ValueError for one that cannot be read."""
        self._wanted = expressions(wanted)
        self._excluded = expressions(excluded)

    def takes(self, name: str) -> bool:
        return _match(self._wanted, name) and not _match(self._excluded, name)


def _match(expressions: list[re.Pattern[str]], name: str) -> bool:
    return any(each.fullmatch(name) is not None for each in expressions)


def expressions(text: str) -> list[re.Pattern[str]]:
    """Those of a text that has commas between them. Raises ValueError: one cannot be read; it says what to do."""
    return [_compiled(part.strip()) for part in text.split(",") if part.strip()]


def _compiled(expression: str) -> re.Pattern[str]:
    translated = _Translation(expression).text()
    try:
        return re.compile(translated, re.ASCII)
    except (re.error, ValueError, OverflowError) as error:
        advice = "; every name is `.*`" if expression == "*" else ""
        raise ValueError(f"'{expression}' is no regular expression: {error}{advice}") from None


class _Translation:
    """One expression of Java's in Python's syntax."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._at = 0

    def text(self) -> str:
        """Raises ValueError for what means something else to Python."""
        parts = []
        is_inside = False  # of brackets
        opened = 0
        while self._at < len(self._expression):
            here = self._expression[self._at]
            if here == "\\":
                parts.append(self._escape(is_inside=is_inside))
            elif is_inside:
                if here == "[" or self._expression.startswith("&&", self._at):
                    raise self._wrong("brackets within brackets", "write all characters in one pair of brackets")
                is_inside = here != "]" or self._at == opened
                parts.append(self._take(1))
            elif here == "[":
                is_inside = True
                parts.append(self._take(2 if self._expression.startswith("[^", self._at) else 1))
                opened = self._at
            elif here == "(":
                parts.append(self._group())
            elif here == "{":
                if (count := _COUNT.match(self._expression, self._at)) is None:
                    raise self._wrong(
                        "a { that is no number of times such as {3}",
                        "a comma ends an expression, so name each case, or write \\{ for the character",
                    )
                parts.append(self._take(len(count[0])))
            else:
                parts.append(self._take(1))
        return "".join(parts)

    def _take(self, length: int) -> str:
        self._at += length
        return self._expression[self._at - length : self._at]

    def _escape(self, *, is_inside: bool) -> str:
        if quoted := _QUOTED.match(self._expression, self._at):
            self._take(len(quoted[0]))
            return re.escape(quoted[1])
        if named := _CLASS.match(self._expression, self._at):
            characters = CLASSES.get(named[2] or "")
            if characters is None or (named[1] == "P" and is_inside):
                raise self._wrong(named[0], "write the characters in brackets, such as [a-zA-Z]")
            self._take(len(named[0]))
            return characters if is_inside else f"[{'^' if named[1] == 'P' else ''}{characters}]"
        if back := _BACK.match(self._expression, self._at):
            self._take(len(back[0]))
            return f"(?P={back[1]})"
        return self._take(2).replace(r"\z", r"\Z")

    def _group(self) -> str:
        if named := _GROUP.match(self._expression, self._at):
            self._take(len(named[0]))
            return f"(?P<{named[1]}>"
        flags = _FLAGS.match(self._expression, self._at)
        if flags is None:
            return self._take(1)
        on, off, end = flags.groups()
        if end == ")" and (self._at > 0 or off is not None):
            raise self._wrong(flags[0], "write it at the beginning, or `(?i:...)` around what it is for")
        self._take(len(flags[0]))
        on, off = (re.sub("[ud]", "", each or "") for each in (on, off))
        if end == ")":
            return f"(?{on})" if on else ""
        return f"(?{on}{f'-{off}' if off else ''}:"

    def _wrong(self, what: str, advice: str) -> ValueError:
        return ValueError(f"'{self._expression}' has {what}, which is not understood here: {advice}")
