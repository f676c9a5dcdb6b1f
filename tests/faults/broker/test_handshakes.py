"""Handshakes of TLS that were changed on their way: each connection comes to an end, the broker says no word of a
mistake of its own, needs no more memory, and serves its usual clients.

Every failure names the seed; a case that was found stands in `test_found.py` as a test of its own.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.broker import settings
from tests.faults.broker.handshakes import Stranger
from tests.metrics.scraped import is_there
from tests.peers.certificates import certified
from tests.support.scanned import PANICKED, Scanned, scanned
from tests.support.tls import API_VERSIONS, store

pytestmark = pytest.mark.skipif(not is_there, reason="prometheus_client is absent")

SECONDS = 2.0
WARM_UP = 200
GROWTH_BYTES_MAX = 32 << 20


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Scanned]:
    with scanned(tmp_path) as made:
        yield made


def contexts(one: Scanned) -> list[tuple[int, ssl.SSLContext]]:
    """Clients of each protocol, with a certificate and without."""
    own = store(one.folder / "client.pem", certified("client", one.authority))
    found = []
    for port in (one.port, one.mutual_port):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = one.context()
            context.minimum_version = context.maximum_version = version
            if port == one.mutual_port:
                context.load_cert_chain(own)
            found.append((port, context))
    return found


def assail(one: Scanned, seconds: float) -> None:
    stranger = Stranger(contexts(one), API_VERSIONS)
    first, before = settings.seed(), 0
    for number in settings.until(time.monotonic() + seconds):
        try:
            stranger.meet(first + number)
        except TimeoutError:
            pytest.fail(f"the broker holds the connection of case {first + number}: {[*stranger.last][-1:]}")
        if number == WARM_UP:
            before = one.resident_bytes()
        if number % 100 == 0:
            assert one.broker.running, f"it ended at case {first + number}, after {[*stranger.last]}"
            assert PANICKED not in one.broker.output(), f"at case {first + number}, after {[*stranger.last]}"
    one.is_as_before()
    print(f"{number + 1} cases, {dict(stranger.counts)}")
    # Else nothing but the first check of a hello was tested.
    assert stranger.counts["let in"] > 0
    if before:
        grown = one.resident_bytes() - before
        assert grown < GROWTH_BYTES_MAX, f"{grown >> 20} MiB more after {number} cases from {first}"


def test_handshakes_that_were_changed(one: Scanned) -> None:
    assail(one, settings.seconds(SECONDS))


@pytest.mark.soak
def test_handshakes_that_were_changed_for_a_long_time(one: Scanned) -> None:
    assail(one, settings.seconds(900))
