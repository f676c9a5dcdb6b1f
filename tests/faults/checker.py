"""Anomalies that a log may never show, found in the history of its clients: values in, anomalies out, no I/O.

After Jepsen's checker for Kafka-like logs (jepsen.tests.kafka). A test records what every client asked for and what it
was told, as `Operation`s in the order of each client, and `check` says what cannot be explained. Values must be unique:
that is what makes a value's way through the log visible.

Offsets have holes (markers of transactions, other readers' aborted records), so order is rebuilt from all that is
known: the version order of a partition is its values by offset, and neighbours are neighbours in that list. There are
two of them: what was committed, for readers of committed records, and everything, for the others.

| anomaly | means |
|---|---|
| inconsistent-offsets | one offset, two values |
| duplicate | one value, two offsets |
| lost-write | acknowledged, and never read although a later offset was |
| unseen | acknowledged, and not read by the end |
| G1a | a reader of committed records saw a value of an aborted transaction |
| poll-skip, nonmonotonic-poll | from one poll to the next of one client a value is passed over, or comes again |
| int-poll-skip, int-nonmonotonic-poll | the same within one poll or transaction |
| nonmonotonic-send, int-nonmonotonic-send | a later send of one client has a smaller offset |
| int-send-skip | another's value between two of one transaction: legal, for Kafka does not isolate writers |
| precommitted-read | a transaction read what itself wrote |
| G1c | transactions read from each other in a circle |
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

Partition: TypeAlias = Hashable
Value: TypeAlias = Hashable

#: what a log may do without breaking a promise
LEGAL = frozenset({"int-send-skip"})


class Outcome(Enum):
    OK = "acknowledged"
    FAIL = "certainly without effect for readers of committed records"
    UNKNOWN = "nobody knows"


@dataclass(frozen=True, slots=True)
class Send:
    """One record. `offset` is where the log says it is, None where it was not told."""

    partition: Partition
    value: Value
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Poll:
    """The records that one call returned of one partition: (offset, value) in the order of the call."""

    partition: Partition
    records: tuple[tuple[int, Value], ...]
    committed: bool = True  # asked for committed records only


@dataclass(frozen=True, slots=True)
class Operation:
    """One call, or one transaction with several. `moved`: the client was given another position before it (a seek,
    an assignment), so that its polls need not continue where the last ended.
    """

    client: Hashable
    outcome: Outcome
    steps: tuple[Send | Poll, ...]
    moved: bool = False
    transaction: bool = False


@dataclass(frozen=True, slots=True)
class Anomaly:
    kind: str
    partition: Partition
    what: str
    #: Of a duplicate: the value, and where it is.
    value: object = None
    offsets: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} in {self.partition}: {self.what}"


def check(history: Sequence[Operation], *, drained: bool = False) -> list[Anomaly]:
    """Everything that is wrong with a history; `drained`: at its end readers had read all there was (else `unseen` is
    not looked for). What is LEGAL is told too.
    """
    facts = _Facts(history)
    found = [*_offsets(facts), *_losses(facts, drained), *_aborted_reads(history, facts)]
    for client in _by_client(history).values():
        found += _sends(client, facts)
        found += _polls(client, facts)
    return [*found, *_own_reads(history), *_circles(history)]


def illegal(anomalies: Iterable[Anomaly]) -> list[Anomaly]:
    return [anomaly for anomaly in anomalies if anomaly.kind not in LEGAL]


def _sends_of(operation: Operation) -> Iterator[Send]:
    return (step for step in operation.steps if isinstance(step, Send))


def _polls_of(operation: Operation) -> Iterator[Poll]:
    return (step for step in operation.steps if isinstance(step, Poll))


def _by_client(history: Sequence[Operation]) -> dict[Hashable, list[Operation]]:
    clients: dict[Hashable, list[Operation]] = defaultdict(list)
    for operation in history:
        clients[operation.client].append(operation)
    return clients


class _Order:
    """The values of one partition by offset; a value's index is its place among the known ones."""

    def __init__(self, offsets: Iterable[int]) -> None:
        self.offsets = sorted(offsets)

    def index(self, offset: int) -> int:
        return bisect_left(self.offsets, offset)


class _Facts:
    """The facts that all clients together know of offsets, acknowledgements and aborts."""

    def __init__(self, history: Sequence[Operation]) -> None:
        self.at: dict[Partition, dict[int, set[Value]]] = defaultdict(lambda: defaultdict(set))
        self.acknowledged: dict[Partition, dict[Value, int | None]] = defaultdict(dict)
        self.aborted: dict[Partition, set[Value]] = defaultdict(set)
        self.read: dict[Partition, set[Value]] = defaultdict(set)
        committed: dict[Partition, set[int]] = defaultdict(set)
        for operation in history:
            for sent in _sends_of(operation):
                if sent.offset is not None:
                    self.at[sent.partition][sent.offset].add(sent.value)
                if operation.outcome is Outcome.OK:
                    self.acknowledged[sent.partition][sent.value] = sent.offset
                    if sent.offset is not None:
                        committed[sent.partition].add(sent.offset)
                elif operation.outcome is Outcome.FAIL:
                    self.aborted[sent.partition].add(sent.value)
            for poll in _polls_of(operation):
                at = self.at[poll.partition]
                for offset, value in poll.records:
                    at[offset].add(value)
                self.read[poll.partition].update(value for _, value in poll.records)
                if poll.committed:
                    committed[poll.partition].update(offset for offset, _ in poll.records)
        self.everything: Mapping[Partition, _Order] = {name: _Order(at) for name, at in self.at.items()}
        self.committed: Mapping[Partition, _Order] = {name: _Order(committed[name]) for name in self.at}

    def order(self, poll: Poll) -> _Order:
        return (self.committed if poll.committed else self.everything)[poll.partition]


def _offsets(facts: _Facts) -> Iterator[Anomaly]:
    for partition, at in facts.at.items():
        places: dict[Value, list[int]] = defaultdict(list)
        for offset, values in at.items():
            if len(values) > 1:
                yield Anomaly("inconsistent-offsets", partition, f"offset {offset} held {sorted(map(repr, values))}")
            for value in values:
                places[value].append(offset)
        for value, offsets in places.items():
            if len(offsets) > 1:
                there = tuple(sorted(offsets))
                yield Anomaly("duplicate", partition, f"{value!r} at offsets {[*there]}", value, there)


def _losses(facts: _Facts, drained: bool) -> Iterator[Anomaly]:
    for partition, acknowledged in facts.acknowledged.items():
        read = facts.read[partition]
        last_read = max((offset for offset, values in facts.at[partition].items() if values & read), default=-1)
        for value, offset in acknowledged.items():
            if value in read:
                continue
            if offset is not None and offset < last_read:
                yield Anomaly("lost-write", partition, f"{value!r} at offset {offset}, read up to {last_read}")
            elif drained:
                yield Anomaly("unseen", partition, f"{value!r} at offset {offset}")


def _aborted_reads(history: Sequence[Operation], facts: _Facts) -> Iterator[Anomaly]:
    for operation in history:
        for poll in _polls_of(operation):
            aborted = facts.aborted[poll.partition]
            if not poll.committed or not aborted:
                continue
            for offset, value in poll.records:
                if value in aborted:
                    yield Anomaly("G1a", poll.partition, f"{operation.client} read {value!r} at offset {offset}")


def _sends(client: Sequence[Operation], facts: _Facts) -> Iterator[Anomaly]:
    last: dict[Partition, int] = {}
    for operation in client:
        inside: dict[Partition, int] = {}
        for sent in _sends_of(operation):
            name, offset = sent.partition, sent.offset
            if offset is None:
                continue
            if (before := inside.get(name)) is not None:
                distance = facts.everything[name].index(offset) - facts.everything[name].index(before)
                if distance < 1:
                    yield Anomaly("int-nonmonotonic-send", name, f"{sent.value!r} at {offset} after {before}")
                elif distance > 1 and operation.transaction:
                    yield Anomaly("int-send-skip", name, f"{distance - 1} values between {before} and {offset}")
            elif (before := last.get(name)) is not None and offset <= before:
                yield Anomaly("nonmonotonic-send", name, f"{sent.value!r} at {offset} after {before}")
            inside[name] = offset
        last.update(inside)


def _polls(client: Sequence[Operation], facts: _Facts) -> Iterator[Anomaly]:
    last: dict[Partition, int] = {}
    for operation in client:
        if operation.moved:
            last.clear()
        inside: set[Partition] = set()
        for poll in _polls_of(operation):
            order, name = facts.order(poll), poll.partition
            for offset, value in poll.records:
                if (before := last.get(name)) is not None:
                    distance = order.index(offset) - order.index(before)
                    prefix = "int-" if name in inside else ""
                    what = f"{operation.client} read {value!r} at {offset} after {before}"
                    if distance < 1:
                        yield Anomaly(f"{prefix}nonmonotonic-poll", name, what)
                    elif distance > 1:
                        missed = order.offsets[order.index(before) + 1]
                        yield Anomaly(f"{prefix}poll-skip", name, f"{what}, without the one at {missed}")
                inside.add(name)
                last[name] = offset


def _own_reads(history: Sequence[Operation]) -> Iterator[Anomaly]:
    for operation in history:
        if not operation.transaction:
            continue
        own = {(sent.partition, sent.value) for sent in _sends_of(operation)}
        for poll in _polls_of(operation):
            for offset, value in poll.records:
                if poll.committed and (poll.partition, value) in own:
                    yield Anomaly("precommitted-read", poll.partition, f"{value!r} at {offset}")


def _circles(history: Sequence[Operation]) -> list[Anomaly]:
    """Only the flow of values counts: the order of writes is not isolated in Kafka, so circles through it are legal."""
    writer: dict[tuple[Partition, Value], int] = {}
    for number, operation in enumerate(history):
        if operation.transaction and operation.outcome is not Outcome.FAIL:
            writer.update(((sent.partition, sent.value), number) for sent in _sends_of(operation))
    edges: dict[int, dict[int, Partition]] = defaultdict(dict)
    for number, operation in enumerate(history):
        if operation.transaction and operation.outcome is not Outcome.FAIL:
            for poll in _polls_of(operation):
                for _, value in poll.records:
                    source = writer.get((poll.partition, value))
                    if source is not None and source != number:
                        edges[source][number] = poll.partition
    found = []
    for group in strong_components(edges.keys(), lambda node: edges.get(node, {})):
        if len(group) > 1:
            partition = next(edges[node][after] for node in group for after in edges[node] if after in group)
            clients = [str(history[number].client) for number in sorted(group)]
            found.append(Anomaly("G1c", partition, f"operations {sorted(group)} of {clients}"))
    return found


def strong_components(nodes: Iterable[int], after: Callable[[int], Iterable[int]]) -> Iterator[set[int]]:
    """Tarjan's algorithm without recursion: the groups of nodes that reach each other."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    for root in nodes:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        path.append(root)
        on_path.add(root)
        work = [(root, iter(after(root)))]
        while work:
            node, rest = work[-1]
            for child in rest:
                if child not in number:
                    number[child] = low[child] = len(number)
                    path.append(child)
                    on_path.add(child)
                    work.append((child, iter(after(child))))
                    break
                if child in on_path:
                    low[node] = min(low[node], number[child])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    group = set()
                    while not group or node not in group:
                        group.add(path.pop())
                    on_path -= group
                    yield group
