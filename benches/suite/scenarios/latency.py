"""From the moment at which a record is sent until a consumer has it."""

from __future__ import annotations

from benches.suite import figures as f
from benches.suite.proof import NotEqual
from benches.suite.runner import Run, Scenario
from benches.suite.servers import Ottla, create_topic, with_setting

ALL = -1
BY_DEFAULT = "acks=all, 1,000 a second"
UNFLUSHED = "acks=all, unflushed, 1,000 a second"
FLUSH = "log.flush.on.acks.all"
# Of 1,000 a second: so that six are over the p99.9. Of three, one pause of the machine makes all.
LEAST_S = 6.0


def one(run: Run, found: f.Figures, case: str, rate: int, acks: int, **configs: object) -> None:
    """Records of 1 KiB at a fixed rate, on a topic of its own."""
    with run.case(case, found) as row:
        topic = "e2e-" + "".join(letter if letter.isalnum() else "-" for letter in case)
        create_topic(run.server, topic, **configs)
        out = run.load(
            run="end_to_end",
            address=run.server.bootstrap,
            pids=[run.server.pid],
            topic=topic,
            acks=acks,
            rate=rate,
            seconds=run.size.seconds if run.size.is_rehearsal else max(run.size.seconds, LEAST_S * run.size.factor),
            warm_up_s=min(1, run.size.seconds / 2),
            record_bytes=1 << 10,
        )
        there = run.load(run="check", address=run.server.bootstrap, topic=topic)["records"]
        if out["failed"] or there != out["sent"]:
            raise NotEqual(f"{topic}: {there} records are there of {out['sent']}")
        run.curves[case] = out["latency"]["curve_us"]
        latency = out["latency"]
        row.update({f.P50: latency["p50_us"], f.P99: latency["p99_us"], f.P999: latency["p999_us"]})
        row["sent late, p99.9, µs"] = out["late"]["p999_us"]
        row["acknowledged, p99, µs"] = out["acknowledged"]["p99_us"]
        row[f.CPU_RECORD] = out["cpu_s"] / max(1, out["requests"]) * 1e6


def end_to_end(run: Run) -> f.Figures:
    found: f.Figures = {}
    one(run, found, "acks=1, 1,000 a second", 1_000, 1)
    one(run, found, BY_DEFAULT, 1_000, ALL)
    one(run, found, "acks=all, flushed, 1,000 a second", 1_000, ALL, flush_messages=1)
    if isinstance(run.contestant, Ottla):
        with with_setting(run.server, FLUSH, "false"):
            one(run, found, UNFLUSHED, 1_000, ALL)
    elif BY_DEFAULT in found:
        # Kafka's acks=all never is.
        found[UNFLUSHED] = dict(found[BY_DEFAULT])
        run.curves[UNFLUSHED] = run.curves[BY_DEFAULT]
    return found


def rates(run: Run) -> f.Figures:
    found: f.Figures = {}
    for rate in (100, 1_000, 2_000, 5_000, 10_000, 20_000, 40_000) if run.size.is_full else (1_000, 5_000, 15_000):
        one(run, found, f"{rate:,} a second", rate, 1)
    return found


SCENARIOS = [
    Scenario("end-to-end", "Records of 1 KiB from producer to consumer", "load end_to_end", end_to_end, expected_s=230),
    Scenario(
        "end-to-end-rates", "The same at fixed rates up to saturation, acks=1", "load end_to_end", rates, is_long=True
    ),
]
