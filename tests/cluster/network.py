"""Machines on one machine: each node has a network namespace, each direction between two nodes a link of its own.

A proxy cannot cut one link between brokers, because a broker has one advertised address, which all others use. With
namespaces every node has an address of its own, and a cut is something that the kernel does.

The usual form is a bridge with one port per node. A port that is down cuts a node off, but a bridge has no simple way
to lose what goes from A to B and keep what goes from B to A: that takes nft or tc filters, which many machines lack,
and a blackhole route on B also breaks what B sends. Here a pair of virtual Ethernet devices serves each direction:

    node 1: o2 ------> i1 :node 2      what node 1 sends to node 2
    node 1: i2 <------ o1 :node 2      what node 2 sends to node 1

A node's address stands on its loopback device, so that packets for it are taken from any device. Its only routes are
those to the other nodes, one address each: there is no default route, and nothing leaves this machine. The neighbours'
hardware addresses are fixed, so nobody notices a cut by an ARP request that fails. A cut takes the receiving end down:
what is sent into the link vanishes in silence, and the sender learns of it by its own time limits only. A heal acts at
once.

The namespaces have no names: a file descriptor of this process holds each of them. When it is closed and the processes
inside have ended, or when this process is gone, even by SIGKILL, the kernel removes the namespace with its devices.
`nsenter --net=/proc/PID/ns/net`, with the PID of a server inside, shows a namespace to a person.
"""

import ctypes
import functools
import itertools
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Protocol

from tests.peers.ports import free_port
from tests.peers.skips import require

_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
#: The address that receives on a link. It may be the same everywhere, because no link has more than one receiver.
_HARDWARE_ADDRESS = "02:00:00:00:00:01"
#: New devices take these: no IPv6, which would talk by itself, and no doubts about the device a packet comes from.
_SETTINGS = {
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/default/rp_filter": "0",
    "ipv6/conf/default/disable_ipv6": "1",
}


class Node(Protocol):
    """A machine of the stand: `address` is what others reach it by."""

    name: str
    address: str

    def inside(self) -> AbstractContextManager[None]:
        """A context in which this thread is in the node: sockets, threads and processes made in it stay there."""

    def port(self, usual: int) -> int:
        """A port to listen on: `usual` where the node has an address of its own."""


class Namespace:
    """A node of `Namespaces`."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.address = f"10.77.0.{number}"
        with _here_again():
            _call("unshare", _LIBC.unshare(_CLONE_NEWNET))  # type: ignore[union-attr]
            self.descriptor = os.open("/proc/thread-self/ns/net", os.O_RDONLY)

    @property
    def path(self) -> str:
        """The path of the namespace, as `ip` takes it."""
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    @contextmanager
    def inside(self) -> Iterator[None]:
        with _here_again():
            _enter(self.descriptor)
            yield

    def port(self, usual: int) -> int:
        return usual

    def ip(self, *lines: str) -> None:
        """Runs commands of `ip` in the namespace."""
        with self.inside():
            done = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines).encode(), capture_output=True)
        if done.returncode != 0:
            raise OSError(f"ip in {self.name}: {done.stderr.decode().strip()}")

    def settle(self, settings: dict[str, str]) -> None:
        with self.inside():
            for name, value in settings.items():
                path = Path("/proc/sys/net", name)
                if path.exists() and path.read_text().strip() != value:
                    path.write_text(value)


class Namespaces:
    """Nodes in network namespaces, all linked to each other, until the end of the `with` block.

    Cuts are counted, so that two which overlap do not heal each other.
    """

    cuts = True

    def __init__(self, names: Iterable[str]) -> None:
        self._stack = ExitStack()
        self._lost: Counter[tuple[str, str]] = Counter()
        self._nodes: dict[str, Namespace] = {}
        try:
            for number, name in enumerate(names, 1):
                node = self._nodes[name] = Namespace(name, number)
                self._stack.callback(os.close, node.descriptor)
                node.settle(_SETTINGS)
                node.ip("link set lo up", f"address add {node.address}/32 dev lo")
            self._link()
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> "Namespaces":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def __getitem__(self, name: str) -> Namespace:
        return self._nodes[name]

    def _link(self) -> None:
        nodes = [*self._nodes.values()]
        for node in nodes:
            others = [other for other in nodes if other is not node]
            node.ip(
                *(
                    f"link add o{other.number} type veth"
                    f" peer name i{node.number} address {_HARDWARE_ADDRESS} netns {other.path}"
                    for other in others
                )
            )
        for node in nodes:
            commands = []
            for other in nodes:
                if other is not node:
                    commands += [
                        f"link set o{other.number} up",
                        f"link set i{other.number} up",
                        f"neighbour add {other.address} lladdr {_HARDWARE_ADDRESS} dev o{other.number} nud permanent",
                        f"route add {other.address}/32 dev o{other.number} src {node.address}",
                    ]
            node.ip(*commands)

    @contextmanager
    def cut_one_way(self, source: str, target: str) -> Iterator[None]:
        """Loses all that `source` sends to `target`; the other direction works."""
        with self._lose([(source, target)]):
            yield

    @contextmanager
    def cut(self, one: str, other: str) -> Iterator[None]:
        """The two do not hear each other; both hear all others."""
        with self._lose([(one, other), (other, one)]):
            yield

    @contextmanager
    def isolate(self, *names: str, but_for: Iterable[str] = ()) -> Iterator[None]:
        """These nodes hear each other and those in `but_for`, nobody else, and nobody else hears them."""
        rest = self._nodes.keys() - {*names} - {*but_for}
        pairs = [*itertools.product(names, rest)]
        with self._lose([*pairs, *((other, one) for one, other in pairs)]):
            yield

    @contextmanager
    def _lose(self, directions: list[tuple[str, str]]) -> Iterator[None]:
        self._lost.update(directions)
        try:
            self._set({pair for pair in directions if self._lost[pair] == 1}, "down")
            yield
        finally:
            self._lost.subtract(directions)
            self._set({pair for pair in directions if self._lost[pair] == 0}, "up")

    def _set(self, directions: set[tuple[str, str]], state: str) -> None:
        for target in {target for _, target in directions}:
            sources = [source for source, receiver in directions if receiver == target]
            self[target].ip(*(f"link set i{self[source].number} {state}" for source in sources))


class Local:
    """A node of `Loopback`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.address = "127.0.0.1"

    def inside(self) -> AbstractContextManager[None]:
        return nullcontext()

    def port(self, usual: int) -> int:
        return free_port()


class Loopback:
    """All nodes on 127.0.0.1, where there are no namespaces: everything but the cuts works."""

    cuts = False

    def __getitem__(self, name: str) -> Local:
        return Local(name)

    def __enter__(self) -> "Loopback":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def _missing(self) -> Namespaces:
        require("netns", absence())

    @contextmanager
    def cut_one_way(self, source: str, target: str) -> Iterator[None]:
        with self._missing().cut_one_way(source, target):
            yield

    @contextmanager
    def cut(self, one: str, other: str) -> Iterator[None]:
        with self._missing().cut(one, other):
            yield

    @contextmanager
    def isolate(self, *names: str, but_for: Iterable[str] = ()) -> Iterator[None]:
        with self._missing().isolate(*names, but_for=but_for):
            yield


@functools.cache
def absence() -> str:
    """Why there are no network namespaces here; empty if there are."""
    if _LIBC is None or shutil.which("ip") is None:
        return "Linux and its command ip (Debian: iproute2) are needed"
    try:
        with Namespaces(["one", "other"]) as both, both.cut("one", "other"):
            return ""
    except OSError as problem:
        return f"network namespaces cannot be made (it takes root): {problem}"


def need_namespaces() -> None:
    """Skip (or fail, if they are required) where there are no network namespaces."""
    if reason := absence():
        require("netns", reason)


def network(names: Iterable[str], *, namespaces: bool = True) -> Namespaces | Loopback:
    """Namespaces where they are wanted and there are any, else 127.0.0.1."""
    return Namespaces(names) if namespaces and not absence() else Loopback()


@contextmanager
def _here_again() -> Iterator[None]:
    """Brings this thread back to the namespace in which it is now."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        yield
    finally:
        _enter(before)
        os.close(before)


def _enter(descriptor: int) -> None:
    """Moves this thread alone. What it starts, be it a thread or a process, begins where it is at that moment."""
    _call("setns", _LIBC.setns(descriptor, _CLONE_NEWNET))  # type: ignore[union-attr]


def _call(name: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
