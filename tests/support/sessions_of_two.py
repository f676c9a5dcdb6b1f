"""Random fetch sessions of one client with two brokers, which are asked the same and give numbers of their own.

A request is made with a number that stands for the session's, and `Ask.of` puts in the one that a broker gave. So each
broker is sent what it would be sent alone. `compared` takes from an answer what differs by right: the number, and the
times in control batches, which are the broker's own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.wire import is_flexible
from ottla.wire.headers import request_frame
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

Place = tuple[str, int]

#: Stands for the number of a session, and for one that no broker has given.
STANDS: Final = 0x7E57BEEF
UNKNOWN: Final = 0x7E57DEAD
VERSIONS: Final = (7, 8, 9, 10, 11, 11, 12, 12)
#: A client has no more at a time: more than the brokers remember.
SESSIONS_MAX: Final = 5
_CONTROL: Final = 0x20


@dataclass(eq=False)
class Session:
    """A session as the client knows it."""

    version: int
    isolation_level: int
    #: The number that each broker gave.
    ids: list[int] = field(default_factory=lambda: [0, 0])
    epoch: int = 1
    known: set[Place] = field(default_factory=set)


class Ask(NamedTuple):
    """A request of the two brokers. `session` is the one that it names or begins."""

    frame: bytes
    session: Session | None = None
    #: It begins the session; it ends it, or is to fail.
    begins: bool = False
    ends: bool = False

    def of(self, broker: int) -> bytes:
        """The frame for one of the brokers."""
        if self.session is None:
            return self.frame
        number = self.session.ids[broker].to_bytes(4, "big")
        return self.frame.replace(STANDS.to_bytes(4, "big"), number, 1)


class Sessions:
    """The sessions that a client has open, and its next requests. The same random numbers give the same requests."""

    def __init__(
        self, chosen: random.Random, row: Callable[[], tuple[str, FetchPartition]], correlation_id: Callable[[], int]
    ) -> None:
        """`row` gives a partition that may be asked for, and its topic."""
        self._random = chosen
        self._row = row
        self._correlation_id = correlation_id
        self.open: list[Session] = []
        #: Answers that were what a session is for, and those that refused one, by what was asked.
        self.counts = dict.fromkeys(("begun", "without", "incremental", "forgotten", "wrong", "ended"), 0)

    def _odds(self, one_in: int) -> bool:
        return self._random.randrange(one_in) == 0

    def begin(self) -> Ask:
        """Asks for a session; to be sent alone, since what follows needs its number."""
        session = Session(self._random.choice(VERSIONS), self._random.randrange(2))
        return Ask(self._frame(session, 0, 0, self._named(session, 6), []), session, begins=True)

    def end(self, session: Session) -> Ask:
        """Ends a session by its number alone."""
        return Ask(self._frame(session, STANDS, -1, [], []), session, ends=True)

    def next(self, session: Session) -> Ask:
        """The next request of a session: mostly right."""
        if self._odds(25):
            return self.end(session)
        if self._odds(15):
            self.counts["wrong"] += 1
            number, epoch = self._random.choice(
                [(STANDS, session.epoch + 1), (STANDS, session.epoch - 1), (STANDS, -7), (UNKNOWN, session.epoch)]
            )
            # Epoch 0 would begin another one.
            return Ask(self._frame(session, number, epoch or -7, self._named(session, 3, note=False), []), session)
        forgotten = sorted(place for place in session.known if self._odds(8))
        session.known -= {*forgotten}
        named = self._named(session, 4) if self._odds(2) else []
        self.counts["forgotten"] += bool(forgotten)
        self.counts["incremental"] += 1
        frame = self._frame(session, STANDS, session.epoch, named, forgotten)
        session.epoch += 1
        return Ask(frame, session)

    def _named(self, session: Session, count: int, *, note: bool = True) -> list[FetchTopic]:
        topics: dict[str, dict[int, FetchPartition]] = {}
        for _ in range(self._random.randrange(count)):
            topic, row = self._row()
            topics.setdefault(topic, {})[row.partition] = row
        if note:
            session.known |= {(topic, number) for topic, rows in topics.items() for number in rows}
        return [FetchTopic(topic=topic, partitions=[*rows.values()]) for topic, rows in topics.items()]

    def _frame(
        self, session: Session, number: int, epoch: int, named: list[FetchTopic], forgotten: list[Place]
    ) -> bytes:
        choose = self._random
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=choose.choice([0, 0, 0, 3]),
            min_bytes=choose.choice([0, 1, 1, 500]),
            max_bytes=choose.choice([1, 300, 1 << 20, 1 << 20]),
            isolation_level=session.isolation_level if not self._odds(30) else choose.randrange(2),
            session_id=number,
            session_epoch=epoch,
            topics=named,
            forgotten_topics_data=[ForgottenTopic(topic=topic, partitions=[index]) for topic, index in forgotten],
        )
        body = FETCH.encode_request(session.version, request)
        return request_frame(FETCH.key, session.version, self._correlation_id(), "test", body)

    # --- what came of it ---

    def answered(self, ask: Ask, code: int) -> None:
        """Both brokers have answered alike; the numbers of a session that was begun are noted."""
        session = ask.session
        if session is None:
            return
        if ask.begins:
            is_kept = code == 0 and all(session.ids)
            assert is_kept or not any(session.ids)
            self.counts["begun" if is_kept else "without"] += 1
            if is_kept:
                self.open.append(session)
        elif ask.ends:
            self.counts["ended"] += 1
            if session in self.open:
                self.open.remove(session)


def noted(ask: Ask, broker: int, answer: bytes) -> tuple[int, bytes]:
    """Notes the number of a session that a broker has begun. Returns the error code, and the answer without it."""
    session = ask.session
    assert session is not None
    place = 4 + is_flexible(FETCH.key, session.version) + 4
    code, number = (
        int.from_bytes(answer[place : place + 2], "big"),
        int.from_bytes(answer[place + 2 : place + 6], "big"),
    )
    if ask.begins:
        session.ids[broker] = number
    elif number != UNKNOWN:
        assert number in (0, session.ids[broker])
    return code, answer[: place + 2] + bytes([number != 0]) + answer[place + 6 :]


def without_times(data: bytes) -> bytes:
    """Batches, or an answer with some, without the times and checksums of the control batches in them.

    A control batch has one record and 78 bytes. Other batches of that size lose their checksums, too: an answer may end
    in the middle of a head, where the attributes are not in it.
    """
    found = bytearray(data)
    at = data.find(_MARKER_SIZE)
    while at >= 0:
        start = at - 8
        if start >= 0 and data[start + 16 : start + 17] == b"\2":
            is_control = bool(int.from_bytes(data[start + 21 : start + 23], "big") & _CONTROL)
            for first, end in ((17, 21), (27, 43)) if is_control else ((17, 21),):
                found[start + first : start + end] = bytes(len(found[start + first : start + end]))
        at = data.find(_MARKER_SIZE, at + 1)
    return bytes(found)


#: The size in the head of a batch that holds a marker: 12 bytes of the head are before it.
_MARKER_SIZE: Final = (78 - 12).to_bytes(4, "big")
