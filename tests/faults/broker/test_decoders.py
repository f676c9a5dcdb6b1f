"""Bytes that are almost right, for everything that reads bytes: a declared error or a value, never a panic, never
another exception, and never more memory than the limits of the reader allow.
"""

import random
import time
from pathlib import Path

import pytest

from tests.faults.broker import settings
from tests.faults.broker.decoders import Decoder, every_decoder
from tests.faults.broker.entrances import entrances

SECONDS = 10.0
GROWTH_BYTES_MAX = 64 << 20


@pytest.fixture(scope="module")
def decoders(tmp_path_factory: pytest.TempPathFactory) -> list[Decoder]:
    return [*every_decoder(tmp_path_factory.mktemp("decoders")), *entrances()]


def peak_bytes(*, reset: bool = False) -> int:
    """The most memory that this process had at once, since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def feed(decoder: Decoder, seed: int) -> None:
    """One case; the seed and the decoder's name make it again."""
    data = decoder.case(random.Random(f"{seed} {decoder.name}"))
    before = peak_bytes(reset=True)
    try:
        decoder.accepts(data)
    except BaseException as error:
        pytest.fail(f"{decoder.name}, case {seed}: {type(error).__name__}: {error}\n{data[:400]!r}")
    grown = peak_bytes() - before
    assert grown < GROWTH_BYTES_MAX, f"{decoder.name}, case {seed}: {grown >> 20} MiB for {len(data)} bytes"


def fuzz(decoders: list[Decoder], seconds: float) -> int:
    first = settings.seed()
    for number in settings.until(time.monotonic() + seconds):
        for decoder in decoders:
            feed(decoder, first + number)
    return number + 1


def test_every_decoder_reads_what_is_right(decoders: list[Decoder]) -> None:
    assert len(decoders) > 500
    refused = [decoder.name for decoder in decoders for data in decoder.samples if not decoder.accepts(data)]
    assert refused == []


def test_almost_right(decoders: list[Decoder]) -> None:
    print(f"{fuzz(decoders, settings.seconds(SECONDS))} rounds over {len(decoders)} decoders")


def test_a_case_is_not_always_refused(decoders: list[Decoder]) -> None:
    """Else only the first check of each decoder would be tested."""
    accepted = sum(decoder.accepts(decoder.case(random.Random(seed))) for decoder in decoders for seed in range(5))
    assert accepted > len(decoders)


@pytest.mark.soak
def test_almost_right_for_a_long_time(decoders: list[Decoder]) -> None:
    print(f"{fuzz(decoders, settings.seconds(900))} rounds over {len(decoders)} decoders")
