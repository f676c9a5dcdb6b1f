"""Bytes that no client sends, against a real broker process: it closes that connection, says why, and goes on.

What every test asserts besides its own subject, through the `target` fixture: another client's request is answered, the
process is the same one, its memory and its sockets are where they were.
"""

import contextlib
import os
import random
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from drive_confluent import Confluent
from worker import Start

from tests.compat.clients.worker import eventually
from tests.compat.matrix import CLIENTS, compare, plain
from tests.compat.raw import API_VERSIONS, METADATA, METADATA_OF_NOTHING, Connection, connection, frame, new_producer_id
from tests.peers.apache import Apache
from tests.peers.ottla import Brokers
from tests.peers.processes import Server

GROWTH_BYTES_MAX = 40 << 20
FRAME_BYTES_MAX = 104_857_600  # socket.request.max.bytes, Kafka's default


class Target:
    """The broker under attack."""

    def __init__(self, server: Server, port: int, is_ours: bool) -> None:
        self.server = server
        self.port = port
        self.is_ours = is_ours
        self.process = psutil.Process(server.pid)

    def sockets(self) -> int:
        """How many sockets the process holds open."""
        count = 0
        for file in Path(f"/proc/{self.server.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                count += os.readlink(file).startswith("socket:")
        return count

    def answers(self) -> None:
        """An honest client on a new connection is served."""
        with connection(self.port) as honest:
            answer = honest.ask(METADATA, 1, METADATA_OF_NOTHING, correlation=77)
        assert answer[:4] == struct.pack(">i", 77)

    def logged(self, *words: str) -> str:
        """The one line written about this that has all the words."""

        def lines() -> list[str]:
            return [line for line in self.server.output().splitlines() if all(word in line for word in words)]

        eventually(lambda: str(len(lines())), "1")
        assert len(lines()) == 1, f"{len(lines())} lines with {words}:\n{self.server.output_tail()}"
        return lines()[0]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder: Path = tmp_path_factory.mktemp("hostile")
    if os.environ.get("OTTLA_JUDGE") == "kafka":
        with Apache(folder) as apache:
            kafka = apache.broker("2.7.2", zookeeper=apache.zookeeper())
            yield Target(kafka, kafka.port, False)
    else:
        with Brokers(folder) as brokers:
            broker = brokers()
            yield Target(broker, broker.port, True)


@pytest.fixture
def target(attacked: Target) -> Iterator[Target]:
    attacked.answers()
    before_bytes, before_sockets = attacked.process.memory_info().rss, attacked.sockets()
    yield attacked
    attacked.answers()
    assert attacked.server.running
    if attacked.is_ours:
        eventually(lambda: str(attacked.sockets() <= before_sockets), "True")
        assert attacked.sockets() <= before_sockets, "connections leak"
        grown = attacked.process.memory_info().rss - before_bytes
        assert grown < GROWTH_BYTES_MAX, f"{grown >> 20} MiB more memory"


@pytest.mark.parametrize("version", [4, 5, 100, 32767, -1])
def test_an_unknown_version_of_api_versions_is_answered(target: Target, version: int) -> None:
    """In the form of version 0: error 35 and one entry, which names the versions to use (KIP-511)."""
    with connection(target.port) as client:
        answer = client.ask(API_VERSIONS, version, b"\x04who\x041.0\x00", correlation=5, flexible=version > 2)
        assert answer == struct.pack(">ihihhh", 5, 35, 1, API_VERSIONS, 0, 3)
        assert client.ask(API_VERSIONS, 0, correlation=6)[:6] == struct.pack(">ih", 6, 0), "the connection goes on"


@pytest.mark.parametrize("key", [999, 32767, -1])
def test_an_unknown_key_closes_the_connection(target: Target, key: int) -> None:
    with connection(target.port) as client:
        client.send(frame(key, 7, b"x" * 40, client=f"unknown-key-{key}"))
        assert client.is_closed()
    if target.is_ours:
        target.logged(f"unknown-key-{key}", str(key), "7")


@pytest.mark.parametrize(("key", "version"), [(METADATA, 99), (0, 77), (1, 55), (METADATA, -1)])
def test_an_unknown_version_closes_the_connection(target: Target, key: int, version: int) -> None:
    name = f"unknown-version-{key}.{version}"
    with connection(target.port) as client:
        client.send(frame(key, version, b"\0" * 40, client=name))
        assert client.is_closed()
    if target.is_ours:
        target.logged(name, str(key), str(version))


def test_answers_before_the_bad_request_leave_first(target: Target) -> None:
    with connection(target.port) as client:
        good = frame(METADATA, 1, METADATA_OF_NOTHING, correlation=1)
        client.send(good + frame(METADATA, 1, METADATA_OF_NOTHING, correlation=2) + frame(999, 0, correlation=3) + good)
        assert client.answer()[:4] == struct.pack(">i", 1)
        assert client.answer()[:4] == struct.pack(">i", 2)
        assert client.is_closed()


@pytest.mark.parametrize("size", [FRAME_BYTES_MAX + 1, 0x7FFFFFFF, -1, -0x80000000])
def test_a_size_outside_the_limit_closes_at_once(target: Target, size: int) -> None:
    with connection(target.port) as client:
        client.send(struct.pack(">i", size))
        assert client.is_closed()


@pytest.mark.parametrize("size", [0, 1, 7])
def test_a_frame_too_short_for_a_header(target: Target, size: int) -> None:
    with connection(target.port) as client:
        client.send(struct.pack(">i", size) + b"\0" * size)
        assert client.is_closed()


def test_announced_sizes_cost_nothing_until_their_bytes_arrive(target: Target) -> None:
    """60 connections announce 100 MB each and send a little of it: 6 GB if a broker believed them."""
    clients = [Connection(target.port) for _ in range(60)]
    for client in clients:
        client.send(struct.pack(">i", FRAME_BYTES_MAX) + b"\0\x03\0\x01" + b"x" * 1000)
    target.answers()
    if target.is_ours:
        grown = target.process.memory_info().rss
        assert grown < 400 << 20, f"{grown >> 20} MiB"
    for client in clients:
        client.close()


def test_half_frames_hold_up_nobody(target: Target) -> None:
    whole = frame(METADATA, 1, METADATA_OF_NOTHING)
    clients = [Connection(target.port) for _ in range(2 * len(whole))]
    for index, client in enumerate(clients):
        client.send(whole[: 1 + index % (len(whole) - 1)])
    target.answers()
    for index, client in enumerate(clients):  # half of them go on and are answered
        if index % 2:
            client.send(whole[1 + index % (len(whole) - 1) :])
            assert len(client.answer()) > 4
        client.close()


def test_a_request_byte_by_byte(target: Target) -> None:
    with connection(target.port) as client:
        for byte in frame(METADATA, 1, METADATA_OF_NOTHING, correlation=9):
            client.send(bytes([byte]))
        assert client.answer()[:4] == struct.pack(">i", 9)


def test_two_thousand_connections_come_and_go(target: Target) -> None:
    for index in range(2000):
        client = Connection(target.port)
        if index % 3 == 0:
            client.send(struct.pack(">i", 100))
        if index % 7 == 0:  # reset instead of an orderly end
            client.socket.setsockopt(1, 13, struct.pack("ii", 1, 0))
        client.close()
    target.answers()


def attack(target: Target, data: bytes) -> None:
    """Send it all and hang up the sending side: whatever it means, the broker must come to an end with it."""
    with connection(target.port) as client:
        with contextlib.suppress(ConnectionError):
            client.send(data)
            client.socket.shutdown(1)
        client.read_to_end()


@pytest.mark.parametrize("seed", range(40))
def test_random_bytes(target: Target, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(10):
        attack(target, chance.randbytes(chance.randrange(1, 2000)))


@pytest.mark.parametrize("key", range(-1, 70))
def test_random_bodies_under_a_good_header(target: Target, key: int) -> None:
    """For every key and version: a frame of the right length whose body is noise, mostly small numbers."""
    chance = random.Random(key)
    for version in range(13):
        for _ in range(4):
            body = bytes(
                chance.choice((0, 0, 0, 1, 2, 255, chance.randrange(256))) for _ in range(chance.randrange(90))
            )
            attack(target, frame(key, version, body, client=None if version % 2 else "noise"))


def test_lengths_inside_a_request_are_not_believed(target: Target) -> None:
    """Counts and lengths of 2 GB in a body of a few bytes: Metadata's topics, Produce's records, Fetch's partitions."""
    huge = struct.pack(">i", 0x7FFFFFFF)
    produce = struct.pack(">hi", 1, 1000) + struct.pack(">i", 1)
    with_topic = struct.pack(">i", 1) + b"\0\x01t" + struct.pack(">i", 1) + struct.pack(">i", 0) + huge
    for key, version, body in [
        (METADATA, 1, huge),
        (METADATA, 9, b"\xff\xff\xff\xff\x07"),
        (0, 3, string_null() + produce[:6] + huge),
        (0, 3, string_null() + produce[:6] + with_topic),
        (1, 4, struct.pack(">iiiib", -1, 100, 1, 1 << 20, 0) + huge),
        (19, 0, huge),
        (32, 0, huge),
    ]:
        for _ in range(50):
            attack(target, frame(key, version, body))


def string_null() -> bytes:
    return struct.pack(">h", -1)


def noise(target: Target, chance: random.Random) -> None:
    """One attack of any of the kinds above."""
    body = chance.randbytes(chance.randrange(1, 2000))
    if chance.random() < 0.7:
        body = frame(chance.randrange(70), chance.randrange(13), body[: chance.randrange(300)])
    attack(target, body)


def test_an_honest_client_during_an_attack(target: Target) -> None:
    """10,002 records in and out, each judged, while three attackers open connections as fast as they can."""
    ended = threading.Event()
    counts = [0, 0, 0]

    def assail(number: int) -> None:
        chance = random.Random(number)
        while not ended.is_set():
            noise(target, chance)
            counts[number] += 1

    attackers = [threading.Thread(target=assail, args=(number,)) for number in range(3)]
    for attacker in attackers:
        attacker.start()
    try:
        bootstrap = f"127.0.0.1:{target.port}"
        honest, records = Confluent(), plain("honest", CLIENTS[0], 1_900_000_000_000)
        admin = honest.admin(bootstrap, "honest")
        assert admin.create(3, {}) == "created"
        assert eventually(admin.partitions, "3") == "3"
        honest.produce(bootstrap, "honest", records, "lz4", "all", True)
        compare(CLIENTS[0], CLIENTS[0], records, honest.consume(bootstrap, "honest", 3, Start("earliest")))
    finally:
        ended.set()
        for attacker in attackers:
            attacker.join()
    assert sum(counts) > 30


@pytest.mark.soak
def test_thousands_of_seeds(target: Target) -> None:
    for seed in range(50_000):
        noise(target, random.Random(seed))


def test_producer_ids_go_on(target: Target) -> None:
    """After all of the above the tree behind the broker still works."""
    assert new_producer_id(target.port) != new_producer_id(target.port)
