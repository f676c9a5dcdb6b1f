"""The nodes of a cluster: a cut loses what it says it loses, nothing else, and heals at once."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.network import Loopback, Namespaces, need_namespaces
from tests.support.waiting import PATIENCE_S, eventually

ECHO_PORT = 9092
LOST_S = 0.3
NAMES = ("one", "two", "three")


def serve(listener: socket.socket) -> None:
    """Answers each connection with what it says, until the listener is closed."""

    def echo(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(1000):
                connection.sendall(data)

    with contextlib.suppress(OSError):
        while True:
            threading.Thread(target=echo, args=[listener.accept()[0]], daemon=True).start()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Namespaces]:
    """An echo server on each."""
    need_namespaces()
    with Namespaces(NAMES) as made, contextlib.ExitStack() as stack:
        for name in NAMES:
            with made[name].inside():
                listener = stack.enter_context(socket.create_server(("0.0.0.0", ECHO_PORT)))
            stack.callback(listener.shutdown, socket.SHUT_RDWR)  # it wakes the thread that accepts
            threading.Thread(target=serve, args=[listener], daemon=True).start()
        yield made


def connect(nodes: Namespaces, source: str, target: str, timeout_s: float = PATIENCE_S) -> socket.socket:
    with nodes[source].inside():
        return socket.create_connection((nodes[target].address, ECHO_PORT), timeout_s)


def hears(nodes: Namespaces, source: str, target: str) -> bool:
    """A new connection comes about."""
    connect(nodes, source, target).close()
    return True


def lost(nodes: Namespaces, source: str, target: str) -> bool:
    """A new connection fails by the clock, as it does on a real network, and is not refused."""
    with pytest.raises(TimeoutError):
        connect(nodes, source, target, LOST_S)
    return True


def test_all_hear_each_other(nodes: Namespaces) -> None:
    for source in NAMES:
        for target in NAMES:
            with connect(nodes, source, target) as connection:
                connection.sendall(b"said")
                assert connection.recv(100) == b"said"


def test_nothing_leads_out(nodes: Namespaces) -> None:
    with nodes["one"].inside(), pytest.raises(OSError, match="unreachable"):
        socket.create_connection(("192.0.2.1", 80), 1)


def test_a_cut_is_between_two(nodes: Namespaces) -> None:
    with nodes.cut("one", "two"):
        assert lost(nodes, "one", "two")
        assert lost(nodes, "two", "one")
        assert hears(nodes, "one", "three")
        assert hears(nodes, "two", "three")
    assert hears(nodes, "one", "two")
    assert hears(nodes, "two", "one")


def test_one_way(nodes: Namespaces) -> None:
    """Datagrams of the other side still arrive: they need no answer."""
    boxes = {}
    for name in ("one", "two"):
        with nodes[name].inside():
            boxes[name] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            boxes[name].bind((nodes[name].address, 5000))
            boxes[name].settimeout(LOST_S)

    def arrives(source: str, target: str) -> bool:
        boxes[source].sendto(b"said", (nodes[target].address, 5000))
        try:
            return boxes[target].recv(100) == b"said"
        except TimeoutError:
            return False

    with boxes["one"], boxes["two"]:
        with nodes.cut_one_way("one", "two"):
            assert not arrives("one", "two")
            assert arrives("two", "one")
            assert lost(nodes, "one", "two")  # no connection without both directions
        # One may have given up the other's address, and has to ask for it again.
        eventually("datagrams arrive again", lambda: arrives("one", "two"))


def test_the_isolated_hear_each_other(nodes: Namespaces) -> None:
    with nodes.isolate("one", "two"):
        assert hears(nodes, "one", "two")
        assert lost(nodes, "one", "three")
        assert lost(nodes, "three", "two")
    with nodes.isolate("one", but_for=["three"]):
        assert hears(nodes, "one", "three")
        assert lost(nodes, "one", "two")
    assert hears(nodes, "three", "two")


def test_overlapping_cuts_do_not_heal_each_other(nodes: Namespaces) -> None:
    with nodes.cut("one", "two"):
        with nodes.isolate("one"):
            assert lost(nodes, "one", "three")
        assert hears(nodes, "one", "three")
        assert lost(nodes, "one", "two")
    assert hears(nodes, "one", "two")


def test_a_connection_outlives_a_cut(nodes: Namespaces) -> None:
    """Bytes that were lost are sent again, as TCP does."""
    with connect(nodes, "one", "two") as connection:
        connection.settimeout(LOST_S)
        with nodes.cut("one", "two"):
            connection.sendall(b"said")
            with pytest.raises(TimeoutError):
                connection.recv(100)
        connection.settimeout(PATIENCE_S)
        assert connection.recv(100) == b"said"


def test_threads_and_processes_stay_where_they_were_started(nodes: Namespaces) -> None:
    here = namespace_of("/proc/thread-self")
    seen: list[str] = []
    with nodes["one"].inside():
        there = namespace_of("/proc/thread-self")
        thread = threading.Thread(target=lambda: seen.append(namespace_of("/proc/thread-self")))
        thread.start()
        thread.join()
    assert seen == [there]
    assert there != here
    assert namespace_of("/proc/thread-self") == here


def test_nothing_is_left() -> None:
    """After a failure too: no device, and no descriptor, which is all that holds an empty namespace."""
    need_namespaces()
    devices, here = {*os.listdir("/sys/class/net")}, namespace_of("/proc/thread-self")
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ZeroDivisionError), Namespaces(NAMES) as made, made.isolate("one"), made["one"].inside():
        print(1 / 0)
    assert {*os.listdir("/sys/class/net")} == devices
    assert namespace_of("/proc/thread-self") == here
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_without_namespaces_all_is_here() -> None:
    with Loopback() as nodes, nodes["one"].inside():
        assert nodes["one"].address == "127.0.0.1"
        assert nodes["one"].port(9092) != nodes["two"].port(9092)


def namespace_of(process: str) -> str:
    return os.readlink(Path(process, "ns", "net"))
