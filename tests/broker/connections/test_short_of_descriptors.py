"""A broker that has few descriptors: idle connections make room for those that come, and nobody is closed before."""

import resource
import socket
import struct
from contextlib import ExitStack

from tests.compat import raw
from tests.peers.ottla import Broker, Brokers
from tests.support import hostile
from tests.support.client import connect
from tests.support.waiting import eventually

DESCRIPTORS = 256
#: Half of them, less a quarter of that.
BOUND = 96
IDLE = 150


def make_short(broker: Broker) -> None:
    resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    with connect(broker) as client:
        # With the settings of connections the bound is looked up again, some time after the answer.
        client.alter_broker(str(broker.id), {"max.connections": "100000"})
        eventually("the setting holds", lambda: "settings changed: max.connections" in broker.output_tail())


def ask(one: socket.socket) -> bytes:
    one.sendall(raw.frame(raw.API_VERSIONS, 0))
    (size,) = struct.unpack(">i", one.recv(4, socket.MSG_WAITALL))
    return one.recv(size, socket.MSG_WAITALL)


def is_closed(one: socket.socket) -> bool:
    one.setblocking(False)
    try:
        return one.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_idle_connections_shut_nobody_out(brokers: Brokers) -> None:
    broker = brokers()
    make_short(broker)
    with ExitStack() as stack:
        # The first of all is idle for longest, but it has its address for itself.
        connections = []
        for address in ["127.0.0.2", *["127.0.0.1"] * IDLE]:
            connections.append(stack.enter_context(hostile.connect(broker.port, address)))
            assert ask(connections[-1])
        alone, *idle = connections
        # The controller has a connection of its own.
        gone = IDLE + 2 - BOUND
        assert [is_closed(one) for one in idle] == [True] * gone + [False] * (IDLE - gone)
        alone.setblocking(True)
        assert ask(alone)
    said = "RLIMIT_NOFILE leaves no descriptor for a new connection"
    assert said in broker.output()
