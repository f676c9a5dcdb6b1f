"""Certificates in PEM (X.509, RFC 5280): the parts that a broker looks at, read from DER without a library."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

VERSION: Final = 0xA0
EXTENSIONS: Final = 0xA3
SEQUENCE: Final = 0x30
SUBJECT_ALTERNATIVE_NAMES: Final = bytes.fromhex("551d11")
"""The object identifier 2.5.29.17, as DER has it."""


class Certificate(NamedTuple):
    """The parts of a certificate. begin, end: the first and the last moment at which it is valid. subject: the name of
    whom it belongs to, in DER. alternative_names: his other names, each in DER.
    """

    begin: datetime
    end: datetime
    subject: bytes
    alternative_names: frozenset[bytes]


def read(certificate: str) -> Certificate:
    """Reads a certificate in PEM, which something else has found to be one."""
    body = "".join(certificate.split("-----")[2].split())
    _, whole, _ = first(base64.b64decode(body))
    _, signed, _ = first(whole)
    # version (optional), serialNumber, signature, issuer, validity, subject, subjectPublicKeyInfo, others
    parts = [*elements(signed)]
    if parts[0][0] != VERSION:
        parts.insert(0, (VERSION, b""))
    times = [_time(kind, text) for kind, text in elements(parts[4][1])]
    return Certificate(times[0], times[1], element(*parts[5]), frozenset(_alternative_names(parts[7:])))


def _alternative_names(parts: list[tuple[int, bytes]]) -> Iterator[bytes]:
    for tag, content in parts:
        if tag != EXTENSIONS:
            continue
        for _, extension in elements(first(content)[1]):
            # extnID, critical (optional), extnValue: a text of bytes, which is DER again
            (_, name), *_, (_, value) = elements(extension)
            if name == SUBJECT_ALTERNATIVE_NAMES:
                yield from (element(*one) for one in elements(first(value)[1]))


def first(der: bytes) -> tuple[int, bytes, bytes]:
    """The first element in DER: its tag, its content, and what follows it. Raises ValueError if there is none."""
    length, start = int.from_bytes(der[1:2]), 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[2:start])
    if len(der) < start + length:
        raise ValueError("an element in DER that is cut short")
    return der[0], der[start : start + length], der[start + length :]


def elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """The elements that DER consists of: the tag and the content of each."""
    while der:
        tag, content, der = first(der)
        yield tag, content


def element(tag: int, content: bytes) -> bytes:
    """The DER of one element."""
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    size = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(size)]) + size + content


def _time(kind: int, text: bytes) -> datetime:
    """UTCTime (tag 23), whose years are 1950 to 2049, or GeneralizedTime."""
    digits = text.decode()
    if kind == 23:
        digits = ("19" if digits >= "50" else "20") + digits
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
