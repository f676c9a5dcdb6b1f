"""The bytes of ZooKeeper's protocol, judged by kazoo's; and that a frame which is cut off is said to be."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kazoo.protocol import serialization as kazoo
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from ottla.coordination.server import frames
from ottla.coordination.server.frames import Code, Connect, Malformed, Op, Reader, Refused
from ottla.coordination.tree import Check, Create, Delete, EventKind, Operation, Set, Stat, WatchEvent

STAT = Stat(1, 2, 3, 4_000_000_000, 5_000_000_000, 6, 7, 8, 9, 10)
CHANGES: list[tuple[object, Operation]] = [
    (kazoo.Create("/ä/b", b"x", OPEN_ACL_UNSAFE, 0), Create("/ä/b", b"x")),
    (kazoo.Create("/a", None, OPEN_ACL_UNSAFE, 1), Create("/a", b"", ephemeral=True)),
    (kazoo.Create("/a/", b"", OPEN_ACL_UNSAFE, 3), Create("/a/", b"", ephemeral=True, sequential=True)),
    (kazoo.Create2("/a", b"x", OPEN_ACL_UNSAFE, 2), Create("/a", b"x", sequential=True)),
    (kazoo.SetData("/a", b"data", 5), Set("/a", b"data", 5)),
    (kazoo.Delete("/a", -1), Delete("/a", -1)),
    (kazoo.CheckVersion("/a", 3), Check("/a", 3)),
]


@pytest.mark.parametrize(("sent", "meant"), CHANGES)
def test_changes_are_what_kazoo_sends(sent: kazoo.Create, meant: Operation) -> None:
    body = bytes(sent.serialize())
    is_null = getattr(sent, "data", b"") is None
    assert frames.change(sent.type, Reader(body)) == (sent.type, meant, is_null)
    for end in range(len(body)):
        with pytest.raises(Malformed):
            frames.change(sent.type, Reader(body[:end]))


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (kazoo.Create("/a", b"", CREATOR_ALL_ACL, 0), Code.INVALID_ACL),
        (kazoo.Create("/a", b"", [], 0), Code.INVALID_ACL),
        (kazoo.Create("/a", b"", OPEN_ACL_UNSAFE, 4), Code.BAD_ARGUMENTS),
        (kazoo.Create("/a", b"", OPEN_ACL_UNSAFE, -1), Code.BAD_ARGUMENTS),
        (kazoo.Create("/a/", b"", OPEN_ACL_UNSAFE, 0), Code.BAD_ARGUMENTS),
        (kazoo.SetData("a", b"", 0), Code.BAD_ARGUMENTS),
        (kazoo.Delete("", 0), Code.BAD_ARGUMENTS),
        (kazoo.CheckVersion("/a//b", 0), Code.BAD_ARGUMENTS),
    ],
)
def test_what_is_refused(sent: kazoo.Create, code: Code) -> None:
    with pytest.raises(Refused) as refused:
        frames.change(sent.type, Reader(bytes(sent.serialize())))
    assert refused.value.code is code


def test_the_first_request() -> None:
    body = bytes(kazoo.Connect(0, 77, 10_000, 5, b"p" * 16, False).serialize())
    assert Connect.decode(body) == Connect(77, 10_000, 5, b"p" * 16)
    assert Connect.decode(body[:-1]) == Connect(77, 10_000, 5, b"p" * 16), "without the last field, as before 3.4"
    for end in range(len(body) - 1):
        with pytest.raises(Malformed):
            Connect.decode(body[:end])


def test_the_first_answer() -> None:
    frame = frames.connected(5, b"p" * 16, 10_000)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    found, end = kazoo.Connect.deserialize(frame, 4)
    assert (found.session_id, found.passwd, found.time_out, found.read_only) == (5, b"p" * 16, 10_000, False)
    assert end == len(frame)
    over, _ = kazoo.Connect.deserialize(frames.EXPIRED, 4)
    assert (over.session_id, over.time_out) == (0, 0)


def test_answers_are_what_kazoo_reads() -> None:
    stat = kazoo.Exists.deserialize(frames.stat(STAT), 0)
    assert stat == (1, 2, 4_000_000_000, 5_000_000_000, 6, 7, 0, 8, 9, 10, 3)
    for data in (b"x", b"", None):
        assert kazoo.GetData.deserialize(frames.data(data) + frames.stat(STAT), 0) == (data, stat)
    assert kazoo.GetChildren.deserialize(frames.texts(["ä", "b"]), 0) == ["ä", "b"]
    rules, _ = kazoo.GetACL.deserialize(frames.rules([frames.OPEN]) + frames.stat(STAT), 0)
    assert rules == OPEN_ACL_UNSAFE
    results = frames.item(Op.CREATE) + frames.text("/a") + frames.item(Op.SET_DATA) + frames.stat(STAT) + frames.END
    assert kazoo.Transaction.deserialize(results, 0) == ["/a", stat]


def test_an_answer_and_an_event_have_their_heads() -> None:
    frame = frames.reply(7, 1 << 40, Code.NO_NODE)
    assert kazoo.ReplyHeader.deserialize(frame, 4) == ((7, 1 << 40, -101), len(frame))
    frame = frames.event(WatchEvent(EventKind.CHILDREN, "/a"), 9)
    header, at = kazoo.ReplyHeader.deserialize(frame, 4)
    assert header == (-1, 9, 0)
    assert kazoo.Watch.deserialize(frame, at) == ((4, 3, "/a"), len(frame))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4


@pytest.mark.parametrize(
    ("body", "read"),
    [
        (b"\x7f\xff\xff\xff", Reader.texts),
        (b"\x00\x00\x00\x01", Reader.texts),
        (b"\x7f\xff\xff\xffab", Reader.text),
        (b"\x00\x00\x00\x01\xff", Reader.text),
        (b"\x00\x00\x00\x02" + bytes(12), Reader.rules),
    ],
)
def test_lengths_that_lie(body: bytes, read: Callable[[Reader], object]) -> None:
    with pytest.raises(Malformed):
        read(Reader(body))


def test_null_is_nothing() -> None:
    null = b"\xff\xff\xff\xff"
    assert (Reader(null).text(), Reader(null).data(), Reader(null).texts()) == ("", None, [])
