"""A new API is one file in `ottla/wire`, one in `ottla/broker/api` and its test: here an overlay of the package has two
such files more, and nothing else.
"""

import os
import subprocess
import sys
from pathlib import Path

import ottla

DECLARATION = '''
"""Echo (key 171): says what it was told."""

from __future__ import annotations

from ottla.wire.schema import Api, Message


class EchoRequest(Message):
    words: list[str] = []


class EchoResponse(Message):
    words: list[str] = []


ECHO = Api(
    171, "Echo", "0-1", flexible=1, request=EchoRequest, response=EchoResponse, items_max=1000, needs="READ on TOPIC"
)
'''
HANDLER = """
from ottla.wire.k171_echo import EchoResponse


def handle(call, rooms):
    call.reply(EchoResponse(words=call.message.words))
"""
TEST = """
import sys, trio
from ottla import wire
from ottla.broker.broker import Broker
from ottla.client.connection import Connection
from ottla.config import BrokerConfig
from ottla.wire.k171_echo import ECHO, EchoRequest


async def main():
    assert wire.name(171) == "Echo"
    async with Broker.start(BrokerConfig({"log.dirs": sys.argv[1], "listeners": "PLAINTEXT://127.0.0.1:0"})) as broker:
        async with await Connection.connect("127.0.0.1", broker.addresses.listening[0].port) as connection:
            for version in (0, 1):
                answer = await connection.call(ECHO, EchoRequest(words=["a", "b"]), version)
                assert answer.words == ["a", "b"]
            # Negotiated: ApiVersions names it.
            assert (await connection.call(ECHO, EchoRequest(words=["c"]))).words == ["c"]


trio.run(main)
"""


def overlay(source: Path, target: Path, *added: tuple[str, str]) -> None:
    """A folder with links to all that another one has, and with files of its own."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        if entry.name != "__pycache__" and not (target / entry.name).exists():
            (target / entry.name).symlink_to(entry)
    for name, text in added:
        (target / name).write_text(text)


def test_an_api_with_a_key_above_those_of_kafka(tmp_path: Path) -> None:
    package, own = Path(ottla.__file__).parent, tmp_path / "python/ottla"
    overlay(package / "wire", own / "wire", ("k171_echo.py", DECLARATION))
    overlay(package / "broker/api", own / "broker/api", ("k171_echo.py", HANDLER))
    overlay(package / "broker", own / "broker")
    overlay(package, own)
    environment = {**os.environ, "PYTHONPATH": str(own.parent)}
    done = subprocess.run(
        [sys.executable, "-c", TEST, str(tmp_path / "data")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
