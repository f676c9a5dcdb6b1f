"""Assignors give what Kafka 2.7.2's own classes give, and bytes are the same on both sides."""

import os
import random
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.client.assignors import ASSIGNORS, assignors_of
from ottla.client.assignors.sticky import owned_as_user_data, owned_of
from ottla.client.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.errors import InconsistentGroupProtocol, InvalidConfig
from ottla.kafka import TopicPartition
from tests.peers.apache import SCRIPT, environment, need_java

Assigned = dict[str, set[TopicPartition]]


class Case(NamedTuple):
    assignor: str
    counts: Mapping[str, int]
    members: Mapping[str, Subscription]

    def line(self) -> str:
        counts = ",".join(f"{topic}={count}" for topic, count in self.counts.items())
        fields = ["assign", self.assignor, counts]
        for member, each in self.members.items():
            fields += [member, each.instance_id or "-", encode_subscription(each).hex()]
        return "\t".join(fields)

    def assigned(self) -> Assigned:
        found = ASSIGNORS[self.assignor].assign(self.counts, self.members)
        assert all(len(set(each)) == len(each) for each in found.values())
        return {member: set(each) for member, each in found.items()}


def java(lines: list[str]) -> list[str]:
    need_java()
    command = [str(SCRIPT), "java", "2.7.2", str(Path(__file__).with_name("Assign.java"))]
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=240, env={**os.environ, **environment(256)}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def read(answer: str) -> Assigned:
    pairs = (field.rpartition("=") for field in answer.split("\t"))
    return {member: set(decode_assignment(bytes.fromhex(data)).partitions) for member, _, data in pairs}


def histories(seed: int, steps: int) -> Iterator[Case]:
    """Groups whose members come and go, topics that appear and grow: each step is a case that tells what the one before
    has given.
    """
    rng = random.Random(seed)
    assignor = list(ASSIGNORS)[seed % len(ASSIGNORS)]
    have_same = rng.random() < 0.5
    counts = {f"topic-{name}": rng.randint(1, 12) for name in range(rng.randint(1, 5))}
    topics: dict[str, tuple[str, ...]] = {}
    had: dict[str, tuple[tuple[TopicPartition, ...], int]] = {}
    for generation in range(1, steps + 1):
        if rng.random() < 0.2:
            counts[f"topic-{len(counts)}"] = rng.randint(1, 12)
        if rng.random() < 0.2:
            counts[rng.choice(list(counts))] += 3
        for member in list(topics):
            if rng.random() < 0.2 and len(topics) > 1:
                del topics[member]
        for _ in range(rng.randint(0, 4) or not topics):
            topics[f"member-{rng.getrandbits(64):x}"] = ()
        for member in topics:
            if have_same:
                topics[member] = tuple(counts)
            elif not topics[member] or rng.random() < 0.1:
                topics[member] = tuple(rng.sample(list(counts), rng.randint(1, len(counts))))
        members = {}
        order = list(topics)
        rng.shuffle(order)
        for index, member in enumerate(order):
            partitions, since = had.get(member, ((), -1))
            instance = f"static-{member}" if index % 3 == 0 and seed % 2 else None
            user_data = None
            if assignor == "sticky" and member in had:
                user_data = owned_as_user_data(partitions, since)
            owned = partitions if assignor == "cooperative-sticky" else ()
            members[member] = Subscription(topics[member], user_data, owned, instance)
        read_topics = {topic for each in members.values() for topic in each.topics}
        case = Case(assignor, {topic: counts[topic] for topic in counts if topic in read_topics}, members)
        yield case
        for member, got in case.assigned().items():
            if rng.random() < 0.9 or assignor == "cooperative-sticky":
                had[member] = tuple(sorted(got)), generation


@pytest.mark.java
@pytest.mark.parametrize(
    "histories_count", [pytest.param(60, id="short"), pytest.param(2_000, id="long", marks=pytest.mark.soak)]
)
def test_the_same_as_java(histories_count: int) -> None:
    cases = [case for seed in range(histories_count) for case in histories(seed, 8)]
    answers = java([case.line() for case in cases])
    assert len(answers) == len(cases)
    wrong = [case.line() for case, answer in zip(cases, answers, strict=True) if case.assigned() != read(answer)]
    assert not wrong, (len(wrong), len(cases), wrong[0])


@pytest.mark.java
def test_user_data_of_sticky_are_javas() -> None:
    partitions = [TopicPartition("orders", number) for number in (3, 1, 7)]
    (answer,) = java(["sticky\t42\torders=3,orders=1,orders=7"])
    assert owned_as_user_data(partitions, 42).hex() == answer
    read_back = owned_of(Subscription(("orders",), bytes.fromhex(answer)))
    assert read_back == (tuple(partitions), 42)


@pytest.mark.parametrize("seed", range(40))
def test_every_partition_is_owned_once(seed: int) -> None:
    """A cooperative one may be owned by nobody until its former owner has given it back, in the next round."""
    for case in histories(seed, 6):
        given = [partition for each in case.assigned().values() for partition in each]
        assert len(given) == len(set(given)), case
        wanted = {TopicPartition(topic, number) for topic, count in case.counts.items() for number in range(count)}
        held = {partition for each in case.members.values() for partition in each.owned}
        assert wanted - held <= set(given) <= wanted, case


def test_cooperative_members_never_share_a_partition() -> None:
    """Two claim the same one, the older claim by its generation: neither gets what the other has not given back."""
    both = (TopicPartition("t", 0), TopicPartition("t", 1))
    members = {
        "stale": Subscription(("t",), owned=both, generation=3),
        "newer": Subscription(("t",), owned=both[:1], generation=5),
        "fresh": Subscription(("t",)),
    }
    found = ASSIGNORS["cooperative-sticky"].assign({"t": 2}, members)
    assert found["newer"] == [both[0]]
    assert both[1] not in found["fresh"], "the stale member may still read it"


def test_sticky_members_move_as_little_as_possible() -> None:
    topics = {"t": 9}
    first = ASSIGNORS["sticky"].assign(topics, {name: Subscription(("t",)) for name in "abc"})
    told = {name: Subscription(("t",), owned_as_user_data(first[name], 1)) for name in "abc"}
    second = ASSIGNORS["sticky"].assign(topics, {**told, "d": Subscription(("t",))})
    assert sum(len(set(first[name]) & set(second[name])) for name in "abc") == 7
    assert len(second["d"]) == 2


def test_bytes_of_every_version_come_back() -> None:
    owned = (TopicPartition("b", 1), TopicPartition("b", 0), TopicPartition("a", 7))
    whole = Subscription(("a", "b"), b"data", owned)
    assert decode_subscription(encode_subscription(whole)) == whole
    assert decode_subscription(encode_subscription(whole, 0)) == whole._replace(owned=())
    later = b"\x00\x03" + encode_subscription(whole)[2:] + (9).to_bytes(4, "big") + b"\xff\xff"
    assert decode_subscription(later, "i") == whole._replace(generation=9, instance_id="i")
    for version in (0, 1):
        assigned = Assignment(owned, None)
        assert decode_assignment(encode_assignment(assigned, version)) == assigned
    assert decode_assignment(b"") == Assignment(())


def test_bytes_that_are_cut_are_refused() -> None:
    owned = (TopicPartition("b", 1), TopicPartition("a", 7))
    data = encode_subscription(Subscription(("a", "b"), b"data", owned))
    for end in range(len(data)):
        with pytest.raises(InconsistentGroupProtocol):
            decode_subscription(data[:end])
    assigned = encode_assignment(Assignment(owned))
    for end in range(1, len(assigned)):
        with pytest.raises(InconsistentGroupProtocol):
            decode_assignment(assigned[:end])


def test_user_data_that_make_no_sense_are_no_claim() -> None:
    assert owned_of(Subscription(("t",), b"\xff" * 9)) == ((), -1)
    assert owned_of(Subscription(("t",))) == ((), None)


def test_an_unknown_assignor_is_named() -> None:
    with pytest.raises(InvalidConfig, match="did you mean cooperative-sticky"):
        assignors_of(["coperative-sticky"])
    with pytest.raises(InvalidConfig, match="at least one"):
        assignors_of([])
