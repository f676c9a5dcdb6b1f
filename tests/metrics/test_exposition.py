"""Metrics in pieces are the metrics."""

import subprocess
import sys
from itertools import chain

import pytest

from ottla.metrics.families import LOGS, TRAFFIC, Family
from tests.peers.skips import require
from tests.support.waiting import PATIENCE_S

try:
    from prometheus_client.parser import text_string_to_metric_families

    from ottla.metrics.exposition import PIECE, Rows, labelled, pieces
except ImportError:
    text_string_to_metric_families = None


@pytest.fixture(autouse=True, scope="module")
def metrics_extra() -> None:
    if text_string_to_metric_families is None:
        require("clients", "the packages of the extra `metrics` are not installed")


def read(family: Family, rows: "Rows") -> tuple[str, dict[tuple[str, str], float]]:
    (parsed,) = text_string_to_metric_families(b"".join(pieces(family, rows)).decode())
    return parsed.type, {
        (each.labels.get("topic"), each.labels.get("partition")): each.value for each in parsed.samples
    }


@pytest.mark.parametrize("is_labelled", [False, True])
def test_many_samples_are_one_family(is_labelled: bool) -> None:
    count = 3 * PIECE + 7 if text_string_to_metric_families else 0
    plain = (({"topic": "t", "partition": str(number)}, number) for number in range(count))
    rows = ((labelled(labels), value) for labels, value in plain) if is_labelled else plain
    written = list(pieces(LOGS["size_bytes"], rows))
    assert len(written) == 4
    assert b"".join(written).count(b"# TYPE") == 1
    (parsed,) = text_string_to_metric_families(b"".join(written).decode())
    assert {int(each.labels["partition"]): each.value for each in parsed.samples} == {
        number: number for number in range(count)
    }


def test_names_of_any_kind_and_both_forms_of_labels() -> None:
    strange = 'a"b\\c\nd} {e="1"'
    rows = chain([({"topic": strange}, 1)], [(labelled({"topic": "ü" + strange}), 1 << 62)], [({}, 0.5)])
    kind, values = read(TRAFFIC["records_in"], rows)
    assert kind == "counter"
    assert values == {(strange, None): 1, ("ü" + strange, None): float(1 << 62), (None, None): 0.5}


def test_nothing_is_nothing() -> None:
    assert list(pieces(LOGS["start_offset"], [])) == []


def test_the_first_scrape_imports_nothing() -> None:
    """A module that is imported late is a moment in which the broker answers nobody."""
    program = """
import sys, urllib.request
import trio
from ottla.metrics import http
from ottla.metrics.families import READY

class Watched:
    def metrics(self):
        yield READY, [({}, 1)]

async def main():
    async with trio.open_nursery() as nursery:
        url = await nursery.start(http.serve, Watched(), "127.0.0.1", 0)
        before = set(sys.modules)
        page = await trio.to_thread.run_sync(lambda: urllib.request.urlopen(f"{url}/metrics").read())
        assert b"ottla_ready 1.0" in page
        late = {name for name in set(sys.modules) - before if name.split(".")[0] not in {"encodings", "stringprep"}}
        assert not late, late
        nursery.cancel_scope.cancel()

trio.run(main)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE_S)
