"""Ciphers by the names that Java has for them, as `password.encoder.cipher.algorithm` gives them: those with which
Apache Kafka tries its `PasswordEncoder`. Imports the package `cryptography`; who imports this must expect ImportError.
"""

from __future__ import annotations

import os
import re
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.decrepit.ciphers.modes import CFB, OFB
from cryptography.hazmat.primitives import ciphers, hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.padding import PKCS7

DIGESTS: Final = {
    "SHA1": hashes.SHA1,
    "SHA224": hashes.SHA224,
    "SHA256": hashes.SHA256,
    "SHA384": hashes.SHA384,
    "SHA512": hashes.SHA512,
}
MODES: Final = {"CBC": CBC, "CFB": CFB, "OFB": OFB}
PADDINGS: Final = {"PKCS5PADDING": True, "NOPADDING": False}
#: Java gives the length of tags in bits.
GCM_NONCE_BYTES, GCM_TAG_BITS = 12, 128
DES_KEY_BYTES, DESEDE_KEY_BYTES = 8, 24


class Cipher:
    """A cipher with its key, made from a secret. The constructor raises ValueError for what this version does not have,
    and for a key of a wrong length.
    """

    def __init__(self, name: str, key_factory: str, secret: bytes, key_bits: int, salt: bytes, iterations: int) -> None:
        algorithm, mode, padding = [part.upper() for part in [*name.split("/"), "", ""][:3]]
        self._is_gcm = mode == "GCM" and algorithm == "AES"
        if padding not in PADDINGS or not (self._is_gcm or mode in MODES):
            raise ValueError(f"this version has no cipher {name}")
        # GCM needs no padding, whatever its name says.
        self._is_padded = PADDINGS[padding] and not self._is_gcm
        self._mode = mode
        match = re.fullmatch("PBKDF2WITHHMAC(.+)", key_factory.upper())
        if match is None or match[1] not in DIGESTS:
            raise ValueError(f"this version has no key factory {key_factory}")
        key = PBKDF2HMAC(DIGESTS[match[1]](), key_bits // 8, salt, iterations).derive(secret)
        self._key = key
        self._algorithm: AES | TripleDES
        if algorithm == "AES":
            self._algorithm = AES(key)
        elif algorithm == "DES" and len(key) == DES_KEY_BYTES:
            self._algorithm = TripleDES(key * 3)
        elif algorithm == "DESEDE" and len(key) == DESEDE_KEY_BYTES:
            self._algorithm = TripleDES(key)
        else:
            raise ValueError(f"this version has no cipher {name} with keys of {key_bits} bits")

    def encrypt(self, data: bytes) -> tuple[bytes, bytes, int]:
        """What was encrypted, the initialization vector it began with, and the length of its tag in bits (0: none)."""
        if self._is_gcm:
            start = os.urandom(GCM_NONCE_BYTES)
            sealed: bytes = AESGCM(self._key).encrypt(start, data, None)
            return sealed, start, GCM_TAG_BITS
        start = os.urandom(self._algorithm.block_size // 8)
        if self._is_padded:
            padder = PKCS7(self._algorithm.block_size).padder()
            data = padder.update(data) + padder.finalize()
        encryptor = ciphers.Cipher(self._algorithm, MODES[self._mode](start)).encryptor()
        return encryptor.update(data) + encryptor.finalize(), start, 0

    def decrypt(self, data: bytes, start: bytes, tag_bits: int) -> bytes:
        """Raises ValueError if the key or the data are others; another key may also give other bytes."""
        if self._is_gcm:
            if tag_bits != GCM_TAG_BITS:
                raise ValueError(f"a tag of {tag_bits} bits")
            try:
                opened: bytes = AESGCM(self._key).decrypt(start, data, None)
            except InvalidTag:
                raise ValueError("the tag does not fit") from None
            return opened
        decryptor = ciphers.Cipher(self._algorithm, MODES[self._mode](start)).decryptor()
        plain: bytes = decryptor.update(data) + decryptor.finalize()
        if not self._is_padded:
            return plain
        unpadder = PKCS7(self._algorithm.block_size).unpadder()
        unpadded: bytes = unpadder.update(plain) + unpadder.finalize()
        return unpadded
