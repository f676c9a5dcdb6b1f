"""Records of TLS 1.3 after the handshake that no library would send: what is wrong ends the connection before anything
is answered, what is odd and harmless is counted, and the broker serves as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.metrics.scraped import is_there
from tests.support import hellos
from tests.support.hellos import hello, record
from tests.support.scanned import Scanned, scanned
from tests.support.sealed_tls import PLAIN_BYTES_MAX, SealedTls
from tests.support.tls import API_VERSIONS

pytestmark = pytest.mark.skipif(not is_there, reason="prometheus_client is absent")

GROWTH_BYTES_MAX = 8 << 20
#: rustls takes as many records in a row that have nothing in them, as many warnings, and as many changes of keys.
EMPTY_MAX, WARNINGS_MAX, KEYS_MAX = 32, 4, 32
USER_CANCELED = b"\1\x5a"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scanned]:
    with scanned(tmp_path_factory.mktemp("records")) as made:
        yield made


@pytest.fixture
def client(one: Scanned) -> Iterator[SealedTls]:
    with SealedTls(one.port, one.context(), one.folder / "secrets") as made:
        yield made
    one.is_as_before()


def is_served(client: SealedTls) -> bool:
    """True if there is a whole answer to one request."""
    client.say(client.sealed(API_VERSIONS))
    size = client.hear(4)
    return len(size) == 4 and len(client.hear(int.from_bytes(size, "big"))) == int.from_bytes(size, "big")


def test_a_request_in_many_records(client: SealedTls) -> None:
    """With nothing between its bytes, and with as many records of nothing as are taken in a row."""
    assert is_served(client)
    for byte in API_VERSIONS[:-1]:
        nothing = [client.sealed(b"") for _ in range(EMPTY_MAX)]
        client.say(b"".join([*nothing, client.sealed(bytes([byte]), padding=byte)]))
    client.say(client.sealed(API_VERSIONS[-1:]))
    assert len(client.hear(4)) == 4


@pytest.mark.parametrize("count", [EMPTY_MAX + 1, 10_000])
def test_records_of_nothing_in_a_row(one: Scanned, client: SealedTls, count: int) -> None:
    before = one.resident_bytes()
    client.say(b"".join(client.sealed(b"") for _ in range(count)))
    client.say(client.sealed(API_VERSIONS))
    client.end()
    one.said("TooManyEmptyFragments")
    assert one.resident_bytes() - before < GROWTH_BYTES_MAX


def test_the_longest_record_is_taken_and_one_byte_more_is_not(client: SealedTls) -> None:
    requests = (PLAIN_BYTES_MAX // len(API_VERSIONS)) * API_VERSIONS
    missing = PLAIN_BYTES_MAX - len(requests)
    client.say(client.sealed(requests + API_VERSIONS[:missing]))
    client.say(client.sealed(API_VERSIONS[missing:]))
    size = client.hear(4)
    answer = 4 + int.from_bytes(size, "big")
    count = PLAIN_BYTES_MAX // len(API_VERSIONS) + 1
    assert len(client.hear(count * answer - 4)) == count * answer - 4
    client.say(client.sealed(bytes(PLAIN_BYTES_MAX + 1)))
    assert client.end() == "TLSV1_ALERT_RECORD_OVERFLOW"


def _again(client: SealedTls) -> bytes:
    """A record that was sent before."""
    sent = client.sealed(b"")
    return sent + sent


ALERT, HANDSHAKE, DATA = hellos.ALERT, hellos.HANDSHAKE, hellos.DATA
#: By name: what is sent behind half a request. The other half follows it, and must not be answered.
WRONG: dict[str, Callable[[SealedTls], bytes]] = {
    "ciphertext that is too long": lambda one: record(bytes(PLAIN_BYTES_MAX + 257), DATA, 0x0303),
    "ciphertext of 64 KiB": lambda one: record(bytes((1 << 16) - 1), DATA, 0x0303),
    "ciphertext of nothing": lambda one: record(b"", DATA, 0x0303),
    "the same once more": _again,
    "no kind": lambda one: one.sealed(bytes(10), 0),
    "an unknown kind": lambda one: one.sealed(b"x", 99),
    "a heartbeat": lambda one: one.sealed(b"\1\x40\0", hellos.HEARTBEAT),
    "a heartbeat in the clear": lambda one: record(b"\1\x40\0", hellos.HEARTBEAT, 0x0303),
    "data in the clear": lambda one: record(API_VERSIONS, DATA, 0x0303),
    "another cipher": lambda one: one.sealed(b"\1", hellos.CHANGE_CIPHER_SPEC),
    "another cipher in the clear": lambda one: record(b"\1", hellos.CHANGE_CIPHER_SPEC, 0x0303),
    "good-bye": lambda one: one.sealed(b"\1\0", ALERT),
    "good-bye in the clear": lambda one: record(b"\1\0", ALERT, 0x0303),
    "an error": lambda one: one.sealed(b"\2\x28", ALERT),
    "a warning that is unknown": lambda one: one.sealed(b"\1\x77", ALERT),
    "half an alert": lambda one: one.sealed(b"\1", ALERT),
    "regrets without end": lambda one: b"".join(one.sealed(USER_CANCELED, ALERT) for _ in range(1000)),
    "a hello": lambda one: one.sealed(hello(), HANDSHAKE),
    "a hello in the clear": lambda one: record(hello()),
    "another end of the handshake": lambda one: one.sealed(b"\x14\0\0\x20" + bytes(32), HANDSHAKE),
    "a ticket": lambda one: one.sealed(b"\4\0\0\4" + bytes(4), HANDSHAKE),
    "a question for a certificate": lambda one: one.sealed(b"\x0d\0\0\4" + bytes(4), HANDSHAKE),
    "half a change of keys": lambda one: one.sealed(b"\x18\0\0", HANDSHAKE),
    "changes of keys without end": lambda one: b"".join(one.key_update(True) for _ in range(1000)),
    "a message without end": lambda one: (
        one.sealed(b"\x18\xff\xff\xff", HANDSHAKE)
        + b"".join(one.sealed(bytes(PLAIN_BYTES_MAX), HANDSHAKE) for _ in range(200))
    ),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_is_wrong_ends_the_connection(
    one: Scanned, client: SealedTls, wrong: Callable[[SealedTls], bytes]
) -> None:
    before = one.resident_bytes()
    client.say(client.sealed(API_VERSIONS[:7]))
    client.say(wrong(client))
    client.say(client.sealed(API_VERSIONS[7:]))
    client.end()
    assert one.resident_bytes() - before < GROWTH_BYTES_MAX


def test_what_is_odd_and_harmless_is_taken(client: SealedTls) -> None:
    client.say(client.sealed(b"", padding=PLAIN_BYTES_MAX))
    for _ in range(WARNINGS_MAX):
        client.say(client.sealed(USER_CANCELED, ALERT))
    assert is_served(client)
    # Each request between them has them counted anew.
    for _ in range(3):
        for number in range(KEYS_MAX):
            client.say(client.key_update(number % 2 == 0))
        assert is_served(client)
