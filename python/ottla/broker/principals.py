"""The principal of a client that has shown a certificate: its name, by `ssl.principal.mapping.rules` (KIP-371).

The rules are tried in order on the subject of the certificate, as Java writes it (`distinguished_names`). The first
one that applies gives the name; where none does the client is refused. A rule is `DEFAULT`, for the subject as it is,
or `RULE:PATTERN/REPLACEMENT/` with `L` or `U` behind it for letters in lower or upper case. The pattern has to match
all of the subject, and each of its matches in it is replaced.

Patterns are those of Java. They are translated to Python's where the two differ; what Python has no word for (sets in
sets, `\\p{...}`) is refused at the start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ottla.broker.distinguished_names import written
from ottla.errors import RemoteProtocolError

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

RULES: Final = "ssl.principal.mapping.rules"
#: `SslPrincipalMapper` of Kafka 2.7, which has the same letters in both of them.
_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLIT: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)", re.ASCII)
_PARSED: Final = re.compile(_RULE, re.ASCII)
#: What a dot stands for in Java: anything but the end of a line.
_DOT: Final = r"[^\n\r\x85\u2028\u2029]"
_TOKEN: Final = re.compile(
    r"""
    (?P<escaped> \\k<(?P<again>\w+)> | \\. )
    | (?P<set> \[ \^? \]? (?: \\. | [^\]\\] )* \] )
    | (?P<named> \(\? < (?P<name>[A-Za-z]\w*) > )
    | (?P<dot> \. )
    """,
    re.VERBOSE | re.DOTALL,
)
_REPLACED: Final = re.compile(r"\\(?P<literal>.)|\$(?P<number>\d+)|\$\{(?P<name>\w+)\}|(?P<wrong>[$\\])", re.DOTALL)
#: Subjects whose principal is kept.
KEPT_MAX: Final = 1024

Mapper = Callable[[str], str | None]


class NoPrincipal(RemoteProtocolError):
    """No rule applies to the name in a client's certificate."""


def setting(listener: str, config: BrokerConfig) -> str:
    """The setting that has the rules of a listener."""
    own = f"listener.name.{listener.lower()}.{RULES}"
    return own if config.is_set(own) else RULES


def of_certificate(subject: bytes, listener: str, config: BrokerConfig) -> str:
    """The name of a client by the subject of its certificate, in DER. Raises NoPrincipal."""
    return named(subject, config.get_str(setting(listener, config)) or "")


@lru_cache(KEPT_MAX)
def named(subject: bytes, text: str) -> str:
    """The same by the text of the rules."""
    try:
        name = written(subject)
    except ValueError as error:
        raise NoPrincipal(f"the name in the client's certificate is not one: {error}") from None
    for mapper in rules(text):
        if (principal := mapper(name)) is not None:
            return principal
    raise NoPrincipal(f"no rule of {RULES} applies to the name {name} in the client's certificate")


@lru_cache(64)
def rules(text: str) -> list[Mapper]:
    """The rules in the text of the setting. Raises ValueError, which says what is wrong with which rule."""
    return [*_rules(text)]


def _rules(text: str) -> Iterator[Mapper]:
    for found in _SPLIT.finditer(text.strip()):
        rule = found[1]
        match = _PARSED.match(rule)
        if match is None or match.end() != len(rule):
            raise ValueError(f"{rule} is no rule: DEFAULT and RULE:PATTERN/REPLACEMENT/ are, with L or U behind it")
        if match[1] is not None:
            yield str
        elif match[2] is not None:
            yield _rule(rule, match[2], match[4], match[6])


def _rule(rule: str, pattern: str, replacement: str, case: str) -> Mapper:
    try:
        compiled = re.compile(_translated(pattern), re.ASCII)
    except (re.error, ValueError) as error:
        raise ValueError(f"{rule}: its pattern is not understood: {error}") from None
    try:
        parts = _parts(replacement, compiled)
    except ValueError as error:
        raise ValueError(f"{rule}: its replacement is not possible: {error}") from None

    def name(found: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else found[part] or "" for part in parts)

    def mapper(text: str) -> str | None:
        if compiled.fullmatch(text) is None:
            return None
        principal = compiled.sub(name, text)
        return {"L": principal.lower, "U": principal.upper, "": principal.__str__}[case]()

    return mapper


def _translated(pattern: str) -> str:
    """A pattern of Java's, in Python's words. Raises ValueError."""

    def token(found: re.Match[str]) -> str:
        if found["set"] is not None and _has_another(found["set"]):
            raise ValueError(f"{found['set']} is a set in another")
        if found["again"] is not None:
            return f"(?P={found['again']})"
        if found["name"] is not None:
            return f"(?P<{found['name']}>"
        return _DOT if found["dot"] is not None else found[0]

    return _TOKEN.sub(token, pattern)


def _has_another(found: str) -> bool:
    """True for a set of characters with another one in it."""
    plain = re.sub(r"\\.", "", found, flags=re.DOTALL)
    return "[" in plain[1:] or "&&" in plain


def _parts(replacement: str, pattern: re.Pattern[str]) -> list[str | int]:
    """Texts, and the numbers of groups. As in Java, a number has as many digits as make a group of the pattern. As in
    Kafka, one that is no group stands for itself, where there are groups at all. Raises ValueError.
    """
    parts: list[str | int] = []
    end = 0
    for found in _REPLACED.finditer(replacement):
        parts.append(replacement[end : found.start()])
        end = found.end()
        if found["literal"] is not None:
            parts.append(found["literal"])
        elif found["name"] is not None:
            if found["name"] not in pattern.groupindex:
                raise ValueError(f"{found[0]} is no group of the pattern")
            parts.append(pattern.groupindex[found["name"]])
        elif found["number"] is not None:
            parts += _group(found["number"], pattern.groups)
        else:
            raise ValueError(f"{found[0]} has no meaning there")
    return [*parts, replacement[end:]]


def _group(digits: str, groups: int) -> list[str | int]:
    if int(digits[0]) > groups:
        if not groups:
            raise ValueError(f"${digits} is no group of the pattern")
        return [f"${digits}"]
    count = 1
    while count < len(digits) and int(digits[: count + 1]) <= groups:
        count += 1
    return [int(digits[:count]), digits[count:]]
