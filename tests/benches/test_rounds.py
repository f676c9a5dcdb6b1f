"""Rounds and what is made of their figures, with brokers and measures of this file's own."""

import itertools
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benches.suite import figures as f
from benches.suite import plots, report
from benches.suite.figures import Result
from benches.suite.generators import Load
from benches.suite.lives import Lives
from benches.suite.plan import Part, is_measured, plan, rounds_that_fit
from benches.suite.proof import NotEqual
from benches.suite.runner import ONCE_S, Run, Scenario, Size, of_round, run_scenario
from benches.suite.scenarios import SCENARIOS, controller, latency, reliability_cluster
from benches.suite.servers import Kafka
from benches.suite.targets import GOALS, Target, table
from benches.suite.warmup import cost, is_still, warm_up
from ottla.wire.headers import parse_response_header, request_frame
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR, LeaderAndIsrRequest
from ottla.wire.k05_stop_replica import STOP_REPLICA, StopReplicaRequest
from ottla.wire.k06_update_metadata import UPDATE_METADATA, UpdateMetadataRequest
from ottla.wire.schema import Api


class Named(Kafka):
    """A release without its jars."""

    def __init__(self, name: str) -> None:
        self.version = self.name = name


US, A, B = Named("Ottla"), Named("Kafka 3.9.2"), Named("Kafka 4.3.1")


@pytest.mark.parametrize(
    ("costs", "still"),
    [
        ([10, 10], False),
        ([100, 10, 10.2, 10.4], True),
        ([100, 90, 81], False),
        # A virtual machine that still compiles, however noisy.
        ([160, 150, 130, 125, 110, 100], False),
        # A noisy machine that compiles nothing.
        ([10, 12, 11, 12, 10, 11.5], True),
    ],
)
def test_warm_is_who_costs_the_same_again(costs: list[float], still: bool) -> None:
    assert is_still(costs) is still


def test_a_broker_that_falls_all_the_time_is_reported_as_not_settled() -> None:
    falling: Iterator[float] = (1000 * 0.9**number for number in itertools.count())
    found = warm_up("Kafka", "small Produce", lambda: next(falling), limit_s=0.001)
    assert not found.is_still
    assert "NOT SETTLED" in str(found)
    costs = iter([30.0, 20.0, 10.0, 10.0, 10.0, 99.0])
    found = warm_up("Kafka", "small Produce", lambda: next(costs), limit_s=60)
    assert found.costs == [30, 20, 10, 10, 10]
    assert "NOT SETTLED" not in str(found)
    # A plateau between two steps of a compiler.
    found = warm_up("Kafka", "small Produce", lambda: 10.0, limit_s=60, least_s=0.01)
    assert found.is_still
    assert found.seconds >= 0.01


def test_the_cost_of_a_scenario_is_of_all_its_cases() -> None:
    assert cost({"a": {f.CPU_REQUEST: 2.0, f.CPU_MB: 50.0}, "b": {f.CPU_MB: 8.0}, "the disk": {f.MB: 7.0}}) == 4
    assert cost({"the disk": {f.MB: 7.0}}) == 0


def test_ratios_are_of_neighbours_in_a_round_to_the_better_of_the_run() -> None:
    result = Result("s", "", "")
    for number, (us, a, b) in enumerate([(1.0, 2.0, 4.0), (3.0, None, 2.0), (5.0, None, None), (1.0, 10.0, None)], 1):
        for name, value in (("Ottla", us), ("Kafka 3.9.2", a), ("Kafka 4.3.1", b)):
            result.add(name, number, {"case": {f.CPU_RECORD: value}} if value is not None else {})
    row = result.rows["case"][f.CPU_RECORD]
    assert row["Kafka 3.9.2"] == [2.0, None, None, 10.0]
    # Lower is better: that is 4.3.1 by its median, and 3.9.2 where it has no figure.
    assert f.ratios(f.CPU_RECORD, row, "Ottla") == [0.25, 1.5, 0.1]
    assert f.ratios(f.RECORDS, row, "Ottla") == [0.5, 1.5, 0.1]
    assert f.ratios(f.CPU_RECORD, {"Ottla": [1.0, None]}, "Ottla") == []


def test_what_has_no_target_is_measured_beside_one_kafka_in_turns() -> None:
    scenarios = [Scenario(name, "", "", lambda run: {}) for name in ("small-requests", "one", "two", "three")]
    parts = plan(scenarios, scenarios, [US, A, B], every=False)
    assert [part.contestants for part in parts] == [[US, A, B], [US, A], [US, B], [US, A]]
    # Whichever are chosen, a scenario's opponent is the same.
    assert plan(scenarios[2:3], scenarios, [US, A, B], every=False)[0].contestants == [US, B]
    assert plan(scenarios[2:3], scenarios, [US, A, B], every=True)[0].contestants == [US, A, B]
    turns = Scenario("partitions", "", "", lambda run: {}, takes_turns=True)
    assert [of_round(turns, [US, A, B], number) for number in (1, 2, 3)] == [[US, A], [US, B], [US, A]]


def test_targets_say_met_missed_or_not_measured(tmp_path: Path) -> None:
    small = Result("small-requests", "", "load")
    for value in (4.0, 5.0, 30.0):
        small.add("Ottla", 1 + int(value != 4.0) + int(value == 30.0), {"one in flight": {f.P50: value}})
    for number in (1, 2, 3):
        small.add("Kafka 3.9.2", number, {"one in flight": {f.P50: 10.0}})
    verdicts = {row[0]: row[1:] for row in table([small])}
    assert verdicts["small-requests: one in flight, p50, ratio"] == ["<= 0.8", "0.5 [0.4, 3]", "met"]
    assert verdicts["fetch: 4 MiB, cached, CPU a MB, ratio"] == ["<= 1", "", "not measured"]
    own = [name for name, (wanted, *_) in verdicts.items() if wanted.endswith("(own)")]
    assert "cold-start: first Metadata answer, resident, idle, MB" in own
    assert all(name.endswith(", ratio") for name in verdicts.keys() - set(own))
    report.save(small, {"command": "", "commit": ""}, [], tmp_path)
    report.write_page(tmp_path, ["small-requests"])
    page = (tmp_path / "README.md").read_text()
    assert "| small-requests: one in flight, p50, ratio | <= 0.8 | 0.5 [0.4, 3] | met |" in page
    more = Target("s", "c", f.REQUESTS, 2.0)
    assert (more.is_met(2.1), more.is_met(1.9), more.part(4.0)) == (True, False, 0.5)
    assert ("small-requests", "one in flight", f.P50) in GOALS


def test_a_round_that_fails_costs_its_own_figure_and_no_other() -> None:
    rounds: list[str] = []

    def measure(run: Run) -> f.Figures:
        rounds.append(run.contestant.name)
        found: f.Figures = {"one": {f.RECORDS: 1.0}}
        if rounds == ["Ottla", "Kafka 3.9.2"]:
            raise KeyError("an answer without a field")
        with run.case("two", found) as row:
            row[f.RECORDS] = 100.0
            if len(rounds) == 3:
                raise NotEqual("1 record is there of 2")
        return found

    scenario = Scenario("s", "", "", measure, owns_life=True)
    lives = Lives(Load(Path("no generator is needed")), 1, 1)
    result = run_scenario(scenario, [US, A], 3, lives, Size(), lambda text: None)
    assert rounds == ["Ottla", "Kafka 3.9.2"] * 3
    assert result.rows["one"][f.RECORDS] == {"Ottla": [1, 1, 1], "Kafka 3.9.2": [None, 1, 1]}
    assert result.rows["two"][f.RECORDS] == {"Ottla": [100, None, 100], "Kafka 3.9.2": [None, 100, 100]}
    assert result.problems == [
        "Kafka 3.9.2, round 1: KeyError: 'an answer without a field'",
        "Ottla, round 2: two: 1 record is there of 2",
    ]


def test_going_on_leaves_out_what_this_commit_has_measured(tmp_path: Path) -> None:
    scenario = Scenario("s", "", "", lambda run: {}, expected_s=90)
    part = Part(scenario, [US, A])
    assert not is_measured(part, 2, tmp_path, "abc")
    result = Result("s", "", "", spent={"Ottla": [9.0, 3.0], "Kafka 3.9.2": [20.0, 4.0]})
    report.save(result, {"commit": "abc"}, [], tmp_path)
    assert is_measured(part, 2, tmp_path, "abc")
    assert not is_measured(part, 3, tmp_path, "abc")
    assert not is_measured(part, 2, tmp_path, "def")
    assert not is_measured(Part(scenario, [US, A, B]), 2, tmp_path, "abc")
    # What it took the last time: the warming once, the rounds as often as there are rounds.
    assert part.seconds(3, result) == 9 + 2 * 3 + 20 + 2 * 4
    assert part.seconds(1, None) == 30


def test_a_machine_that_is_too_slow_has_fewer_rounds() -> None:
    parts = [Part(Scenario("s", "", "", lambda run: {}, expected_s=90), [US, A])] * 4
    found = {left_s: rounds_that_fit([], parts, 3, left_s) for left_s in (400, 360, 350, 130, -1)}
    assert found == {400: 3, 360: 3, 350: 2, 130: 1, -1: 1}
    aimed = Part(Scenario("fetch", "", "", lambda run: {}, expected_s=90), [US, A])
    assert rounds_that_fit([], [aimed, *parts], 3, 90) == 3
    assert rounds_that_fit([], [aimed, *parts], 3, 89) == 2
    # Twice as fast as expected, half as fast.
    assert rounds_that_fit([(parts[0], 45)] * 2, parts[2:], 3, 91) == 3
    assert rounds_that_fit([(parts[0], 180)] * 2, parts[2:], 3, 240) == 2
    assert Size(seconds=2, warm_up_s=30).hurried(1, 3) == Size(seconds=1, warm_up_s=10)
    assert Size(seconds=2, warm_up_s=30).hurried(3, 3) == Size(seconds=2, warm_up_s=30)


def test_what_is_no_match_is_rehearsed_once_with_a_warm_broker() -> None:
    assert Size(warm_up_s=30).rehearsing_s("consume", is_warm=True) == ONCE_S
    assert Size(warm_up_s=30).rehearsing_s("fetch", is_warm=True) == 30
    assert Size(warm_up_s=30).rehearsing_s("consume", is_warm=False) == 30
    assert Size(warm_up_s=30, is_full=True).rehearsing_s("consume", is_warm=True) == 30


def test_brokers_are_shared_by_neighbours() -> None:
    names = [part.scenario.name for part in plan(SCENARIOS, SCENARIOS, [US, A, B], every=True)]
    first = names.index("default-batches")
    assert all(scenario.owns_life == (names.index(scenario.name) < first) for scenario in SCENARIOS)
    assert names[-2:] == ["durable-java", "groups"]
    assert names.index("end-to-end") < names.index("produce-sizes")


def test_kafka_whose_acks_all_is_never_flushed_is_measured_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured = []

    def one(run: Run, found: f.Figures, case: str, rate: int, acks: int, **configs: object) -> None:
        measured.append(case)
        found[case] = {f.P50: float(len(measured))}
        run.curves[case] = [(0.5, float(len(measured)))]

    monkeypatch.setattr(latency, "one", one)
    [scenario] = (scenario for scenario in SCENARIOS if scenario.name == "end-to-end")
    run = Run(A, scenario, tmp_path, Load(Path("none")), Size())
    found = scenario.measure(run)
    assert latency.UNFLUSHED not in measured
    assert found[latency.UNFLUSHED] == found[latency.BY_DEFAULT] == {f.P50: 2.0}
    assert run.curves[latency.UNFLUSHED] == run.curves[latency.BY_DEFAULT]


def test_the_articles_scenarios_have_its_numbers() -> None:
    found = list(reliability_cluster.cases())
    assert len({name for name, *_ in found}) == len(found) == 33
    assert {(row[1], row[2]) for row in found if row[0].startswith("2:")} == {(1, 2), (1, 3), (1, 4)}
    assert all(min_insync <= replicas for _, _, replicas, min_insync, _ in found)
    placed = reliability_cluster.spread(12, 4)
    assert all(sorted(replicas) == [1, 2, 3, 4] for replicas in placed)
    assert sorted(replicas[0] for replicas in placed) == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]


def test_numbered_cases_have_a_picture_each(tmp_path: Path) -> None:
    """They are no sweep over the number, and no figure of one is looked for in the other."""
    result = Result("numbered", "", "")
    result.add("Ottla", 1, {"1: one": {f.RECORDS: 1.0}, "1: two": {f.RECORDS: 100.0}, "2: other": {f.P50: 3.0}})
    assert plots._groups(result) == {
        f"1: {f.RECORDS}": {"one": {"Ottla": [1.0]}, "two": {"Ottla": [100.0]}},
        f"2: {f.P50}": {"other": {"Ottla": [3.0]}},
    }
    plots.draw(result, tmp_path)
    assert (tmp_path / "numbered.png").stat().st_size > 0
    swept = Result("swept", "", "", rows={f"{number} B": {f.RECORDS: {"Ottla": [1.0]}} for number in (1, 2, 3)})
    assert plots._groups(swept) == {}


def test_made_up_brokers_agree_with_a_controller() -> None:
    """In the words of the versions that a controller of protocol 2.7 speaks."""
    asked: list[tuple[Api[Any, Any], int, object]] = [
        (UPDATE_METADATA, 6, UpdateMetadataRequest(controller_id=1, controller_epoch=1, live_brokers=[])),
        (LEADER_AND_ISR, 4, LeaderAndIsrRequest(controller_id=1, controller_epoch=1, live_leaders=[])),
        (STOP_REPLICA, 3, StopReplicaRequest(controller_id=1, controller_epoch=1)),
    ]
    with controller.made_up() as server, socket.create_connection(server.server_address[:2]) as connection:  # type: ignore[arg-type]
        stream = connection.makefile("rb")
        for number, (api, version, request) in enumerate(asked):
            connection.sendall(request_frame(api.key, version, number, "test", api.encode_request(version, request)))
            answer = stream.read(int.from_bytes(stream.read(4)))
            correlation, start = parse_response_header(api.key, version, answer)
            assert correlation == number
            assert api.decode_response(version, answer, start).error_code == 0
        stream.close()
    assert server.bytes > 0
