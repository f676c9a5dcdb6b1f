"""Ours against kafka-python's protocol module: it reads what we write, and writes the same bytes again."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import random
import warnings
from functools import cache
from typing import Any

import pytest

from ottla.wire import KEYS, headers
from ottla.wire.k15_describe_groups import DescribedGroup, DescribeGroupsResponse
from ottla.wire.k18_api_versions import ApiVersionsResponse
from ottla.wire.schema import Message
from tests.peers.skips import module
from tests.wire.instances import codec, every_message, instance

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@cache
def theirs() -> dict[tuple[int, str], Any]:
    """Their classes by key and side."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import kafka.protocol
        from kafka.protocol.api_message import ApiMessage

        found = {}
        for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
            if ".old" in module.name or "generate" in module.name:
                continue
            for _, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                if issubclass(cls, ApiMessage) and cls is not ApiMessage and cls._class_version is None:
                    found[cls.json["apiKey"], cls.json["type"]] = cls
        return found


def test_most_apis_can_be_compared() -> None:
    assert len({key for key, _ in theirs()} & set(KEYS)) > 40


def known(key: int, side: str, version: int) -> bool:
    """True if kafka-python has the message in that version. Its definitions are the newest: versions that Kafka 4.0
    dropped are gone from them.
    """
    cls = theirs().get((key, side))
    return cls is not None and version >= int(cls.json["validVersions"].partition("-")[0])


def comparable(*sides: str) -> list[tuple[int, str, int]]:
    """Every message of these sides that kafka-python has; none where kafka-python is absent."""
    try:
        return [message for message in every_message() if message[1] in sides and known(*message)]
    except ImportError:
        return []


def test_most_messages_are_compared() -> None:
    module("clients", "kafka")
    compared = comparable("request", "response")
    left_out = [message for message in every_message() if message not in compared]
    assert len(compared) > 2 * len(left_out) > 0


@pytest.mark.parametrize(("key", "side", "version"), comparable("request", "response"))
def test_the_same_bytes(key: int, side: str, version: int) -> None:
    cls = theirs()[key, side]
    ours, encode, decode = codec(key, side)
    rng = random.Random(f"{key} {side} {version} kafka-python")
    for _ in range(5):
        message: Any = instance(getattr(ours, side), version, rng)
        if isinstance(message, ApiVersionsResponse):
            message.error_code = 0  # with an error they read no further than version 0
        if isinstance(message, DescribeGroupsResponse):
            for group in message.groups:
                group.authorized_operations = DescribedGroup().authorized_operations  # they make None of "unknown"
        encoded = encode(version, message)
        read = cls.decode(encoded, version=version)
        compare(message, read)
        written = cls(**{name: getattr(read, name) for name in cls.fields if hasattr(read, name)}, version=version)
        assert bytes(written.encode()) == encoded
        assert decode(version, written.encode()) == message


def compare(ours: Message, theirs: Any) -> None:
    """Fields that have the same name on both sides have the same value."""
    for name in ours.__struct_fields__:
        if name in theirs.fields:
            one, other = getattr(ours, name), getattr(theirs, name)
            if isinstance(one, list) and one and isinstance(one[0], Message):
                for item, their_item in zip(one, other, strict=True):
                    compare(item, their_item)
            elif isinstance(one, Message):
                compare(one, other)
            elif name == "authorized_operations":
                assert other is None
            elif isinstance(one, bytes):
                assert one == bytes(other), name
            else:
                assert one == other, name


@pytest.mark.parametrize(("key", "side", "version"), comparable("request"))
def test_the_same_request_headers(key: int, side: str, version: int) -> None:
    request = theirs()[key, side](version=version)
    request.with_header(correlation_id=7, client_id="client")
    body = bytes(request.encode())
    assert headers.request_frame(key, version, 7, "client", body) == bytes(request.encode(header=True, framed=True))
