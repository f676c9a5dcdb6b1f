"""Hellos of every kind at a listener with TLS, as scanners of servers send them: what is old, weak or wrong is refused
by an alert, and after each the broker serves as before and holds no connection more.

Other tests have the usual clients (`test_tls.py`), and records after the handshake (`test_tls_records.py`).
"""

from __future__ import annotations

import itertools
import os
import socket
import ssl
from collections.abc import Iterator

import pytest

from tests.metrics.scraped import is_there
from tests.peers.certificates import certified
from tests.support import hellos
from tests.support.hellos import SUITES_1_2, SUITES_1_3, asked, hello, numbers, record, records, refused, sized
from tests.support.scanned import Scanned, scanned
from tests.support.tls import API_VERSIONS, is_served, store
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(not is_there, reason="prometheus_client is absent")

# Alerts
UNEXPECTED, HANDSHAKE_FAILURE, ILLEGAL, DECODE_ERROR, PROTOCOL_VERSION = 10, 40, 47, 50, 70
#: Each kind of suite that a scanner calls weak: NULL, EXPORT, RC4, DES, 3DES, RSA's own key exchange, without a
#: certificate, with a key that is not renewed, with CBC, and with a prime group.
WEAK = {
    "NULL": (0x0001, 0x0002, 0x003B, 0xC006, 0xC010),
    "EXPORT": (0x0003, 0x0006, 0x0008, 0x0014, 0x0017),
    "RC4": (0x0004, 0x0005, 0xC007, 0xC011),
    "DES": (0x0009, 0x0015, 0x000A, 0x0016, 0xC008, 0xC012),
    "RSA": (0x002F, 0x0035, 0x003C, 0x009C, 0x009D, 0xC09C),
    "anonymous": (0x0034, 0x006D, 0x00A6, 0xC018),
    "static": (0xC004, 0xC02D, 0xC02E, 0xC031),
    "CBC": (0xC009, 0xC00A, 0xC013, 0xC023, 0xC024, 0xC027),
    "DHE": (0x0033, 0x0067, 0x009E, 0x009F, 0xCCAA),
}
OLD = {"SSL 3": hellos.SSL_3, "TLS 1.0": hellos.TLS_1_0, "TLS 1.1": hellos.TLS_1_1}
GROWTH_BYTES_MAX = 8 << 20


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scanned]:
    with scanned(tmp_path_factory.mktemp("scanned")) as made:
        yield made


@pytest.fixture(autouse=True)
def _as_before(one: Scanned) -> Iterator[None]:
    yield
    one.is_as_before()


def in_1_2(suites: tuple[int, ...] = SUITES_1_2, **others: object) -> bytes:
    return record(hello(suites, versions=(), **others))  # type: ignore[arg-type]


# --- protocols ---


@pytest.mark.parametrize("version", OLD.values(), ids=OLD)
def test_old_protocols_are_refused(one: Scanned, version: int) -> None:
    every = (*itertools.chain(*WEAK.values()), *SUITES_1_2)
    assert refused(one.port, record(hello(every, versions=(), legacy=version), version=version)) == PROTOCOL_VERSION
    # The list decides where there is one.
    assert refused(one.port, record(hello(every, versions=(version,)))) == PROTOCOL_VERSION


def test_a_hello_of_ssl_2_is_no_tls(one: Scanned) -> None:
    said = bytes.fromhex("802e 01 0002 0015 0000 0010 010080 020080 030080 040080 050080 060040 0700c0") + bytes(16)
    assert refused(one.port, said) is not None
    one.said("the client does not speak TLS")


@pytest.mark.parametrize("suites", [SUITES_1_2, (*SUITES_1_2, hellos.FALLBACK)], ids=["without", "with SCSV"])
def test_who_speaks_less_than_it_could_sees_it(one: Scanned, suites: tuple[int, ...]) -> None:
    """TLS 1.3 says so in the server's random number, which is signed (RFC 8446, 4.1.3). As Java's servers, this one
    knows no other sign (RFC 7507): the next protocol below is refused to everybody.
    """
    answer = asked(one.port, in_1_2(suites)).hello
    assert answer is not None
    assert answer.version == hellos.TLS_1_2
    assert answer.random.endswith(b"DOWNGRD\x01")


def test_protocols_and_numbers_of_the_future_are_passed_over(one: Scanned) -> None:
    """RFC 8701: unknown numbers keep nobody out."""
    for said in (
        record(hello((0x0A0A, *SUITES_1_3), versions=(0x7F1C, 0x0305, hellos.TLS_1_3, 0x0A0A))),
        record(hello(extensions={0x1A1A: b"", 0x2A2A: os.urandom(300)})),
        record(hello(legacy=0x03FF)),
        record(hello(), version=0x03FF),
    ):
        answer = asked(one.port, said).hello
        assert answer is not None
        assert answer.version == hellos.TLS_1_3
    answer = asked(one.port, in_1_2(legacy=0x03FF)).hello
    assert answer is not None
    assert answer.version == hellos.TLS_1_2


# --- suites, and what goes with them ---


@pytest.mark.parametrize("suites", WEAK.values(), ids=WEAK)
def test_weak_suites_are_refused(one: Scanned, suites: tuple[int, ...]) -> None:
    assert refused(one.port, in_1_2(suites)) == HANDSHAKE_FAILURE
    # Nor are they chosen beside good ones, wherever they stand.
    answer = asked(one.port, in_1_2((*suites, *SUITES_1_2))).hello
    assert answer is not None
    assert answer.suite in SUITES_1_2


@pytest.mark.parametrize(
    ("versions", "expected"), [((), SUITES_1_2), ((hellos.TLS_1_3,), SUITES_1_3)], ids=["TLS 1.2", "TLS 1.3"]
)
def test_every_suite_that_is_spoken_keeps_secrets_forward(
    one: Scanned, versions: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """Asks for all suites there are, and again for all but those that were chosen, until none is left."""
    left = [number for high in (0x00, 0x13, *range(0xC0, 0xD0)) for number in range(high << 8, (high + 1) << 8)]
    found: set[int] = set()
    while (answer := asked(one.port, records(hello(left, versions=versions), 16_000)).hello) is not None:
        assert answer.suite not in found
        found.add(answer.suite)
        left.remove(answer.suite)
    assert found == {*expected}


def test_groups_and_signatures_that_are_weak_are_refused(one: Scanned) -> None:
    small = sized(numbers([0x0001, 0x000F, 0x0010, 0x0013]))
    assert refused(one.port, in_1_2(extensions={hellos.GROUPS: small})) == HANDSHAKE_FAILURE
    share = sized(numbers([0x0100]) + sized(b"x" * 256))
    prime: hellos.Extensions = {hellos.GROUPS: sized(numbers([0x0100])), hellos.KEY_SHARE: share}
    assert refused(one.port, record(hello(extensions=prime))) == HANDSHAKE_FAILURE
    sha_1 = {hellos.SIGNATURES: sized(numbers([0x0203, 0x0201, 0x0101]))}
    assert refused(one.port, in_1_2(extensions=sha_1)) == HANDSHAKE_FAILURE
    assert refused(one.port, in_1_2(extensions={hellos.SIGNATURES: None})) == HANDSHAKE_FAILURE


def test_nothing_is_compressed(one: Scanned) -> None:
    assert refused(one.port, in_1_2(compressions=b"\1")) == ILLEGAL
    assert refused(one.port, record(hello(compressions=b"\1\0"))) == ILLEGAL
    answer = asked(one.port, in_1_2(compressions=b"\1\0")).hello
    assert answer is not None
    assert answer.compression == 0


def test_renegotiation_is_the_secure_one_and_hearts_do_not_beat(one: Scanned) -> None:
    """A server that answers to neither would be called open to CVE-2009-3555; one that beats, to CVE-2014-0160."""
    offered = {hellos.BEAT: b"\1"}
    answer = asked(one.port, in_1_2((*SUITES_1_2, hellos.RENEGOTIATION), extensions=offered)).hello
    assert answer is not None
    assert answer.extensions[hellos.RENEGOTIATION_INFO] == b"\0"
    assert hellos.EXTENDED_MASTER_SECRET in answer.extensions
    assert hellos.BEAT not in answer.extensions
    bleeding = b"\1\x40\0"
    # Before a hello, in the middle of one, and after the answer.
    assert refused(one.port, record(bleeding, hellos.HEARTBEAT)) == DECODE_ERROR
    whole = records(hello(), 100)
    assert refused(one.port, whole[:105] + record(bleeding, hellos.HEARTBEAT)) is None
    with hellos.Scanner(one.port) as scanner:
        scanner.say(in_1_2() + record(bleeding, hellos.HEARTBEAT))
        assert hellos.HEARTBEAT not in [kind for kind, _ in scanner.answer(until_closed=True).records]


# --- names ---


#: Names that no host can have.
ODD_NAMES = (b"", b"a" * 300, "bücher".encode(), b"a..b", b"\0", b"a" * 64 + b".b", b"*.b", b"\xff\xfe", b"a" * 60_000)


def test_names_of_servers(one: Scanned) -> None:
    """The certificate is the same whatever the name. An address is none (RFC 6066), but many clients send one."""
    for name in (b"localhost", b"LOCALHOST", b"localhost.", b"other.example", b"a_b", b"127.0.0.1", b"::1"):
        assert asked(one.port, record(hello(extensions={hellos.SERVER_NAME: hellos.server_name(name)}))).hello, name
    for name in ODD_NAMES:
        said = hello(extensions={hellos.SERVER_NAME: hellos.server_name(name)})
        assert refused(one.port, records(said, 16_000)) in (ILLEGAL, DECODE_ERROR), name
    two = sized(2 * (b"\0" + sized(b"localhost")))
    for body in (two, b"", sized(b""), hellos.server_name(b"x", kind=7)):
        said = record(hello(extensions={hellos.SERVER_NAME: body}))
        assert refused(one.port, said) in (ILLEGAL, DECODE_ERROR), body


def test_protocols_of_applications_are_not_looked_at(one: Scanned) -> None:
    """Kafka has none: as Java's servers without a list of them, this one names none and goes on."""
    for name in (b"http/1.1", b"h2", b"kafka", b"\0", b"a" * 255):
        answer = asked(one.port, record(hello(extensions={hellos.ALPN: sized(sized(name, 1))}))).hello
        assert answer is not None
        assert hellos.ALPN not in answer.extensions
    for body in (sized(b""), sized(b"\0"), b"\0\x05\x20a"):
        assert refused(one.port, record(hello(extensions={hellos.ALPN: body}))) == DECODE_ERROR


# --- sizes and pieces ---


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_hello_in_many_records(one: Scanned, size: int) -> None:
    assert asked(one.port, records(hello(), size)).hello is not None


def test_a_hello_of_many_bytes_has_a_bound(one: Scanned) -> None:
    """A message of a handshake has at most 64 KiB. One that says it is longer is not waited for."""
    padding = 21
    assert asked(one.port, records(hello(extensions={padding: bytes(65_000)}), 16_384)).hello is not None
    before = one.resident_bytes()
    for length in (1 << 16, 1 << 20, (1 << 24) - 1):
        head = bytes([hellos.CLIENT_HELLO]) + length.to_bytes(3, "big")
        # The head alone ends it.
        assert refused(one.port, record(head)) is None
        refused(one.port, record(head) + b"".join(record(bytes(16_000)) for _ in range(100)))
    one.said("HandshakePayloadTooLarge")
    assert one.resident_bytes() - before < GROWTH_BYTES_MAX


def test_records_that_are_too_long(one: Scanned) -> None:
    head = bytes([hellos.CLIENT_HELLO]) + (60_000).to_bytes(3, "big")
    # The bound is that of an encrypted record of TLS 1.2, also where nothing is encrypted yet.
    for length in ((1 << 14) + 2049, 1 << 15, (1 << 16) - 1):
        assert refused(one.port, record(head + bytes(length - len(head)))) in (DECODE_ERROR, None)
    one.said("MessageTooLarge")


def test_records_of_nothing(one: Scanned) -> None:
    """Before a hello, within one, and of each other kind: no number of them is free."""
    assert refused(one.port, 1000 * record(b"")) == DECODE_ERROR
    assert refused(one.port, records(hello(), 100)[:105] + 1000 * record(b"")) == DECODE_ERROR
    for kind in (hellos.CHANGE_CIPHER_SPEC, hellos.ALERT, hellos.DATA):
        refused(one.port, records(hello(), 100)[:105] + 1000 * record(b"", kind))


def test_what_comes_instead_of_a_hello(one: Scanned) -> None:
    whole = records(hello(), 100)
    said = {
        "another message": record(bytes([hellos.SERVER_HELLO]) + hello()[1:]),
        "two at once": record(2 * hello(SUITES_1_2, versions=())),
        "no suites": in_1_2(()),
        "an unknown version of records": record(hello(), version=0x9999),
        "another cipher": 100 * record(b"\1", hellos.CHANGE_CIPHER_SPEC),
    }
    for name, data in said.items():
        assert refused(one.port, data) in (UNEXPECTED, DECODE_ERROR), name
    for name, data in {
        "good-bye": record(b"\1\0", hellos.ALERT),
        "good-bye within": whole[:105] + record(b"\1\0", hellos.ALERT),
        "regrets within": whole[:105] + 1000 * record(b"\1\x5a", hellos.ALERT),
        "an error within": whole[:105] + record(b"\2\x28", hellos.ALERT),
        "a request within": whole[:105] + record(API_VERSIONS, hellos.DATA),
    }.items():
        # It ends with or without an alert, but not with an answer.
        assert refused(one.port, data) in (None, UNEXPECTED, DECODE_ERROR), name


# --- sessions that go on ---


def _session(one: Scanned, context: ssl.SSLContext, kept: ssl.SSLSession | None) -> tuple[ssl.SSLSession, bool]:
    """The session of a new connection that wants to go on from the kept one, and whether it did."""
    with (
        socket.create_connection(("127.0.0.1", one.port), PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost", session=kept) as connection,
    ):
        connection.sendall(API_VERSIONS)
        assert connection.recv(1)
        assert connection.session is not None
        return connection.session, bool(connection.session_reused)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_does_not_outlive_the_broker(one: Scanned, version: ssl.TLSVersion) -> None:
    """The key of its tickets is nowhere but in its memory: who comes with one of before is let in as a new one."""
    context = one.context()
    context.minimum_version = context.maximum_version = version
    first, reused = _session(one, context, None)
    assert not reused
    assert first.has_ticket
    second, reused = _session(one, context, first)
    assert reused
    one.restart()
    _, reused = _session(one, context, second)
    assert not reused


def test_tickets_of_nobody(one: Scanned) -> None:
    """They are passed over, and no data are taken before the handshake is done, whatever a ticket promises."""
    for length in (0, 1, 15, 200, 10_000):
        assert asked(one.port, in_1_2(extensions={hellos.TICKET: os.urandom(length)})).hello is not None
    for count, length in ((1, 100), (50, 100), (1, 30_000)):
        identities = sized(count * (sized(os.urandom(length)) + bytes(4)))
        offered: hellos.Extensions = {hellos.PRE_SHARED_KEY: identities + sized(count * sized(os.urandom(32), 1))}
        answer = asked(one.port, records(hello(extensions=offered), 16_000)).hello
        assert answer is not None
        assert hellos.PRE_SHARED_KEY not in answer.extensions
        early = records(hello(extensions={**offered, hellos.EARLY_DATA: b""}), 16_000)
        with hellos.Scanner(one.port) as scanner:
            scanner.say(early + record(os.urandom(100), hellos.DATA, hellos.TLS_1_2))
            # It hears an alert or an end, and no answer to what it said so early.
            scanner.answer(until_closed=True)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_chain_of_certificates_without_end(one: Scanned, version: ssl.TLSVersion) -> None:
    """Half a megabyte of certificates: the broker says after 64 KiB that this is too much."""
    own = certified("client", one.authority)
    chain = store(one.folder / "chain.pem", own)
    chain.write_text(chain.read_text() + 1200 * certified("between").certificate_pem)
    context = one.context()
    context.minimum_version = context.maximum_version = version
    context.load_cert_chain(chain)
    before = one.resident_bytes()
    for _ in range(5):
        assert not is_served(one.mutual_port, context)
    one.said("HandshakePayloadTooLarge")
    assert one.resident_bytes() - before < GROWTH_BYTES_MAX
    usual = one.context()
    usual.load_cert_chain(store(one.folder / "usual.pem", own))
    assert is_served(one.mutual_port, usual)
