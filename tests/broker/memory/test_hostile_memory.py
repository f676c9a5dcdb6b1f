"""Clients that hold memory without need: what the settings say bounds it, and nobody else waits for them."""

import contextlib
import os
import resource
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.peers.ottla import Broker, Brokers
from tests.support.client import batch
from tests.support.client import connect as client_of
from tests.support.hostile import FRAME_BYTES, Honest, begun, closing, connect, produce_frame, send
from tests.support.waiting import PATIENCE_S, eventually

MIB = 1 << 20
#: `queued.max.request.bytes` by default, the answers' quarter of it, and what the broker is beside both.
RSS_MAX = (256 + 64 + 64) * MIB
#: `socket.request.max.bytes` by default: the length that a frame announces, without the four bytes of the length.
REQUEST_BYTES_MAX = 104_857_600
OTHER = "127.0.0.2"
#: Answers to an honest client: how many while others attack, and how many in all.
MEANWHILE, IN_ALL = 3, 10


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Brokers(tmp_path_factory.mktemp("memory")) as brokers:
        yield brokers(settings={"queued.max.request.bytes": 256 * MIB, "message.max.bytes": 100 * MIB})


@contextlib.contextmanager
def honest_beside(broker: Broker, topic: str) -> Iterator[Honest]:
    """An honest client is served whatever happens meanwhile, and the broker stays in its memory. How fast is for `make
    bench-hostile`: here other tests run beside.
    """
    with Honest(broker.port, broker.pid, topic) as honest:
        yield honest
        eventually("the honest client was served", lambda: len(honest.waits_s) > IN_ALL or honest.error)
    assert honest.rss_max < RSS_MAX, honest.rss_max // MIB


def descriptors(broker: Broker) -> int:
    return psutil.Process(broker.pid).num_fds()


def sockets(broker: Broker) -> int:
    files = list(Path(f"/proc/{broker.pid}/fd").iterdir())
    return sum(os.readlink(file).startswith("socket:") for file in files)


def is_closed(one: socket.socket) -> bool:
    one.settimeout(0.01)
    try:
        return one.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def clients_are_answered(broker: Broker, honest: Honest) -> None:
    """A new client, and the honest one a few times more. Called while attackers are there."""
    with client_of(broker):
        pass
    before = len(honest.waits_s)
    eventually("the honest client is served", lambda: len(honest.waits_s) >= before + MEANWHILE or honest.error)


def test_half_frames_one_after_the_other_stay_below_the_bound(broker: Broker) -> None:
    data = bytes(60_000_000)
    with honest_beside(broker, "half") as honest:
        attackers = [begun(broker.port) for _ in range(30)]
        with closing(attackers):
            for attacker in attackers:
                send(attacker, data)
            clients_are_answered(broker, honest)
    eventually("a line says why", lambda: "memory is short" in broker.output(), facts=broker.output)


def test_three_that_hold_whole_frames_but_a_byte_stop_nobody(broker: Broker) -> None:
    with honest_beside(broker, "three") as honest:
        attackers = [begun(broker.port) for _ in range(3)]
        with closing(attackers):
            data = bytes(98_000_000)
            threads = [threading.Thread(target=send, args=(one, data, 3.0)) for one in attackers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            clients_are_answered(broker, honest)


def test_clients_that_leave_while_they_wait_for_memory_are_noticed(broker: Broker) -> None:
    part = bytes(184_000)
    before = descriptors(broker)
    with honest_beside(broker, "leave") as honest:
        attackers = []
        with closing(attackers):
            for _ in range(1000):
                attackers.append(begun(broker.port, OTHER))
                with contextlib.suppress(OSError):
                    attackers[-1].settimeout(0.05)
                    attackers[-1].send(part)
            clients_are_answered(broker, honest)
        eventually("all connections are ended", lambda: descriptors(broker) <= before + 5)


def produce_of(topic: str, length: int) -> bytes:
    """A Produce whose frame says that it is so long."""
    empty = len(produce_frame(topic, batch(b""))) - 4
    frame = produce_frame(topic, batch(bytes(length - empty)))
    # The lengths inside a batch are varints, so that it grows by a few bytes more than its value.
    frame = produce_frame(topic, batch(bytes(2 * length - empty - (len(frame) - 4))))
    assert struct.unpack_from(">i", frame) == (length,)
    return frame


def error_of_produce(one: socket.socket, topic: str) -> int:
    one.settimeout(PATIENCE_S)
    size, _ = struct.unpack(">ii", one.recv(8, socket.MSG_WAITALL))
    answer = one.recv(size - 4, socket.MSG_WAITALL)
    (error,) = struct.unpack_from(">h", answer, 4 + 2 + len(topic) + 4 + 4)
    return error


@pytest.mark.parametrize("address", [OTHER, "127.0.0.1"])
def test_a_frame_of_the_largest_size_completes_beside_an_attack(broker: Broker, address: str) -> None:
    """To the byte: 104,857,600 bytes are read, from one connection, whatever others hold. One byte more is refused."""
    topic = "large-" + address.replace(".", "-")
    with client_of(broker) as client:
        client.create(topic, max_message_bytes=str(100 * MIB))
    large = produce_of(topic, REQUEST_BYTES_MAX)
    over = threading.Event()

    def attack() -> None:
        part = bytes(4_000_000)
        while not over.is_set():
            attackers = [begun(broker.port, address) for _ in range(20)]
            with closing(attackers):
                for attacker in attackers:
                    if not over.is_set():
                        send(attacker, part, 0.2)

    attacker = threading.Thread(target=attack)
    with honest_beside(broker, "beside-" + address.replace(".", "-")) as honest:
        attacker.start()
        try:
            with contextlib.closing(connect(broker.port)) as one:
                assert send(one, large, PATIENCE_S), "it was closed, or did not end in time"
                assert error_of_produce(one, topic) == 0
            with contextlib.closing(begun(broker.port, length=REQUEST_BYTES_MAX + 1)) as one:
                eventually("a frame of a byte more is refused", lambda: is_closed(one))
            clients_are_answered(broker, honest)
        finally:
            over.set()
            attacker.join()


def test_who_says_to_be_a_broker_gets_no_more(broker: Broker) -> None:
    """Where brokers have no listener of their own."""
    data = bytes(60_000_000)
    with honest_beside(broker, "claims") as honest:
        attackers = [connect(broker.port) for _ in range(10)]
        with closing(attackers):
            for attacker in attackers:
                # A Fetch (version 4) of replica 666, for no partition.
                frame = struct.pack(">hhih", 1, 4, 1, -1) + struct.pack(">iiiibi", 666, 0, 0, 1, 0, 0)
                attacker.sendall(struct.pack(">i", len(frame)) + frame)
                send(attacker, struct.pack(">i", FRAME_BYTES))
            for attacker in attackers:
                send(attacker, data)
            clients_are_answered(broker, honest)


def test_announced_lengths_alone_take_no_memory(brokers: Brokers) -> None:
    """Where the system gives no more than 3 GB of addresses, as without overcommitment."""
    broker = brokers()
    limit = 3_000_000_000
    resource.prlimit(broker.pid, resource.RLIMIT_AS, (limit, limit))
    with honest_beside(broker, "announced") as honest:
        attackers = [begun(broker.port) for _ in range(796)]
        with closing(attackers):
            clients_are_answered(broker, honest)
    assert broker.running


def test_memory_that_is_not_to_be_had_costs_one_connection(brokers: Brokers) -> None:
    broker = brokers()
    limit = psutil.Process(broker.pid).memory_info().vms + 48 * MIB
    resource.prlimit(broker.pid, resource.RLIMIT_AS, (limit, limit))
    with contextlib.closing(begun(broker.port)) as attacker:
        send(attacker, bytes(98_000_000), 5)
        eventually("the attacker is closed", lambda: is_closed(attacker))
    assert broker.running
    eventually("a line says why", lambda: "the system has no memory for" in broker.output(), facts=broker.output)
    with client_of(broker):
        pass


def test_idle_connections_leave_descriptors_for_files(brokers: Brokers) -> None:
    broker = brokers()
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (400, 400))
    with client_of(broker) as client:
        # Bounds on connections are looked at anew, some time after the answer.
        client.alter_broker("", {"max.connections": "100000"})
        eventually("the setting holds", lambda: "settings changed: max.connections" in broker.output_tail())
    # Fewer than the bound and what may wait to be accepted: nobody waits for a connection.
    idle = [connect(broker.port) for _ in range(180)]
    # Who comes last is not the one that was idle for longest.
    with closing(idle), client_of(broker) as client:
        client.create("files", 10)
        for partition in range(10):
            ((row,),) = [row.partitions for row in client.produce("files", batch(b"x"), partition=partition).responses]
            assert row.error_code == 0
        assert sockets(broker) < 150 + 20
