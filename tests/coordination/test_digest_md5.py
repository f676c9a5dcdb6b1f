"""The exchange of RFC 2831, by its own example and by what a server may send instead."""

import hashlib

import pytest

from ottla.coordination.digest_md5 import Exchange, User

CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'
LAST = b"rspauth=ea40f60335c427b5527b84dbabcdfffd"


def exchange(name: str = "chris", password: str = "secret") -> Exchange:
    return Exchange(User(name, password, "here"), "imap/elwood.innosoft.com", "OA6MHXh6VqTrRk")


def test_the_example_of_the_rfc() -> None:
    login = exchange()
    assert sorted(login.answer(CHALLENGE).split(b",")) == sorted(
        [
            b"charset=utf-8",
            b'username="chris"',
            b'realm="elwood.innosoft.com"',
            b'nonce="OA6MG9tEQGm2hh"',
            b"nc=00000001",
            b'cnonce="OA6MHXh6VqTrRk"',
            b'digest-uri="imap/elwood.innosoft.com"',
            b"response=d388dad90d4bbd760a152321f2143af7",
            b"qop=auth",
        ]
    )
    login.check(LAST)


def test_what_is_within_quotes_stays_one_text() -> None:
    """A server that sends what it likes writes no directive of ours."""
    answer = exchange('a",b="c\\').answer(b'realm="x\\",y=\\"z" , nonce = "1,2" ,qop="auth-int, auth"')
    assert rb'username="a\",b=\"c\\"' in answer
    assert rb'realm="x\",y=\"z"' in answer
    assert b'nonce="1,2"' in answer


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"nonsense",
        b'nonce=""',
        b'realm="r"',
        b'nonce="1',
        b'nonce="1",algorithm=sha-256',
        b'nonce="1",qop="auth-int,auth-conf"',
        b"\xff\x00",
    ],
)
def test_challenges_that_are_none(challenge: bytes) -> None:
    with pytest.raises(ValueError, match="server"):
        exchange().answer(challenge)


@pytest.mark.parametrize("last", [b"", b"rspauth=", b"rspauth=" + b"0" * 32, b'rspauth="', b"other=1"])
def test_a_server_that_does_not_know_the_password(last: bytes) -> None:
    login = exchange()
    login.answer(CHALLENGE)
    with pytest.raises(ValueError, match="server"):
        login.check(last)


def test_each_exchange_draws_a_nonce() -> None:
    user = User("chris", "secret", "here")
    assert Exchange(user, "a/b").answer(CHALLENGE) != Exchange(user, "a/b").answer(CHALLENGE)


@pytest.mark.parametrize(("password", "encoding"), [("größe", "latin-1"), ("gęślą", "utf-8")])
def test_texts_are_hashed_in_the_encoding_that_holds_them(password: str, encoding: str) -> None:
    def digest(*parts: bytes) -> bytes:
        return hashlib.md5(b":".join(parts)).hexdigest().encode()

    secret = hashlib.md5(b"chris:r:" + password.encode(encoding)).digest()
    session = digest(secret, b"n", b"OA6MHXh6VqTrRk")
    uri = digest(b"AUTHENTICATE", b"imap/elwood.innosoft.com")
    wanted = digest(session, b"n", b"00000001", b"OA6MHXh6VqTrRk", b"auth", uri)
    assert b"response=" + wanted in exchange(password=password).answer(b'realm="r",nonce="n"')


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(User("chris", "secret", "here"))
