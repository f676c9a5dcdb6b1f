"""Java's properties syntax, which `server.properties` files are written in (java.util.Properties.load).

A logical line is `key=value`, `key:value` or `key value`; white space around the separator and before the key is
dropped. `#` and `!` open a comment. A backslash at the end joins the next line without its leading white space;
elsewhere it escapes: `\\t \\n \\r \\f`, `\\uXXXX`, and any other character stands for itself. White space at the end
of a value belongs to the value (settings trim it later). A later line wins over an earlier one with the same key.
Files are UTF-8 here, and ISO-8859-1, which is Java's encoding, where they are not. Escapes are understood either way.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ottla.config.values import ConfigError


class Entry(NamedTuple):
    """One `key=value` of a file, with the number of the line that it begins on, from 1."""

    key: str
    value: str
    line: int


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NAMES = {character: name for name, character in _ESCAPES.items()}
# The key ends at the first white space, `=` or `:` that is not escaped; one `=` or `:` may follow the white space.
_ENTRY = re.compile(r"((?:[^\\\s=:]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)


def parse(text: str) -> Iterator[Entry]:
    """Yields the entries of a file's text in order.

    Raises ConfigError for a `\\u` that four hexadecimal digits do not follow, naming the line.
    """
    lines = iter(enumerate(re.split(r"\r\n|\n|\r", text), start=1))
    for number, line in lines:
        logical = line.lstrip(" \t\f")
        if not logical or logical[0] in "#!":
            continue
        while _is_continued(logical):
            _, following = next(lines, (0, ""))
            logical = logical[:-1] + following.lstrip(" \t\f")
        if match := _ENTRY.fullmatch(logical):
            yield Entry(_unescape(match[1], number), _unescape(match[2], number), number)


def write(entries: Mapping[str, str]) -> str:
    """The text of a file with these entries, which Java reads as well, whatever its encoding is taken for."""
    return "".join(f"{_escape(key, every_blank=True)}={_escape(value)}\n" for key, value in entries.items())


def _escape(text: str, *, every_blank: bool = False) -> str:
    def character(match: re.Match[str]) -> str:
        found = match[0]
        if found in _NAMES:
            return f"\\{_NAMES[found]}"
        if " " <= found <= "~":
            return f"\\{found}"
        # Java's characters are those of UTF-16.
        units = found.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))

    blanks = " " if every_blank else "(?<![^ ]) "
    return re.sub(rf"[\\=:#!]|[^ -~]|{blanks}", character, text)


def decode(data: bytes) -> str:
    """The text of a file: UTF-8, or else ISO-8859-1. Raises ConfigError for what is no text, such as a key store, and
    for UTF-16. The mark that editors of Windows put before UTF-8 is passed over.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ConfigError("", "it is UTF-16, as some editors of Windows write it; save it as UTF-8")
    data = data.removeprefix(codecs.BOM_UTF8)
    if (place := data.find(b"\0")) >= 0:
        raise ConfigError("", f"it is not a text file: byte {place} is 0")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def read(path: str | os.PathLike[str]) -> list[Entry]:
    """The entries of a file. Raises ConfigError if the file cannot be read or is no text."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ConfigError("", f"cannot read {os.fspath(path)}: {error.strerror}") from None
    try:
        return list(parse(decode(data)))
    except ConfigError as error:
        raise ConfigError("", f"{os.fspath(path)}: {error}") from None


def _is_continued(line: str) -> bool:
    """Whether the line ends in a backslash that is not itself escaped."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text

    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code == "u":
            raise ConfigError("", f"line {line}: four hexadecimal digits must follow \\u")
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)

    # Two escapes are one character beyond the first 65,536.
    return _ESCAPE.sub(character, text).encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
