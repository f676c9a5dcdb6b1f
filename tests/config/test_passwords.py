"""Passwords as Kafka stores them; `tests/compat/test_passwords.py` has Kafka write and read them."""

import sys

import pytest

from ottla.config import ConfigError
from ottla.config.dynamic import stored, usable
from ottla.config.passwords import CannotDecode, PasswordEncoder, encoded_anew

ENCODER = PasswordEncoder("password-encoder-secret")
OTHER = PasswordEncoder("another secret")
NAME = "listener.name.external.ssl.keystore.password"
TRUST = "listener.name.external.ssl.truststore.password"


@pytest.mark.parametrize(
    ("key_factory", "cipher", "key_bits"),
    [  # PasswordEncoderTest.testEncodeDecodeAlgorithms
        ("PBKDF2WithHmacSHA512", "DES/CBC/PKCS5Padding", 64),
        ("PBKDF2WithHmacSHA512", "DESede/CBC/PKCS5Padding", 192),
        ("PBKDF2WithHmacSHA512", "AES/CBC/PKCS5Padding", 128),
        ("PBKDF2WithHmacSHA512", "AES/CFB/PKCS5Padding", 128),
        ("PBKDF2WithHmacSHA512", "AES/OFB/PKCS5Padding", 256),
        ("PBKDF2WithHmacSHA1", "AES/CBC/PKCS5Padding", 128),
        ("PBKDF2WithHmacSHA512", "AES/GCM/NoPadding", 128),
        ("PBKDF2WithHmacSHA256", "AES/CBC/PKCS5Padding", 128),
    ],
)
def test_what_was_encoded_is_decoded(key_factory: str, cipher: str, key_bits: int) -> None:
    encoder = PasswordEncoder(ENCODER.secret, key_factory, cipher, key_bits, 1024)
    for password in ("test-password", "", "pässwörd \U0001f511"):
        text = encoder.encode(NAME, password)
        assert password not in text or not password
        # The text says with what: the decoder's own settings do not matter.
        assert ENCODER.decode(NAME, text) == password
        assert encoder.encode(NAME, password) != text
        with pytest.raises(CannotDecode, match=f"{NAME} cannot be decoded") as problem:
            OTHER.decode(NAME, text)
        assert not password or password not in str(problem.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "a:b",
        ENCODER.encode(NAME, "x").replace("AES/CBC", "AES/XYZ"),
        ENCODER.encode(NAME, "x").replace("PBKDF2WithHmacSHA512", "PBEWithMD5AndDES"),
        ENCODER.encode(NAME, "x").replace("iterations:4096", "iterations:99999999999"),
        ENCODER.encode(NAME, "x").replace("iterations:4096", "iterations:-1"),
        ENCODER.encode(NAME, "x").replace("keyLength:128", "keyLength:99"),
        ENCODER.encode(NAME, "x").replace("passwordLength:1", "passwordLength:2"),
    ],
)
def test_what_is_none_is_said(text: str) -> None:
    with pytest.raises(CannotDecode, match=NAME):
        ENCODER.decode(NAME, text)


@pytest.mark.parametrize(
    "encoder",
    [
        ENCODER._replace(cipher="AES/ECB/PKCS5Padding"),
        ENCODER._replace(cipher="Blowfish/CBC/PKCS5Padding"),
        ENCODER._replace(cipher="AES"),
        ENCODER._replace(key_bits=100),
        ENCODER._replace(key_factory="PBEWithMD5AndDES"),
    ],
)
def test_an_encoder_that_is_not_there(encoder: PasswordEncoder) -> None:
    with pytest.raises(ConfigError, match=f"{NAME} cannot be stored: "):
        encoder.encode(NAME, "x")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    text = ENCODER.encode(NAME, "x")
    monkeypatch.delitem(sys.modules, "ottla.config.ciphers")
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    for action in (lambda: ENCODER.encode(NAME, "x"), lambda: ENCODER.decode(NAME, text)):
        with pytest.raises(ConfigError, match=r"pip install 'ottla\[passwords\]'"):
            action()


def test_a_new_secret() -> None:
    settings = {NAME: ENCODER.encode(NAME, "old"), TRUST: OTHER.encode(TRUST, "new"), "num.io.threads": "9"}
    anew = encoded_anew(settings, ENCODER, OTHER)
    # What the old secret does not decode is of the new one already.
    assert OTHER.decode(NAME, anew.pop(NAME)) == "old"
    assert anew == {TRUST: settings[TRUST], "num.io.threads": "9"}


def test_what_is_used_of_what_is_stored() -> None:
    settings = {NAME: ENCODER.encode(NAME, "x"), TRUST: OTHER.encode(TRUST, "y"), "num.io.threads": "9"}
    kept, problems = usable(settings, for_one_broker=True, passwords=ENCODER)
    assert kept == {NAME: "x", "num.io.threads": "9"}
    (problem,) = problems
    assert str(problem).startswith(f"{TRUST} cannot be decoded")
    kept, problems = usable(settings, for_one_broker=True)
    assert kept == {"num.io.threads": "9"}
    assert len(problems) == 2
    _, problems = usable(settings, for_one_broker=False, passwords=ENCODER)
    assert all("one broker" in str(problem) for problem in problems)


def test_what_is_stored_of_what_is_wanted() -> None:
    before = {NAME: ENCODER.encode(NAME, "x"), TRUST: OTHER.encode(TRUST, "y")}

    def put(wanted: dict[str, str], *names: str, passwords: PasswordEncoder | None = ENCODER) -> dict[str, str]:
        decoded = {NAME: "x"} if passwords else {}
        return stored(wanted, before, decoded=decoded, altered=names, for_one_broker=True, passwords=passwords)

    # Nobody touched them, also not the one that this secret does not decode.
    assert put({NAME: "x", "num.io.threads": "9"}, "num.io.threads") == {**before, "num.io.threads": "9"}
    assert put({"num.io.threads": "9"}, "num.io.threads", passwords=None) == {**before, "num.io.threads": "9"}
    changed = put({NAME: "z", TRUST: "t"}, NAME, TRUST)
    assert {name: ENCODER.decode(name, text) for name, text in changed.items()} == {NAME: "z", TRUST: "t"}
    assert put({NAME: "x"}, TRUST) == {NAME: before[NAME]}
    assert put({}, NAME, TRUST, passwords=None) == {}
    with pytest.raises(ConfigError, match=r"password\.encoder\.secret is not configured"):
        put({NAME: "z"}, NAME, passwords=None)
    with pytest.raises(ConfigError, match="one broker"):
        stored({NAME: "z"}, {}, decoded={}, altered=[NAME], for_one_broker=False, passwords=ENCODER)
