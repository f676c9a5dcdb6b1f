"""`server.properties` syntax, compared with Java's own parser where there is Java."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.properties import Entry, parse, read, write
from ottla.config.values import ConfigError

from .oracle import run_java

#: Everything that `write` has to escape.
WRITTEN = {"a b=c:d#e!f\\": "  g  h=i:j#k!l\\ ", "#m": "\t\n\r\f", "grüße €": "😀", "n": ""}
TEXTS = {
    "plain": "a=1\nb: 2\nc 3\n",
    "comments": "# a=1\n  ! b=2\n\n \t\nc=3 # not a comment\n",
    "space": "  a  =  1  \n\tb\t:\t2\n c   3\n",
    "separators": "a==1\nb:=2\nc =: 3\nd = = 4\ne\n=f\n:g\n",
    "continued": "a=1,\\\n    2,\\\n\t3\nb=x\\\\\nc=y\\\\\\\n z\nd=end\\",
    "continued comment": "# no \\\na=1\nb=\\\n# inside\nc=2\n",
    "escapes": "a\\=b\\:c\\ d=\\t\\n\\r\\f\\q\\\\\\u00e9\\u20AC\n\\#x=1\n",
    "line ends": "a=1\r\nb=2\rc=3\\\r\n  4\n",
    "twice": "a=1\na=2\n",
    "unicode": "grüße=schön €\n",
    "empty": "",
    "last line": "a=1",
    "continued by nothing": "a=1\\\n\nb=2",
    "blank after continuation": "a=\\\n   \\\n  x\n",
    "two units": "a=\\ud83d\\ude00\n",
    "written": write(WRITTEN),
}


def as_dictionary(text: str) -> dict[str, str]:
    return {entry.key: entry.value for entry in parse(text)}


@pytest.mark.java
def test_java_reads_the_same(tmp_path: Path) -> None:
    for name, text in TEXTS.items():
        (tmp_path / name).write_bytes(text.encode())
    printed = run_java("JavaProperties.java", *(str(tmp_path / name) for name in TEXTS))
    java = [
        dict(
            [bytes.fromhex(item).decode("utf-16-be") for item in line.split("\t")] for line in part.splitlines() if line
        )
        for part in printed.split("-\n")[:-1]
    ]
    assert dict(zip(TEXTS, java, strict=True)) == {name: as_dictionary(text) for name, text in TEXTS.items()}


def test_entries_know_their_lines() -> None:
    assert list(parse("\n# c\na=1\\\n 2\n\nb=3")) == [Entry("a", "12", 3), Entry("b", "3", 6)]


def test_the_kinds_of_line() -> None:
    assert as_dictionary("a=1\nb: 2\nc 3\nd\n!x=1\n") == {"a": "1", "b": "2", "c": "3", "d": ""}


def test_broken_unicode_escape_names_the_line() -> None:
    with pytest.raises(ConfigError, match="line 2: four hexadecimal digits"):
        list(parse("a=1\nb=\\u12x4"))


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        entries = list(parse(text))
    except ConfigError:
        assert "\\u" in text
    else:
        assert len(entries) <= text.count("\n") + text.count("\r") + 1


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_escaped_text_reads_as_itself(entries: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        return "".join(f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else letter for letter in text)

    assert as_dictionary("\n".join(f"{escaped(key)}={escaped(value)}" for key, value in entries.items())) == entries


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_written_is_ascii_and_reads_as_itself(entries: dict[str, str]) -> None:
    text = write(entries)
    assert text.isascii()
    assert as_dictionary(text) == entries


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*server.properties: No such file"):
        read(tmp_path / "server.properties")


def test_a_file_that_is_not_text_says_so(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a=\0\n")
    with pytest.raises(ConfigError, match=r"x: it is not a text file: byte 2 is 0"):
        read(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"b=1\na=\\u12\n")
    with pytest.raises(ConfigError, match=r"x: line 2: four hexadecimal digits"):
        read(tmp_path / "x")


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1"])
def test_files_are_utf_8_or_else_what_java_reads(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "x").write_bytes("password=Grüße\nname=é".encode(encoding))
    assert {entry.key: entry.value for entry in read(tmp_path / "x")} == {"password": "Grüße", "name": "é"}
