"""What turns a program's values into bytes and back, what chooses partitions, and how such classes are named.

A class is an object, a class, or its name as `module:Class`; Java's own names of the classes here are understood too.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Generic, TypeVar

from ottla.classic.errors import InvalidConfig
from ottla.classic.java import absolute, hash_code
from ottla.classic.messages import Message

T = TypeVar("T")


class Encoder(Generic[T]):
    """Makes bytes of a value: of a message's, or of its key. One of `to_bytes` (0.8) and `to_message` (0.7) is to be
    there. It may raise; the message is then not sent.
    """

    def to_bytes(self, data: T) -> bytes | None:
        return self.to_message(data).value

    def to_message(self, data: T) -> Message:
        return Message(self.to_bytes(data))


class Decoder(Generic[T]):
    """Makes a value of a message's bytes, which are never None."""

    def from_bytes(self, data: bytes) -> T:
        raise NotImplementedError


class DefaultEncoder(Encoder[bytes | None]):
    """Bytes as they are."""

    def to_bytes(self, data: bytes | None) -> bytes | None:
        if data is not None and not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"DefaultEncoder takes bytes, not {type(data).__name__}")
        return data


class DefaultDecoder(Decoder[bytes]):
    """Bytes as they are."""

    def from_bytes(self, data: bytes) -> bytes:
        return data


class StringEncoder(Encoder[str]):
    """Text as UTF-8."""

    def to_bytes(self, data: str | None) -> bytes | None:
        if data is not None and not isinstance(data, str):
            raise TypeError(f"StringEncoder takes str, not {type(data).__name__}")
        return None if data is None else data.encode()


class StringDecoder(Decoder[str]):
    """UTF-8 as text."""

    def from_bytes(self, data: bytes) -> str:
        return data.decode()


class NullEncoder(Encoder[Any]):
    """No bytes at all."""

    def to_bytes(self, data: Any) -> bytes | None:
        return None


class Partitioner(Generic[T]):
    """Chooses a partition for a key that is not None, from 0 to `num_partitions` - 1."""

    def partition(self, key: T, num_partitions: int) -> int:
        raise NotImplementedError


class DefaultPartitioner(Partitioner[Any]):
    """`abs(hashCode(key)) % n` with Java's hashes, also of bytes (Java's ByteArrayPartitioner): programs in both
    languages put a key into one partition.
    """

    def partition(self, key: Any, num_partitions: int) -> int:
        return absolute(hash_code(key)) % num_partitions


_JAVA = {
    "kafka.serializer.DefaultEncoder": DefaultEncoder,
    "kafka.serializer.StringEncoder": StringEncoder,
    "kafka.serializer.NullEncoder": NullEncoder,
    "kafka.serializer.DefaultDecoder": DefaultDecoder,
    "kafka.serializer.StringDecoder": StringDecoder,
    "kafka.producer.DefaultPartitioner": DefaultPartitioner,
    "kafka.producer.ByteArrayPartitioner": DefaultPartitioner,
}


def made(name: str, what: Any, *methods: str) -> Any:
    """The object that a setting names; `methods` are those it must have.

    Raises:
        InvalidConfig: there is no such class, it cannot be made without arguments, or it lacks a method.
    """
    found = _JAVA.get(what) if isinstance(what, str) else what
    if found is None:
        module, colon, attribute = str(what).partition(":")
        if not colon:
            raise InvalidConfig(f"'{name}' is an object or module:Class, not {what!r}")
        try:
            found = getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as problem:
            raise InvalidConfig(f"'{name}': there is no {what}: {problem}") from problem
    if isinstance(found, type):
        try:
            found = found()
        except Exception as problem:
            raise InvalidConfig(f"'{name}': {found} cannot be made: {problem}") from problem
    for method in methods:
        if not callable(getattr(found, method, None)):
            raise InvalidConfig(f"'{name}': {type(found).__name__} has no method {method}")
    return found
