"""`ottla bench` against both kinds of brokers, and its histogram."""

import math
import random
import re
from pathlib import Path

import pytest

from ottla.bench.latencies import Latencies
from tests.peers.ottla import Brokers

from .conftest import Ottla


def test_producing_consuming_and_end_to_end(ottla: Ottla, bootstrap: str, tmp_path: Path) -> None:
    props = ("--producer-props", "acks=1", "batch.size=1000", "compression.type=lz4")
    result = ottla("bench", "produce", "--topic", "b", "--num-records", "1000", *props, "-b", bootstrap)
    # Nine records of 108 bytes are a batch.
    assert re.match(r"1,008 records sent in [\d.]+ s, [\d,.]+ records/sec \([\d.]+ MB/sec\)\n", result.out)
    assert "request of 9 records" in result.out
    assert "99.9th" in result.out
    lines = tmp_path / "lines"
    lines.write_bytes(b"one\ntwo\nthree\n")
    assert "<=None" not in ottla("bench", "produce", "--help").out
    paced = ("--throughput", "1000", "--payload-file", str(lines), "--producer-props", "acks=0", "linger.ms=3")
    result = ottla("bench", "produce", "--topic", "b", "--num-records", "30", *paced, "-b", bootstrap)
    # As many as come at this rate within linger.ms are a request.
    assert re.match(r"30 records sent in [\d.]+ s, ", result.out)
    assert "request of 3 records" in result.out
    assert ottla("consume", "b", "--from-beginning", "-n", "1038", "-b", bootstrap).out.endswith("one\ntwo\nthree\n")
    result = ottla("bench", "consume", "--topic", "b", "--messages", "1038", "-b", bootstrap)
    assert result.out.startswith("1,038 records received in ")
    result = ottla("bench", "latency", "--topic", "b", "--num-records", "5", "--acks", "1", "-b", bootstrap)
    assert result.out.startswith("end to end, 5 records of 1,024 bytes: ")
    result = ottla(
        "bench", "consume", "--topic", "b", "--messages", "2000", "--timeout", "2000", "-b", bootstrap, code=1
    )
    assert "only 1,043 of 2,000 records came; none for 2,000 ms" in result.err


@pytest.mark.parametrize("acks", ["0", "all"])
def test_a_request_that_is_too_large_has_a_reason(ottla: Ottla, brokers: Brokers, acks: str) -> None:
    """It is not sent: a broker closes the connection, and with it whatever else is under way there."""
    broker = brokers(settings={"socket.request.max.bytes": 100_000})
    at = ("-b", broker.bootstrap, "--producer-props", f"acks={acks}")
    options = ("--topic", "b", "--num-records", "10", "--record-size", "200000")
    error = ottla("bench", "produce", *options, *at, code=1).err
    assert "closes the connection of a request with more than 100,000 bytes (socket.request.max.bytes)" in error
    assert len(error.splitlines()) == 1
    assert "does this port want" not in error
    assert "bytes announced" not in broker.output()


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        (("ack=1",), "did you mean acks?"),
        (("acks=2",), "acks=2: 0, 1 or all"),
        (("acks=1", "batch.size=much"), "batch.size=much: a number from 0 on"),
        (("acks",), "not NAME=VALUE"),
    ],
)
def test_properties_that_mean_nothing(ottla: Ottla, properties: tuple[str, ...], says: str) -> None:
    result = ottla("bench", "produce", "--topic", "b", "--num-records", "1", "--producer-props", *properties, code=2)
    assert says in result.err


def test_percentiles_are_near_the_true_ones() -> None:
    source = random.Random(5)
    true = sorted(source.lognormvariate(-7, 2) for _ in range(20_000))
    latencies = Latencies()
    for seconds in true:
        latencies.record(seconds)
    for percent in (1, 50, 99, 99.9, 100):
        exact = true[math.ceil(len(true) * percent / 100) - 1] * 1e3
        assert latencies.percentile_ms(percent) == pytest.approx(exact, rel=1 / 100)
    assert sum(count for *_, count in latencies.bars()) == latencies.count == 20_000
    assert latencies.mean_ms == pytest.approx(sum(true) / 20, rel=1e-9)
    assert (Latencies().percentile_ms(99), Latencies().bars()) == (0.0, [])
