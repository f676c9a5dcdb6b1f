"""Distinguished names, as the subjects of certificates have them: written as Java writes them, and compared.

Java's `X500Principal.getName()` follows RFC 2253, and says what that leaves open:

* The parts come in the opposite order of the certificate. The attributes of one part keep their order.
* Nine attributes have a keyword. Others have the number of their type, and `#` with the DER of their value in
  hexadecimal digits: `1.2.840.113549.1.9.1=#16056140622e63` is an address of mail.
* Text of every type is taken for UTF-8.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final

from ottla.broker.certificates import element, elements, first

KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
#: UTF8String, PrintableString, T61String, IA5String, GeneralString, UniversalString, BMPString.
TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E})
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"


def written(name: bytes) -> str:
    """A name in DER, as `X500Principal.getName()` writes it. Raises ValueError for what is none."""
    parts = ["+".join(_written(*attribute) for attribute in part) for part in _parts(name)]
    return ",".join(reversed(parts))


def is_same(one: bytes, other: bytes) -> bool:
    """True if two names in DER are equal but for case and blanks, as Java compares them."""
    return _canonical(one) == _canonical(other)


def _parts(name: bytes) -> Iterator[list[tuple[str, int, bytes]]]:
    """The parts of a name: of each attribute its type, and its value's tag and content."""
    for _, part in elements(first(name)[1]):
        attributes = [[*elements(attribute)] for _, attribute in elements(part)]
        yield [(_number(kind), tag, content) for (_, kind), (tag, content) in attributes]


def _written(kind: str, tag: int, content: bytes) -> str:
    keyword = KEYWORDS.get(kind)
    if keyword is None or tag not in TEXTS:
        return f"{keyword or kind}=#{element(tag, content).hex()}"
    text = "".join(map(_escaped, content.decode("utf-8", "replace")))
    inner = text.strip(_BLANKS)
    if not inner:
        return f"{keyword}={_all_escaped(text)}"
    start = text.index(inner)
    return f"{keyword}={_all_escaped(text[:start])}{inner}{_all_escaped(text[start + len(inner) :])}"


def _escaped(character: str) -> str:
    if character == "\0":
        return "\\00"
    return f"\\{character}" if character in _ESCAPED else character


def _all_escaped(blanks: str) -> str:
    return "".join(f"\\{blank}" for blank in blanks)


def _canonical(name: bytes) -> list[frozenset[tuple[str, str | bytes]]]:
    return [
        frozenset((kind, _folded(content) if tag in TEXTS else content) for kind, tag, content in part)
        for part in _parts(name)
    ]


def _folded(content: bytes) -> str:
    text = unicodedata.normalize("NFKD", content.decode("utf-8", "replace"))
    return " ".join(text.casefold().split())


def _number(kind: bytes) -> str:
    """An object identifier with dots. Each of its numbers is in bytes of seven bits, of which the last has no eighth;
    the first one stands for two.
    """
    numbers, number = [], 0
    for byte in kind:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("an object identifier without an end")
    top = min(numbers[0] // 40, 2)
    return ".".join(map(str, [top, numbers[0] - 40 * top, *numbers[1:]]))
