"""Every message through Apache Kafka 2.7's own code: it reads what we write, and writes the same bytes again. It skips
the tagged fields that are Ottla's own.
"""

from __future__ import annotations

import random

import pytest

from ottla.wire.k00_produce import ProduceRequest
from tests.wire.instances import codec, every_message, instance, without_own
from tests.wire.java import run_java

LATER = {(27, 1), (60, 0), (60, 1), (61, 0), (65, 0), (66, 0), (66, 1)}
"""The versions that 2.7 does not have, as (key, version)."""


def fill(message: ProduceRequest) -> None:
    """Kafka reads null for records, but cannot write it."""
    for topic in message.topics:
        for partition in topic.partitions:
            partition.records = partition.records or b""


@pytest.mark.java
def test_the_same_bytes() -> None:
    lines, expected = [], []
    for key, side, version in every_message():
        if (key, version) not in LATER:
            ours, encode, _ = codec(key, side)
            rng = random.Random(f"{key} {side} {version} java")
            for _ in range(5):
                message = instance(getattr(ours, side), version, rng)
                if isinstance(message, ProduceRequest):
                    fill(message)
                lines.append(f"{key} {side} {version} {encode(version, message).hex()}")
                expected.append(encode(version, without_own(message)).hex())
    assert len(lines) > 1_500
    answers = run_java("RoundTrip.java", "2.7.2", "\n".join(lines) + "\n")
    assert len(answers) == len(lines)
    differ = {}
    for line, encoded, answer in zip(lines, expected, answers, strict=True):
        if answer != encoded:
            differ[line.rpartition(" ")[0]] = answer
    assert not differ
