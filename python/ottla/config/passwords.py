"""Passwords as they stand in the coordination tree: encrypted with a key that is made from `password.encoder.secret`
(Apache Kafka's `PasswordEncoder`, KIP-226).

The text names everything but the secret, bytes in base64, in any order: `keyFactoryAlgorithm:PBKDF2WithHmacSHA512,
cipherAlgorithm:AES/CBC/PKCS5Padding,keyLength:128,salt:...,iterations:4096,encryptedPassword:...,passwordLength:13,
initializationVector:...`; for GCM also `authenticationTagLength`, in bits. So what was encoded under other settings is
decoded as long as the secret is the same.

The ciphers are those of the package `cryptography`, which is imported only where there is a password to encode or
decode (the extra `passwords`).
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.config.names import base_setting
from ottla.config.table import BROKER_SETTINGS, Update
from ottla.config.values import ConfigError, Type

if TYPE_CHECKING:
    from ottla.config.ciphers import Cipher

SECRET: Final = "password.encoder.secret"
OLD_SECRET: Final = "password.encoder.old.secret"
#: The best of those that Java has, which is the one that Kafka takes where none is configured.
KEY_FACTORY: Final = "PBKDF2WithHmacSHA512"
SALT_BYTES: Final = 256
#: Making a key takes a second per few million; whoever writes more into the tree wants to keep the broker busy.
ITERATIONS_MAX: Final = 10_000_000
BITS_MAX: Final = 4096
#: What names of secrets end with that a running broker takes.
_SECRETS: Final = tuple(
    setting.name
    for setting in BROKER_SETTINGS.values()
    if setting.type is Type.PASSWORD and setting.update is not Update.READ_ONLY
)


class CannotDecode(ConfigError):
    """A stored password that this secret, or this version, does not decode; says nothing of what is in it."""


def is_password(name: str) -> bool:
    """Whether the setting of brokers with this name is a secret. As in Kafka, a name that no setting has is one if it
    ends as one.
    """
    setting = base_setting(name)
    return name.endswith(_SECRETS) if setting is None else setting.type is Type.PASSWORD


class PasswordEncoder(NamedTuple):
    """What passwords are encoded with; decoding needs nothing but the secret. The key's length is in bits."""

    secret: str
    key_factory: str = KEY_FACTORY
    cipher: str = "AES/CBC/PKCS5Padding"
    key_bits: int = 128
    iterations: int = 4096

    def encode(self, name: str, password: str) -> str:
        """The password as it is stored, different each time. Raises ConfigError, naming the setting `name`, if the
        settings of the encoder name something that is not there.
        """
        salt = os.urandom(SALT_BYTES)
        try:
            cipher = _cipher(self.key_factory, self.cipher, self.secret, self.key_bits, salt, self.iterations)
            encrypted, start, tag_bits = cipher.encrypt(password.encode())
        except (ValueError, LookupError) as error:
            raise ConfigError(name, f"{name} cannot be stored: {error}; see password.encoder.*") from error
        values: dict[str, object] = {
            "keyFactoryAlgorithm": self.key_factory,
            "cipherAlgorithm": self.cipher,
            "keyLength": self.key_bits,
            "salt": _text(salt),
            "iterations": self.iterations,
            "encryptedPassword": _text(encrypted),
            "passwordLength": _java_length(password),
            "initializationVector": _text(start),
        }
        if tag_bits:
            values["authenticationTagLength"] = tag_bits
        return ",".join(f"{key}:{value}" for key, value in values.items())

    def decode(self, name: str, stored: str) -> str:
        """The password that is stored for the setting `name`. Raises CannotDecode."""
        try:
            values = dict(_pair(part) for part in re.split(r"\s*,\s*", stored))
            iterations, key_bits = int(values["iterations"]), int(values["keyLength"])
            if not (0 < iterations <= ITERATIONS_MAX and 0 < key_bits <= BITS_MAX):
                raise ValueError(f"{iterations} iterations, {key_bits} bits")
            salt, encrypted = _bytes(values["salt"]), _bytes(values["encryptedPassword"])
            cipher = _cipher(
                values["keyFactoryAlgorithm"], values["cipherAlgorithm"], self.secret, key_bits, salt, iterations
            )
            start = _bytes(values["initializationVector"])
            password = cipher.decrypt(encrypted, start, int(values.get("authenticationTagLength", 0))).decode()
            length = int(values["passwordLength"])
        except UnicodeDecodeError:
            raise CannotDecode(name, f"{name} cannot be decoded: {SECRET} is another one") from None
        except (ValueError, LookupError) as error:
            raise CannotDecode(name, f"{name} cannot be decoded ({error}): is {SECRET} another one?") from None
        if _java_length(password) != length:
            raise CannotDecode(name, f"{name} cannot be decoded: {SECRET} is another one")
        return password


def encoded_anew(stored: Mapping[str, str], old: PasswordEncoder, new: PasswordEncoder) -> dict[str, str]:
    """The settings with those passwords encoded anew that the old secret decodes: the others are of the new one, since
    the old one may stay in the file for longer than one start. Raises ConfigError if one cannot be encoded.
    """
    result = dict(stored)
    for name, text in stored.items():
        if is_password(name):
            try:
                password = old.decode(name, text)
            except CannotDecode:
                continue
            result[name] = new.encode(name, password)
    return result


def _cipher(key_factory: str, cipher: str, secret: str, key_bits: int, salt: bytes, iterations: int) -> Cipher:
    """Raises ValueError for what is not there; ConfigError if the package for it is not installed."""
    try:
        from ottla.config.ciphers import Cipher
    except ImportError as error:
        raise ConfigError(
            SECRET, f"stored passwords need the package cryptography ({error}): pip install 'ottla[passwords]'"
        ) from error
    return Cipher(cipher, key_factory, secret.encode(), key_bits, salt, iterations)


def _pair(part: str) -> tuple[str, str]:
    key, colon, value = part.rpartition(":")
    if not colon:
        raise ValueError("it is not encoded")
    return key.strip(), value.strip()


def _java_length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
