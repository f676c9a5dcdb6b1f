"""No test measures time: none sleeps, and none asserts anything of a clock.

A machine may be as slow as it likes. Tests wait for what must come (`tests.support.waiting`), count, or look at the
order of events. Time itself is measured by benches and by tests that are marked `soak`, which have a machine for
themselves. A clock of the test's own (`MockClock`) does not depend on the machine.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "time"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS}
#: A file without any of them has nothing to do with time.
WORDS = re.compile("sleep|current_time|" + "|".join(rf"\b{name}\(" for name in CLOCKS))
VIRTUAL = {"MockClock", "autojump_clock", "mock_clock"}

LEAST = "at least so long: a slow machine takes longer"
BRACKETED = "between what the test itself read from the clock before and after"

#: Functions that may, as file::function, and why.
EXCEPTIONS = {
    "broker/admin/test_cluster_settings.py::test_a_controller_waits_so_long_for_a_brokers_answer": LEAST,
    "broker/loop/test_limits.py::test_append_time_in_the_answer_the_records_and_by_time": BRACKETED,
    "broker/loop/test_limits.py::test_librdkafka_sees_append_time": BRACKETED,
    "broker/produce/test_produce_fetch.py::test_a_fetch_that_finds_too_little_answers_at_its_deadline": LEAST,
    "broker/quotas/test_quotas.py::test_a_producer_is_answered_at_once_and_then_not_heard": LEAST,
    "broker/quotas/test_quotas_of_plain_requests.py::assert_muted": LEAST,
    "classic/test_consumer.py::test_a_burst_of_joins_is_one_rebalance": "a slower burst may have more rebalances",
    "client/test_gone.py::test_a_topic_that_is_gone_is_an_error": LEAST,
    "cluster/leaders/test_clean_stop.py::stopped_once": "the order of two events that were seen",
    "cluster/followers/test_settings.py::test_broker_early_removal_enable": LEAST,
    "cluster/followers/test_settings.py::test_replica_lag_time_max_ms": LEAST,
    "cluster/test_three_brokers.py::test_a_client_does_not_reach_what_it_is_cut_from": LEAST,
    "cluster/tree/test_zookeepers.py::test_a_slow_way": LEAST,
    "compat/takeover.py::_until_ends": "it is the patience",
    "compat/test_mixed_groups.py::write": "it writes less than it could while others are looked at",
    "compat/test_old_formats.py::test_old_consumers_see_no_markers_and_wait_behind_the_last": LEAST,
    "controller/test_early_removal.py::test_who_is_not_in_sync_leads_only_when_the_session_would_have_ended": LEAST,
    "coordination/test_proxy.py::test_the_end_is_late_too": LEAST,
    "coordination/test_proxy.py::test_what_is_said_arrives_late_whole_and_in_order": LEAST,
    "embedded/test_faulty_answers.py::test_an_answer_is_late": LEAST,
    "faults/broker/test_kills.py::play": "how long a broker lives between two kills",
    "faults/broker/victim.py::pause": "how long a broker stands still",
    "local_cluster/test_processes.py::test_a_wait_has_an_end": LEAST,
    "log/test_rules.py::test_timestamps": BRACKETED,
    "net/test_idle.py::test_a_sleeper_wakes_although_nobody_asks": "its subject: a timer of the loop fires",
    "net/test_muted.py::test_a_muted_connection_is_not_heard": LEAST,
    "net/test_muted.py::test_the_longer_of_two_mutes_holds": LEAST,
    "net/test_muted.py::test_what_asks_for_no_answer_is_throttled_too": LEAST,
    "net/test_presence.py::test_a_process_that_ended_is_gone": LEAST,
    "net/test_presence.py::test_what_ends_at_once_is_asked_less_and_less_often": LEAST,
    "net/test_server.py::test_stopping_does_not_wait_for_ever": LEAST,
    "replication/test_fetch_settings.py::test_a_leader_that_does_not_answer_is_given_up_after_the_timeout": LEAST,
    "replication/test_fetch_settings.py::test_a_partition_that_failed_is_asked_for_after_the_backoff": LEAST,
    "spark/restarted.py::start": "the process is killed while it stands still",
    "support/waiting.py::comes_true": "it is the patience",
    "support/waiting.py::eventually": "it is the patience",
}


class Reader(ast.NodeVisitor):
    """Reads what the functions of one module do with time: `found` are pairs of a function's name and a line."""

    def __init__(self, source: str) -> None:
        self.found: list[tuple[str, int]] = []
        self._tree = ast.parse(source)
        names = {getattr(node, "id", getattr(node, "arg", "")) for node in ast.walk(self._tree)}
        imports = [node for node in ast.walk(self._tree) if isinstance(node, ast.ImportFrom)]
        names |= {alias.name for node in imports for alias in node.names}
        #: Names of clocks and of sleeps that were imported as such.
        self._imported = {
            alias.asname or alias.name: alias.name
            for node in imports
            if node.module in ("time", "trio")
            for alias in node.names
        }
        #: Trio's time is the test's own in the whole module.
        self._is_virtual = bool(names & VIRTUAL)
        self._functions: list[str] = []
        #: Of the function that is read: names of moments and durations, and of the ends of waits.
        self._times: set[str] = set()
        self._deadlines: set[str] = set()

    def read(self) -> list[tuple[str, int]]:
        if not any(is_soak(node) for node in self._tree.body if assigns(node, "pytestmark")):
            self.visit(self._tree)
        return self.found

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if any(is_soak(each) for each in node.decorator_list):
            return
        outer = self._times, self._deadlines
        self._times, self._deadlines = outer[0] | self._of_time(node), outer[1] | deadlines(node)
        self._functions.append(node.name)
        self.generic_visit(node)
        self._functions.pop()
        self._times, self._deadlines = outer

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Call(self, node: ast.Call) -> None:
        if self._called(node) in ("time.sleep", "trio.sleep"):
            self._find(node)
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        for compared in ast.walk(node.test):
            if isinstance(compared, ast.Compare) and self._compares_times(compared):
                self._find(node)
                break
        self.generic_visit(node)

    def _find(self, node: ast.stmt | ast.expr) -> None:
        self.found.append((self._functions[0] if self._functions else "", node.lineno))

    def _called(self, node: ast.AST) -> str:
        """`time.sleep`, `trio.current_time` and the like, or nothing where it is a clock of the test's own."""
        if not isinstance(node, ast.Call):
            return ""
        function = node.func
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            room, name = function.value.id, function.attr
        elif isinstance(function, ast.Name) and function.id in self._imported:
            name = self._imported[function.id]
            room = "time" if name in CLOCKS else "trio" if name == "current_time" else "time"
        else:
            return ""
        return "" if room == "trio" and self._is_virtual else f"{room}.{name}"

    def _reads_clock(self, node: ast.AST) -> bool:
        called = self._called(node)
        return called == "trio.current_time" or (called.startswith("time.") and called.removeprefix("time.") in CLOCKS)

    def _has_time(self, node: ast.AST, names: set[str]) -> bool:
        return any(
            self._reads_clock(part) or (isinstance(part, ast.Name) and part.id in names) for part in ast.walk(node)
        )

    def _of_time(self, function: ast.AST) -> set[str]:
        """Names of what was read from a clock, and of what was made of that by subtraction and the like."""
        times: set[str] = set()
        while True:
            more = {
                name
                for node in ast.walk(function)
                if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and is_moment(node.value)
                for name in targets(node)
                if node.value is not None and self._has_time(node.value, times)
            }
            more |= {
                node.func.value.id
                for node in ast.walk(function)
                if isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "append"
                and isinstance(node.func.value, ast.Name)
                and any(self._reads_clock(part) for argument in node.args for part in ast.walk(argument))
            }
            if more <= times:
                return times
            times |= more

    def _compares_times(self, node: ast.Compare) -> bool:
        if not any(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE | ast.Eq) for op in node.ops):
            return False
        if any(isinstance(each, ast.Name) and each.id in self._deadlines for each in node.comparators):
            return False
        sides = [node.left, *node.comparators]
        return any(is_moment(each) and self._has_time(each, self._times) for each in sides)


def is_moment(node: ast.AST | None) -> bool:
    """True if a value may be a moment or a duration: a clock that was read, a name, a difference, one of several."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return name in {*CLOCKS, "current_time", "min", "max", "abs", "round", "int", "float"}
    if isinstance(node, ast.Subscript):
        return is_moment(node.value)
    if isinstance(node, ast.Tuple | ast.List):
        return any(is_moment(each) for each in node.elts)
    return isinstance(node, ast.Name | ast.BinOp)


def targets(node: ast.Assign | ast.AnnAssign | ast.NamedExpr) -> Iterator[str]:
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


def deadlines(function: ast.AST) -> set[str]:
    """Names of the ends of waits that are as long as any test waits."""
    return {
        name
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and any(getattr(part, "id", "") == "PATIENCE_S" for part in ast.walk(node.value))
        for name in targets(node)
    }


def assigns(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Assign) and name in targets(node)


def is_soak(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr == "soak" for part in ast.walk(node))


def measured() -> Iterator[tuple[str, str]]:
    """file::function and file:line of each place that has to do with time."""
    for path in sorted(TESTS.rglob("*.py")):
        file, source = path.relative_to(TESTS).as_posix(), path.read_text()
        if not file.startswith("benches/") and WORDS.search(source):
            for function, line in Reader(source).read():
                yield f"{file}::{function}", f"tests/{file}:{line}"


def test_no_example_measures_time() -> None:
    """Hypothesis would: each of them, and how long it takes to make one up."""
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check


def test_no_test_measures_time() -> None:
    found = list(measured())
    assert [place for function, place in found if function not in EXCEPTIONS] == []
    assert sorted(EXCEPTIONS.keys() - Counter(function for function, _ in found).keys()) == [], "they need none"


@pytest.mark.parametrize(
    "lines",
    [
        "time.sleep(1)",
        "await trio.sleep(0.1)",
        "sleep(1)",
        "began = time.monotonic(); f(); assert time.monotonic() - began < 5",
        "began = perf_counter(); f(); assert 0 < perf_counter() - began < 5",
        "began = time.time_ns(); f(); taken_s = (time.time_ns() - began) / 1e9; assert taken_s <= 5",
        "began = trio.current_time(); f(); assert trio.current_time() - began < 5",
        "times = []; times.append(time.thread_time()); assert times[0] < 1",
        "began, count = time.monotonic(), 0; f(); taken_s = time.monotonic() - began; assert count or taken_s < 9",
        "took = []; took.append(time.monotonic() - began); assert max(took) < 2",
        "deadline = time.monotonic() + 5; assert time.monotonic() < deadline",
    ],
)
def test_what_would_be_found(lines: str) -> None:
    body = "\n    ".join(lines.split("; "))
    source = f"from time import perf_counter, sleep\nasync def test():\n    {body}\n"
    assert [function for function, _ in Reader(source).read()] == ["test"]


@pytest.mark.parametrize(
    "source",
    [
        "async def test(autojump_clock):\n    await trio.sleep(5)\n    assert trio.current_time() == 5",
        "@pytest.mark.soak\ndef test():\n    time.sleep(1)",
        "pytestmark = [pytest.mark.soak]\ndef test():\n    time.sleep(1)",
        "def test():\n    deadline = time.monotonic() + PATIENCE_S\n    assert time.monotonic() < deadline",
        "def test():\n    began = time.monotonic()\n    print(time.monotonic() - began)\n    assert f() < 5",
        "def test():\n    now_ms = time.time_ns() // 1_000_000\n    assert log.append(now_ms) == 0",
    ],
)
def test_what_would_not_be_found(source: str) -> None:
    assert Reader(source).read() == []
