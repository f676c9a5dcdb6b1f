"""The checker finds each anomaly where it was planted, and nothing in the histories of a log that keeps its word."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.checker import Anomaly, Operation, Outcome, Poll, Send, Value, check, illegal

OK, FAIL, UNKNOWN = Outcome.OK, Outcome.FAIL, Outcome.UNKNOWN


def sent(client: str, *steps: Send, outcome: Outcome = OK, transaction: bool = False) -> Operation:
    return Operation(client, outcome, steps, transaction=transaction)


def polled(client: str, *records: tuple[int, Value], committed: bool = True, moved: bool = False) -> Operation:
    return Operation(client, OK, (Poll("t", records, committed),), moved=moved)


def kinds(history: list[Operation], *, drained: bool = True) -> list[str]:
    return sorted({anomaly.kind for anomaly in check(history, drained=drained)})


WRITTEN = [sent("p", Send("t", value, value * 2)) for value in range(5)]


def read(*values: int) -> tuple[tuple[int, Value], ...]:
    return tuple((value * 2, value) for value in values)


ALL = read(0, 1, 2, 3, 4)
PLANTED: dict[str, tuple[list[Operation], list[str]]] = {
    "clean": ([*WRITTEN, polled("c", *ALL)], []),
    "clean in two polls": ([*WRITTEN, polled("c", *read(0, 1)), polled("c", *read(2, 3, 4))], []),
    "two values at an offset": ([*WRITTEN, polled("c", *ALL), polled("d", (0, 9))], ["inconsistent-offsets"]),
    "acknowledged as another was read": (
        [sent("p", Send("t", 1, 0)), polled("c", (0, 2), (1, 1))],
        ["duplicate", "inconsistent-offsets"],
    ),
    "a value twice": ([*WRITTEN, polled("c", *ALL, (9, 3))], ["duplicate"]),
    "lost": ([*WRITTEN, polled("c", *read(0, 1, 3, 4))], ["int-poll-skip", "lost-write"]),
    "lost where nobody knew its offset but the writer": (
        [*WRITTEN, polled("c", *read(0, 1)), polled("d", *read(4), moved=True), polled("d", *read(3), moved=True)],
        ["lost-write"],
    ),
    "not read at the end": ([*WRITTEN, polled("c", *read(0, 1, 2, 3))], ["unseen"]),
    "acknowledged without an offset": ([sent("p", Send("t", 7)), polled("c", (0, 1))], ["unseen"]),
    "a passed-over value": (
        [*WRITTEN, polled("d", *ALL), polled("c", *read(0, 1)), polled("c", *read(3, 4))],
        ["poll-skip"],
    ),
    "a passed-over value inside": ([*WRITTEN, polled("d", *ALL), polled("c", *read(0, 1, 3, 4))], ["int-poll-skip"]),
    "again": ([*WRITTEN, polled("c", *ALL), polled("c", *read(3, 4))], ["nonmonotonic-poll"]),
    "again inside": ([*WRITTEN, polled("c", *ALL, *read(4))], ["int-nonmonotonic-poll"]),
    "again after a seek": ([*WRITTEN, polled("c", *ALL), polled("c", *read(3, 4), moved=True)], []),
    "sent backwards": (
        [sent("p", Send("t", 1, 8)), sent("p", Send("t", 2, 3)), polled("c", (3, 2), (8, 1))],
        ["nonmonotonic-send"],
    ),
    "sent backwards inside": (
        [sent("p", Send("t", 1, 8), Send("t", 2, 3)), polled("c", (3, 2), (8, 1))],
        ["int-nonmonotonic-send"],
    ),
    "another's value between": (
        [
            sent("p", Send("t", 1, 0), Send("t", 3, 2), transaction=True),
            sent("q", Send("t", 2, 1)),
            polled("c", (0, 1), (1, 2), (2, 3)),
        ],
        ["int-send-skip"],
    ),
    "an aborted value": (
        [sent("p", Send("t", 1, 0), outcome=FAIL, transaction=True), polled("c", (0, 1))],
        ["G1a"],
    ),
    "an aborted value for a reader of all": (
        [sent("p", Send("t", 1, 0), outcome=FAIL, transaction=True), polled("c", (0, 1), committed=False)],
        [],
    ),
    "an aborted value is no gap": (
        [
            *WRITTEN,
            sent("q", Send("t", 9, 3), outcome=FAIL, transaction=True),
            polled("d", *read(0, 1), (3, 9), *read(2, 3, 4), committed=False),
            polled("c", *ALL),
        ],
        [],
    ),
    "an aborted value that readers of all miss": (
        [
            *WRITTEN,
            sent("q", Send("t", 9, 3), outcome=FAIL, transaction=True),
            polled("d", *ALL, committed=False),
        ],
        ["int-poll-skip"],
    ),
    "unknown and read": ([sent("p", Send("t", 1), outcome=UNKNOWN), polled("c", (0, 1))], []),
    "unknown and not read": ([sent("p", Send("t", 1), outcome=UNKNOWN)], []),
    "unknown and read twice": ([sent("p", Send("t", 1), outcome=UNKNOWN), polled("c", (0, 1), (1, 1))], ["duplicate"]),
    "its own value": (
        [Operation("p", OK, (Send("t", 1, 0), Poll("t", ((0, 1),))), transaction=True)],
        ["precommitted-read"],
    ),
    "a circle": (
        [
            Operation("p", OK, (Send("t", 1, 0), Poll("t", ((1, 2),))), transaction=True),
            Operation("q", OK, (Send("t", 2, 1), Poll("t", ((0, 1),))), transaction=True),
        ],
        ["G1c"],
    ),
    "a circle of three": (
        [
            Operation(f"p{number}", OK, (Send("t", number, number), Poll("t", ((after, after),))), transaction=True)
            for number, after in [(0, 1), (1, 2), (2, 0)]
        ],
        ["G1c"],
    ),
    "a chain": (
        [
            Operation("p", OK, (Send("t", 1, 0),), transaction=True),
            Operation("q", OK, (Send("t", 2, 1), Poll("t", ((0, 1),))), transaction=True),
            polled("c", (0, 1), (1, 2)),
        ],
        [],
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_finds_what_was_planted(name: str) -> None:
    history, expected = PLANTED[name]
    assert kinds(history) == expected


def test_unseen_is_told_only_of_a_drained_log() -> None:
    assert kinds(PLANTED["not read at the end"][0], drained=False) == []


def test_what_is_legal_is_told_apart() -> None:
    found = check(PLANTED["another's value between"][0], drained=True)
    assert [str(anomaly) for anomaly in found] == ["int-send-skip in t: 1 values between 0 and 2"]
    assert illegal(found) == []


class Log:
    """A log that keeps its word, with the clients that use it: the history of a random life."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.records: list[list[tuple[int, int, bool]]] = [[], []]  # (offset, value, committed) by partition
        self.ends = [0, 0]
        self.next_value = 0
        self.history: list[Operation] = []
        self.positions: dict[str, list[int]] = {}

    def append(self, partition: int, committed: bool) -> Send:
        value, offset = self.next_value, self.ends[partition]
        self.next_value += 1
        self.records[partition].append((offset, value, committed))
        self.ends[partition] += 1 + self.chance.randrange(2)  # a marker now and then
        return Send(partition, value, offset)

    def write(self) -> None:
        transaction = self.chance.random() < 0.5
        committed = not transaction or self.chance.random() < 0.7
        sends = [self.append(self.chance.randrange(2), committed) for _ in range(self.chance.randrange(1, 5))]
        outcome = OK if committed else FAIL
        if self.chance.random() < 0.1:
            outcome, sends = UNKNOWN, [replace(one, offset=None) for one in sends]
        client = f"p{self.chance.randrange(3)}"
        self.history.append(Operation(client, outcome, tuple(sends), transaction=transaction))

    def poll(self, client: str, most: int = 4) -> None:
        committed, moved = client.startswith("c"), client not in self.positions or self.chance.random() < 0.1
        if moved:
            self.positions[client] = [0, 0]
        positions, polls = self.positions[client], []
        for partition in range(2):
            rows = [row for row in self.records[partition] if row[0] >= positions[partition]]
            rows = [row for row in rows if row[2] or not committed][:most]
            if rows:
                positions[partition] = rows[-1][0] + 1
                polls.append(Poll(partition, tuple((row[0], row[1]) for row in rows), committed))
        self.history.append(Operation(client, OK, tuple(polls), moved=moved))

    def live(self, steps: int) -> list[Operation]:
        for _ in range(steps):
            if self.chance.random() < 0.5:
                self.write()
            else:
                self.poll(self.chance.choice(["c1", "c2", "u1"]))
        self.poll("c-last", 1 << 30)
        self.poll("u-last", 1 << 30)
        return self.history


@settings(max_examples=100)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(0, 60))
def test_nothing_is_found_in_a_log_that_keeps_its_word(seed: int, steps: int) -> None:
    assert illegal(check(Log(seed).live(steps), drained=True)) == []


@settings(max_examples=100)
@given(seed=st.integers(0, 1 << 32))
def test_a_record_taken_out_of_every_answer_is_missed(seed: int) -> None:
    """Whatever else happened: an acknowledged value that no reader was given is a loss."""
    history = Log(seed).live(40)
    acknowledged = [step for one in history if one.outcome is OK for step in one.steps if isinstance(step, Send)]
    if not acknowledged:
        return
    gone = random.Random(seed).choice(acknowledged)

    def without(step: Send | Poll) -> Send | Poll:
        if isinstance(step, Send):
            return step
        return replace(step, records=tuple(record for record in step.records if record[1] != gone.value))

    changed = [replace(one, steps=tuple(map(without, one.steps))) for one in history]
    found: list[Anomaly] = check(changed, drained=True)
    assert {"lost-write", "unseen"} & {one.kind for one in found if repr(gone.value) in one.what}
