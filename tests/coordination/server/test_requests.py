"""Frames that clients send, and those that they are told, in their order: no sockets, and a clock of numbers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.protocol import serialization as kazoo
from kazoo.security import OPEN_ACL_UNSAFE

from ottla.coordination.database import TreeDatabase
from ottla.coordination.server import requests
from ottla.coordination.server.frames import Malformed, Op
from ottla.coordination.server.nodes import ServedNodes
from ottla.coordination.server.requests import Client, Service
from ottla.coordination.tree import Set

CREATED, DELETED, CHANGED, CHILDREN = 1, 2, 3, 4


class Peer:
    """A client: it sends requests of kazoo's, and keeps what it is told."""

    def __init__(self, service: Service, session_id: int = 0, password: bytes = bytes(16), *, seen: int = 0) -> None:
        self.service = service
        self.told: list[bytes] = []
        self.has_left = False
        self.client = Client(self.told.append, self._leave)
        service.connect(self.client, bytes(kazoo.Connect(0, seen, 10_000, session_id, password, False).serialize()), 0)
        answer, _ = kazoo.Connect.deserialize(self.told.pop(0), 4)
        self.session_id, self.password, self.timeout_ms = answer.session_id, answer.passwd, answer.time_out

    def _leave(self) -> None:
        self.has_left = True

    def send(self, kind: int, body: bytes, xid: int = 1, now: float = 0.0) -> None:
        self.service.take(self.client, struct.pack("!ii", xid, kind) + body, now)

    def ask(self, request: kazoo.Exists, now: float = 0.0) -> int:
        """The error that is the answer, which is the last that was told."""
        self.send(request.type, bytes(request.serialize()), now=now)
        return kazoo.ReplyHeader.deserialize(self.told[-1], 4)[0].err

    def create(self, path: str, flags: int = 0) -> int:
        return self.ask(kazoo.Create(path, b"", OPEN_ACL_UNSAFE, flags))

    def heard(self) -> list[object]:
        """All since the last call: (type, path) of an event, the error of an answer."""
        found: list[object] = []
        for frame in self.told:
            header, at = kazoo.ReplyHeader.deserialize(frame, 4)
            event = kazoo.Watch.deserialize(frame, at)[0] if header.xid == -1 else None
            found.append((event.type, event.path) if event else header.err)
        self.told.clear()
        return found


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    database = ServedNodes(str(tmp_path / "tree"))
    yield Service(database)
    database.close()


def test_an_event_comes_after_the_read_that_armed_it_and_before_the_answer_that_shows_the_change(
    service: Service,
) -> None:
    one, other = Peer(service), Peer(service)
    assert one.ask(kazoo.Exists("/a", True)) == -101
    assert other.create("/a") == 0
    one.ask(kazoo.GetData("/a", True))
    one.ask(kazoo.SetData("/a", b"x", -1))
    assert one.heard() == [-101, (CREATED, "/a"), 0, (CHANGED, "/a"), 0]
    assert other.heard() == [0]


def test_who_watches_a_node_and_its_children_hears_once_that_it_is_gone(service: Service) -> None:
    one, other = Peer(service), Peer(service)
    other.create("/a")
    one.ask(kazoo.GetData("/a", True))
    one.ask(kazoo.GetChildren2("/a", True))
    assert one.client.armed == {(False, "/a"), (True, "/a")}
    other.ask(kazoo.Delete("/a", -1))
    assert one.heard() == [0, 0, (DELETED, "/a")]
    assert one.client.armed == set()


def set_watches(peer: Peer, seen: int, of_data: list[str], of_nothing: list[str], of_children: list[str]) -> None:
    lists = (
        struct.pack("!i", len(each)) + b"".join(kazoo.write_string(path) for path in each)
        for each in (of_data, of_nothing, of_children)
    )
    peer.send(Op.SET_WATCHES, struct.pack("!q", seen) + b"".join(lists), -8)


def test_a_client_that_is_back_hears_what_it_has_missed(service: Service) -> None:
    peer = Peer(service)
    for path in ("/same", "/set", "/gone", "/parent", "/alone"):
        peer.create(path)
    seen = service.database.zxid
    peer.ask(kazoo.SetData("/set", b"x", -1))
    peer.ask(kazoo.Delete("/gone", -1))
    peer.create("/new")
    peer.create("/parent/child")
    back = Peer(service, peer.session_id, peer.password, seen=seen)
    assert peer.has_left, "its session has another connection now"
    set_watches(back, seen, ["/same", "/set", "/gone"], ["/new", "/none"], ["/parent", "/alone", "/gone"])
    missed = [(CHANGED, "/set"), (DELETED, "/gone"), (CREATED, "/new"), (CHILDREN, "/parent"), (DELETED, "/gone")]
    assert back.heard() == [*missed, 0]
    # What was not missed is armed.
    other = Peer(service)
    for path in ("/none", "/alone/child"):
        other.create(path)
    other.ask(kazoo.SetData("/same", b"x", -1))
    assert back.heard() == [(CREATED, "/none"), (CHILDREN, "/alone"), (CHANGED, "/same")]


def test_watches_go_with_their_connection(service: Service) -> None:
    peer, other = Peer(service), Peer(service)
    peer.ask(kazoo.Exists("/a", True))
    service.gone(peer.client)
    back = Peer(service, peer.session_id, peer.password)
    other.create("/a")
    assert back.heard() == []
    assert peer.heard() == [-101]


def test_a_session_is_over_when_nothing_was_heard(service: Service) -> None:
    silent, other = Peer(service), Peer(service)
    silent.create("/mine", 1)
    other.ask(kazoo.Exists("/mine", True))
    silent.heard()
    other.ask(kazoo.PingInstance, now=5.0)
    service.expire(9.9)
    assert not silent.has_left
    service.expire(10.0)
    assert silent.has_left
    assert other.heard() == [0, 0, (DELETED, "/mine")]
    late = Peer(service, silent.session_id, silent.password)
    assert (late.session_id, late.timeout_ms, late.has_left) == (0, 0, True)


def test_a_session_without_a_connection_lives_on_until_its_timeout(service: Service) -> None:
    peer = Peer(service)
    peer.create("/mine", 1)
    service.gone(peer.client)
    service.expire(9.9)
    back = Peer(service, peer.session_id, peer.password)
    assert back.session_id == peer.session_id
    assert back.ask(kazoo.Exists("/mine", False)) == 0


def test_a_session_is_for_who_knows_its_password(service: Service) -> None:
    peer = Peer(service)
    assert Peer(service, peer.session_id, b"x" * 16).has_left
    assert not peer.has_left
    assert peer.ask(kazoo.Exists("/", False)) == 0


def test_a_closed_session_takes_its_nodes_along(service: Service) -> None:
    peer, other = Peer(service), Peer(service)
    peer.create("/mine", 1)
    other.ask(kazoo.Exists("/mine", True))
    peer.send(Op.CLOSE_SESSION, b"", 2)
    assert peer.heard() == [0, 0]
    assert peer.has_left
    assert other.heard() == [0, (DELETED, "/mine")]
    peer.send(Op.PING, b"", -2)
    assert peer.heard() == [], "nobody is there any more"


def test_a_multi_that_fails_says_where(service: Service) -> None:
    peer = Peer(service)
    operations = [
        kazoo.Create("/a", b"", OPEN_ACL_UNSAFE, 0),
        kazoo.CheckVersion("/b", 0),
        kazoo.Delete("/a", -1),
    ]
    transaction = kazoo.Transaction(operations)
    assert peer.ask(transaction) == 0
    names = [type(each).__name__ for each in kazoo.Transaction.deserialize(peer.told[-1], 20)]
    assert names == ["RolledBackError", "NoNodeError", "RuntimeInconsistency"]
    # The same of an item that could never be done.
    peer.ask(kazoo.Transaction([operations[0], kazoo.Delete("a", -1), operations[2]]))
    names = [type(each).__name__ for each in kazoo.Transaction.deserialize(peer.told[-1], 20)]
    assert names == ["RolledBackError", "BadArgumentsError", "RuntimeInconsistency"]
    assert peer.ask(kazoo.Exists("/a", False)) == -101


@pytest.mark.parametrize(
    ("kind", "body", "error"),
    [
        (99, b"", -6),
        (Op.MULTI, struct.pack("!iBi", 19, 0, -1), -6),
        (Op.MULTI, struct.pack("!iBi", 21, 0, -1), -6),
        # Containers, a time to live, getEphemerals, getAllChildrenNumber, setWatches2, addWatch, whoAmI.
        *((kind, kazoo.write_string("/a") + b"\0" * 40, -6) for kind in (16, 19, 21, 102, 103, 104, 105, 106, 107)),
        (Op.REMOVE_WATCHES, kazoo.write_string("/a") + struct.pack("!i", 3), -121),
        (Op.REMOVE_WATCHES, kazoo.write_string("/a") + struct.pack("!i", 4), -121),
        (Op.CHECK_WATCHES, kazoo.write_string("/a") + struct.pack("!i", 6), -5),
        (Op.REMOVE_WATCHES, kazoo.write_string("a") + struct.pack("!i", 1), -8),
        (Op.REMOVE_WATCHES, kazoo.write_string("/a"), -5),
        (Op.GET_DATA, b"", -5),
        (Op.MULTI, b"\0", -5),
        (Op.MULTI_READ, struct.pack("!iBi", 4, 0, -1), -5),
        (Op.SET_WATCHES, struct.pack("!qi", 0, 1 << 30), -5),
        (Op.EXISTS, kazoo.write_string("no/path") + b"\0", -8),
        (Op.SET_ACL, kazoo.write_string("/") + struct.pack("!ii", 0, -1), -114),
    ],
)
def test_bad_requests_are_answered(service: Service, kind: int, body: bytes, error: int) -> None:
    peer = Peer(service)
    peer.send(kind, body)
    assert peer.heard() == [error]
    assert peer.ask(kazoo.Exists("/", False)) == 0


def test_bad_requests_that_cannot_be_answered(service: Service) -> None:
    peer = Peer(service)
    with pytest.raises(Malformed):
        service.take(peer.client, b"\0\0\0", 0.0)
    with pytest.raises(Malformed, match="it has seen transaction 1000"):
        Peer(service, seen=1000)
    with pytest.raises(Malformed):
        service.connect(Client(peer.told.append, lambda: None), b"short", 0.0)


def test_nobody_logs_in(service: Service) -> None:
    peer = Peer(service)
    assert peer.ask(kazoo.Auth(0, "digest", "user:password")) == -115
    assert peer.has_left


def test_watches_have_a_bound(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "WATCHES_MAX", 2)
    peer = Peer(service)
    for path in ("/a", "/b", "/a"):
        assert peer.ask(kazoo.Exists(path, True)) == -101
    assert not peer.has_left
    peer.ask(kazoo.Exists("/c", True))
    assert peer.has_left


def data_of(peer: Peer, path: str) -> bytes | None:
    peer.ask(kazoo.GetData(path, None))
    found: bytes | None = kazoo.GetData.deserialize(peer.told[-1], 20)[0]
    return found


def test_null_and_empty_are_two(service: Service) -> None:
    """Kafka takes empty data for damaged JSON, and kazoo's recipes fail on null."""
    peer = Peer(service)
    for path, data in (("/null", None), ("/empty", b"")):
        peer.ask(kazoo.Create(path, data, OPEN_ACL_UNSAFE, 0))
        assert data_of(peer, path) == data
        many = struct.pack("!iBi", 4, 0, -1) + kazoo.write_string(path) + b"\0" + struct.pack("!iBi", -1, 1, -1)
        peer.send(Op.MULTI_READ, many)
        assert kazoo.read_buffer(peer.told[-1], 29)[0] == data
        for other in (b"x", None, b"", data):
            peer.ask(kazoo.SetData(path, other, -1))
            assert data_of(peer, path) == other
    peer.ask(kazoo.Delete("/empty", -1))
    assert service.database.notes() == 0
    peer.ask(kazoo.Transaction([kazoo.Create("/empty", b"", OPEN_ACL_UNSAFE, 1), kazoo.SetData("/null", b"", -1)]))
    assert (data_of(peer, "/empty"), data_of(peer, "/null")) == (b"", b"")
    peer.send(Op.CLOSE_SESSION, b"")
    assert service.database.notes() == 1, "the ephemeral one is gone"


def test_many_reads_have_a_bound(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "ANSWER_BYTES_MAX", 1000)
    peer = Peer(service)
    peer.ask(kazoo.Create("/a", b"x" * 300, OPEN_ACL_UNSAFE, 0))
    one = struct.pack("!iBi", 4, 0, -1) + kazoo.write_string("/a") + b"\0"
    end = struct.pack("!iBi", -1, 1, -1)
    peer.send(Op.MULTI_READ, one * 2 + end)
    peer.send(Op.MULTI_READ, one * 3 + end)
    assert peer.heard() == [0, 0, -5]


def test_what_was_rolled_back_of_an_ended_session_ends_later(service: Service) -> None:
    peer, other = Peer(service), Peer(service)
    peer.create("/mine", 1)
    service.commit()
    peer.send(Op.CLOSE_SESSION, b"")
    service.rollback()
    assert other.ask(kazoo.Exists("/mine", False)) == 0
    service.expire(0.0)
    assert other.ask(kazoo.Exists("/mine", False)) == -101
    service.commit()
    assert not service.is_changed


def test_empty_data_are_empty_after_a_restart(tmp_path: Path) -> None:
    database = ServedNodes(str(tmp_path / "again"))
    peer = Peer(Service(database))
    for path, data in (("/null", None), ("/empty", b""), ("/gone", b""), ("/set", b""), ("/was", b"")):
        peer.ask(kazoo.Create(path, data, OPEN_ACL_UNSAFE, 0))
    peer.ask(kazoo.Create("/mine", b"", OPEN_ACL_UNSAFE, 1))
    database.commit()
    peer.ask(kazoo.Delete("/gone", -1))
    peer.ask(kazoo.SetData("/set", b"x", -1))
    peer.ask(kazoo.SetData("/was", None, -1))
    database.commit()
    database.close()
    for _ in range(2):
        database = ServedNodes(str(tmp_path / "again"))
        peer = Peer(Service(database))
        found = {path: data_of(peer, path) for path in ("/null", "/empty", "/set", "/was")}
        assert found == {"/null": None, "/empty": b"", "/set": b"x", "/was": None}
        assert database.notes() == 2, "the ephemeral one is forgotten, and the one that is gone"
        database.close()


def test_what_was_rolled_back_is_not_noted(service: Service) -> None:
    """The number of its transaction is given again."""
    peer, other = Peer(service), Peer(service)
    peer.ask(kazoo.Create("/a", None, OPEN_ACL_UNSAFE, 0))
    service.commit()
    peer.ask(kazoo.SetData("/a", b"", -1))
    zxid = service.database.zxid
    service.rollback()
    # A change that a broker of an embedded tree would make, which has no word for null.
    service.database.multi([Set("/a", b"", -1)], 0)
    assert service.database.zxid == zxid
    assert data_of(other, "/a") is None


def test_a_note_is_for_one_transaction(tmp_path: Path) -> None:
    """Brokers of an embedded tree write to the same file, and know of no notes."""
    database = ServedNodes(str(tmp_path / "again"))
    peer = Peer(Service(database))
    peer.ask(kazoo.Create("/a", b"", OPEN_ACL_UNSAFE, 0))
    database.commit()
    database.close()
    plain = TreeDatabase(str(tmp_path / "again"))
    plain.multi([Set("/a", b"", -1)], 0)
    plain.commit()
    plain.close()
    database = ServedNodes(str(tmp_path / "again"))
    assert data_of(Peer(Service(database)), "/a") is None
    database.close()


def created2(path: str, data: bytes, flags: int = 0) -> bytes:
    """An item of a multi: create2, which answers with a Stat."""
    body = kazoo.write_string(path) + kazoo.write_buffer(data) + struct.pack("!ii", 1, 31)
    who = kazoo.write_string("world") + kazoo.write_string("anyone")
    return struct.pack("!iBi", Op.CREATE_2, 0, -1) + body + who + struct.pack("!i", flags)


def test_a_multi_tells_what_its_nodes_were_like_when_they_were_made(service: Service) -> None:
    peer = Peer(service)
    deleted = struct.pack("!iBi", Op.DELETE, 0, -1) + kazoo.write_string("/a") + struct.pack("!i", -1)
    set_to = struct.pack("!iBi", Op.SET_DATA, 0, -1) + kazoo.write_string("/n-0000000001") + kazoo.write_buffer(b"xyz")
    end = struct.pack("!iBi", -1, 1, -1)
    items = [created2("/a", b"ab"), deleted, created2("/n-", b"", 3), set_to + struct.pack("!i", -1), end]
    peer.send(Op.MULTI, b"".join(items))
    frame, at = peer.told[-1], 20
    kinds = []
    stats = []
    while True:
        kind, is_over, _ = struct.unpack_from("!iBi", frame, at)
        at += 9
        if is_over:
            break
        kinds.append(kind)
        if kind == Op.CREATE_2:
            path, at = kazoo.read_string(frame, at)
            stats.append((path, kazoo.ZnodeStat(*kazoo.stat_struct.unpack_from(frame, at))))
        if kind in (Op.CREATE_2, Op.SET_DATA):
            at += kazoo.stat_struct.size
    assert (kinds, at) == ([15, 2, 15, 5], len(frame))
    (first, one), (second, other) = stats
    assert (first, one.dataLength, one.version, one.ephemeralOwner) == ("/a", 2, 0, 0)
    assert (second, other.dataLength, other.version) == ("/n-0000000001", 0, 0)
    assert other.ephemeralOwner == peer.session_id
    zxid = service.database.zxid
    assert {one.czxid, one.mzxid, other.czxid, other.mzxid} == {zxid}
    now = service.database.get("/n-0000000001").stat
    assert (now.ctime_ms, now.version) == (other.ctime, 1)
    # The same by itself.
    peer.send(Op.CREATE_2, created2("/b", b"")[9:])
    assert peer.heard()[-1] == 0


def watches_of(peer: Peer, kind: int, path: str, type_: int) -> object:
    peer.send(kind, kazoo.write_string(path) + struct.pack("!i", type_))
    return peer.heard()[-1]


def test_watches_are_removed(service: Service) -> None:
    peer, other = Peer(service), Peer(service)
    other.create("/a")
    for one in (peer, other):
        one.ask(kazoo.GetData("/a", True))
        one.ask(kazoo.GetChildren2("/a", True))
    children, of_data, any_ = 1, 2, 3
    for type_ in (children, of_data, any_):
        assert watches_of(peer, Op.CHECK_WATCHES, "/a", type_) == 0
    assert watches_of(peer, Op.REMOVE_WATCHES, "/a", of_data) == 0
    assert watches_of(peer, Op.CHECK_WATCHES, "/a", of_data) == -121
    assert watches_of(peer, Op.CHECK_WATCHES, "/a", any_) == 0
    assert watches_of(peer, Op.REMOVE_WATCHES, "/a", of_data) == -121
    other.ask(kazoo.SetData("/a", b"x", -1))
    assert peer.heard() == [], "it hears of its data no more"
    assert (CHANGED, "/a") in other.heard(), "and others do"
    assert watches_of(peer, Op.REMOVE_WATCHES, "/a", any_) == 0
    assert peer.client.armed == set()
    other.create("/a/b")
    assert peer.heard() == []
    assert (CHILDREN, "/a") in other.heard()
    # It may be armed again.
    peer.ask(kazoo.GetData("/a", True))
    other.ask(kazoo.SetData("/a", b"y", -1))
    assert peer.heard() == [0, (CHANGED, "/a")]
