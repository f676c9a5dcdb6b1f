"""`sasl.jaas.config`, a line in the syntax of Java's JAAS files, and user and password out of it:

    org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="it's \\"secret\\"";

Kafka reads it with Java's StreamTokenizer (`JaasConfig`), and so do we: quotes of both kinds, backslashes in them, and
comments from a slash to the end of the line. A value without quotes must be a word; one that begins with a digit, a dot
or a hyphen is a number to Java, which Kafka refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

SETTING = "sasl.jaas.config"
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
FLAGS = ("required", "requisite", "sufficient", "optional")

_TOKEN = re.compile(
    r"""
    (?P<space> [\x00-\x20]+ | /\*.*?(?:\*/|\Z) | /[^\r\n]* )
    | (?P<quoted> "(?:[^"\\\r\n]|\\.)*" | '(?:[^'\\\r\n]|\\.)*' )
    | (?P<word> [A-Za-z_$\xa0-\U0010ffff] [-A-Za-z0-9_$.\xa0-\U0010ffff]* )
    | (?P<other> [-.0-9]+ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def credentials(text: str, mechanism: str) -> tuple[str, str]:
    """User and password for the mechanism.

    Raises:
        ValueError: the text is not one login module with both; nothing of the text is in the message but names.
    """
    module = MODULES[mechanism]
    example = f'{module} required username="..." password="...";'
    if not text:
        raise ValueError(f"{SETTING} is missing, which says who to be: {example}")
    found = parse(text, example)
    if found[0] != module:
        raise ValueError(f"{SETTING} has the login module {found[0]}; sasl.mechanism={mechanism} needs {module}")
    options = found[1]
    if options.get("tokenauth", "").lower() == "true":
        raise ValueError(f"{SETTING}: delegation tokens (tokenauth) are not supported; give user and password")
    for name in ("username", "password"):
        if not options.get(name):
            raise ValueError(f"{SETTING} has no {name}: {example}")
    return options["username"], options["password"]


def parse(text: str, example: str, setting: str = SETTING) -> tuple[str, dict[str, str]]:
    """The name of the login module and its options.

    Raises:
        ValueError: the text is not one login module; nothing of the text is in the message but names.
    """
    return _module(list(_tokens(text)), setting, example)


def _module(tokens: list[tuple[str, bool]], setting: str, example: str) -> tuple[str, dict[str, str]]:
    words = [value for value, is_word in tokens[:2] if is_word]
    if len(words) < 2 or words[1].lower() not in FLAGS:
        raise ValueError(f"{setting} does not begin with a login module and '{FLAGS[0]}': {example}")
    options: dict[str, str] = {}
    position = 2
    while (token := _at(tokens, position)) != (";", False):
        name, is_word = token
        if name == "" and not is_word:
            raise ValueError(f"{setting} does not end with a semicolon")
        value, is_value = _at(tokens, position + 2)
        if not is_word or _at(tokens, position + 1) != ("=", False) or not is_value:
            what = f"'{name}'" if is_word and _at(tokens, position + 1) == ("=", False) else "an option"
            raise ValueError(f"{setting}: the value of {what} must be a word, or stand in quotes: {example}")
        options[name] = value
        position += 3
    if position + 1 < len(tokens):
        raise ValueError(f"{setting} has more than one login module, or something after the semicolon; it takes one")
    return words[0], options


def parse_file(text: str) -> dict[str, list[tuple[str, dict[str, str]]]]:
    """The login modules of each entry of a JAAS file, as Java's javax.security.auth.login.Configuration has it:
    `NAME { MODULE FLAG OPTION=VALUE ...; ... };`.

    Raises:
        ValueError: it is none; nothing of the text is in the message but names.
    """
    tokens = list(_tokens(text))
    found: dict[str, list[tuple[str, dict[str, str]]]] = {}
    position = 0
    while position < len(tokens):
        name, is_word = tokens[position]
        if not is_word or _at(tokens, position + 1) != ("{", False):
            raise ValueError("an entry does not begin with its name and '{'")
        modules = found.setdefault(name, [])
        position += 2
        while _at(tokens, position) != ("}", False):
            begin = position
            while _at(tokens, position) != (";", False):
                if position >= len(tokens):
                    raise ValueError(f"the entry {name} does not end")
                position += 1
            position += 1
            modules.append(_module(tokens[begin:position], f"the entry {name}", "NAME required OPTION=VALUE;"))
        if _at(tokens, position + 1) != (";", False):
            raise ValueError(f"the entry {name} does not end with '}};'")
        position += 2
    return found


def _at(tokens: list[tuple[str, bool]], position: int) -> tuple[str, bool]:
    return tokens[position] if position < len(tokens) else ("", False)


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Each token, and whether it is a word, with quotes or without."""
    for match in _TOKEN.finditer(text):
        if match["quoted"] is not None:
            yield _ESCAPE.sub(_unescaped, match["quoted"][1:-1]), True
        elif match["space"] is None:
            yield match[0], match["word"] is not None


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPED.get(code, code)
