"""The scenarios that are measured. Each file has the scenarios of one family; here is their order."""

from benches.suite.runner import Scenario
from benches.suite.scenarios import (
    cluster,
    cold_reader,
    consume,
    controller,
    durable,
    failover,
    groups,
    latency,
    limits,
    linkedin,
    partitions,
    produce,
    recovery,
    reliability,
    reliability_cluster,
    sequences,
    small,
    start,
)

SCENARIOS: list[Scenario] = [
    *start.SCENARIOS,
    # Its first one begins the lives that the next ones share.
    *produce.SCENARIOS,
    *small.SCENARIOS,
    *sequences.SCENARIOS,
    *durable.SCENARIOS,
    *consume.SCENARIOS,
    *cold_reader.SCENARIOS,
    *latency.SCENARIOS,
    *partitions.SCENARIOS,
    *cluster.SCENARIOS,
    *failover.SCENARIOS,
    *controller.SCENARIOS,
    *recovery.SCENARIOS,
    *groups.SCENARIOS,
    *linkedin.SCENARIOS,
    *reliability.SCENARIOS,
    *reliability_cluster.SCENARIOS,
    *limits.SCENARIOS,
]
