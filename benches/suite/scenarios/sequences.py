"""Producers whose batches are numbered: idempotent and transactional."""

from __future__ import annotations

from benches.suite import figures as f
from benches.suite.runner import Run, Scenario
from benches.suite.scenarios.produce import rdkafka

LARGE = {"queue_buffering_max_messages": 1_000_000, "batch_size": 65536, "linger_ms": 5, "acks": "all"}


def sequences(run: Run) -> f.Figures:
    found: f.Figures = {}
    rdkafka(run, found, "neither", "plain", 100, 1_000_000, **LARGE)
    rdkafka(run, found, "idempotent", "idempotent", 100, 1_000_000, **LARGE, enable_idempotence="true")
    transactional = {**LARGE, "transactional_id": "bench"}
    rdkafka(run, found, "transactions of 20,000", "large", 100, 500_000, **transactional, per_transaction=20_000)
    if run.size.is_full:
        rdkafka(run, found, "transactions of 1,000", "small", 100, 200_000, **transactional, per_transaction=1_000)
    return found


SCENARIOS = [
    Scenario(
        "idempotent",
        "100-byte records, idempotent and in transactions, acks=all",
        "librdkafka by its C interface",
        sequences,
        expected_s=70,
    )
]
