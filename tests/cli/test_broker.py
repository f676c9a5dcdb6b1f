"""`ottla broker` on three brokers: of Ottla's always, of Kafka's in the long run."""

import json
from pathlib import Path

import pytest

from tests.cli.placement import assigned, leaders_of, replicas_of
from tests.cluster.stand import Cluster

from .conftest import Ottla

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]


def brokers(ottla: Ottla, three: Cluster) -> dict[int, dict[str, object]]:
    return {row["id"]: row for row in ottla("broker", "list", "--json", "-b", three.bootstrap).json}  # type: ignore[index, misc, call-overload]


@pytest.fixture(autouse=True)
def no_topics(ottla: Ottla, three: Cluster) -> None:
    """Each test has the cluster for itself."""
    if names := ottla("topic", "list", "-b", three.bootstrap).out.split():
        ottla("topic", "delete", "-y", *names, "-b", three.bootstrap)


def test_list_and_describe(ottla: Ottla, three: Cluster) -> None:
    assigned(ottla, three, "seen", [[1, 2], [1, 3], [2, 1]])
    at = ("-b", three.bootstrap)
    ottla("produce", "seen", *at, stdin=b"x\n" * 1000)
    found = brokers(ottla, three)
    assert {broker: (row["leaders"], row["replicas"], row["preferred"]) for broker, row in found.items()} == {
        1: (2, 3, 2),
        2: (1, 2, 1),
        3: (0, 1, 0),
    }
    assert [row["address"] for row in found.values()] == three.bootstrap.split(",")
    assert sum(row["controller"] is True for row in found.values()) == 1
    assert found[1]["size_bytes"] > 1000  # type: ignore[operator]
    header, first, *_ = ottla("broker", "list", *at).out.splitlines()
    assert header.split() == ["broker", "address", "rack", "controller", "leaders", "replicas", "size"]
    assert first.split()[:2] == ["1", three.broker(1).address]

    (described,) = ottla("broker", "describe", "2", "--json", *at).json
    assert described["settings"]["min.insync.replicas"] == "2"  # type: ignore[index]
    assert "num.network.threads" not in described["settings"] or three.kinds[0] != "ottla"  # type: ignore[index]
    assert [row["path"] for row in described["log_directories"]] == [str(three.broker(2).data)]  # type: ignore[index]
    assert described["log_directories"][0]["replicas"] == 2  # type: ignore[index]
    text = ottla("broker", "describe", *at).out
    assert f"broker 3 at {three.broker(3).address}" in text
    assert "  leads 2 of 3 replicas, and is preferred for 2\n" in text
    assert "broker 7 does not exist; known are 1, 2, 3" in ottla("broker", "describe", "7", *at, code=1).err


def test_others_lead_for_a_drained_broker_and_it_comes_back_by_the_undo_file(
    ottla: Ottla, three: Cluster, tmp_path: Path
) -> None:
    before = [[1, 2, 3], [1, 3, 2], [2, 1, 3], [3, 1, 2]]
    assigned(ottla, three, "led", before)
    at, undo = ("-b", three.bootstrap), tmp_path / "undo.json"
    plan = ottla("broker", "drain", "1", *at, code=2)
    assert "  1,2,3  2,3,1  no copy\n" in plan.out
    assert plan.out.endswith("2 partitions, nothing to copy\n")
    assert "would be changed, and nobody can be asked here: --yes does it without asking" in plan.err
    assert replicas_of(ottla, three, "led") == before
    ottla("broker", "drain", "1", "-n", "-y", *at)
    assert replicas_of(ottla, three, "led") == before, "a dry run wins"

    done = ottla("broker", "drain", "1", "-y", "--undo", str(undo), *at)
    assert done.out.endswith("changed 2 partitions\n")
    assert 1 not in leaders_of(ottla, three, "led")
    assert replicas_of(ottla, three, "led") == [[2, 3, 1], [3, 2, 1], [2, 1, 3], [3, 1, 2]]
    assert ottla("broker", "drain", "1", "-y", *at).out == "nothing to be done\n"

    assert {row["partition"] for row in json.loads(undo.read_text())["partitions"]} == {0, 1}
    ottla("topic", "reassign", "--plan", str(undo), "-y", *at)
    assert replicas_of(ottla, three, "led") == before
    assert leaders_of(ottla, three, "led") == [1, 1, 2, 3]


def test_a_broker_is_emptied(ottla: Ottla, three: Cluster) -> None:
    assigned(ottla, three, "moved", [[1, 2], [2, 3], [3, 1], [1, 3], [1]])
    at = ("-b", three.bootstrap)
    ottla("produce", "moved", "--partition", "0", *at, stdin=b"a\nb\n")
    plan = ottla("broker", "drain", "1", "--replicas", "--json", "-n", *at).json[0]
    assert {row["partition"]: row["to"] for row in plan["moves"]} == {  # type: ignore[index]
        0: [3, 2],
        2: [3, 2],
        3: [2, 3],
        4: [2],
    }
    assert plan["stuck"] == []  # type: ignore[index]
    ottla("broker", "drain", "1", "--replicas", "-y", *at)
    found = brokers(ottla, three)
    assert 1 not in found or (found[1]["replicas"], found[1]["leaders"]) == (0, 0)
    assert leaders_of(ottla, three, "moved") == [ids[0] for ids in replicas_of(ottla, three, "moved")]  # type: ignore[index]
    assert ottla("consume", "moved", "--from-beginning", "--until-end", *at).out.split() == ["a", "b"]


def test_what_cannot_be_drained_is_told_and_the_rest_is_done(ottla: Ottla, three: Cluster) -> None:
    assigned(ottla, three, "mixed", [[1, 2], [1]])
    at = ("-b", three.bootstrap)
    done = ottla("broker", "drain", "1", "-y", *at, code=1)
    assert done.err.endswith("Error: cannot drain broker 1: 1 partition stays:\n  mixed-1: it has no other replica\n")
    assert leaders_of(ottla, three, "mixed") == [2, 1]
    assert "broker 9 does not exist" in ottla("broker", "drain", "9", "-y", *at, code=1).err
    assert "no other broker would be there" in ottla("broker", "drain", "1", "2", "3", "-y", *at, code=1).err
    assert "Missing argument 'ID...'" in ottla("broker", "drain", *at, code=2).err


def test_balance(ottla: Ottla, three: Cluster) -> None:
    at = ("-b", three.bootstrap)
    assigned(ottla, three, "uneven", [[1, 2]] * 6)
    assert ottla("broker", "balance", "-y", *at).out == "nothing to be done\n", "the preferred lead"

    ottla("broker", "balance", "--leaders", "-y", *at)
    assert sorted(leaders_of(ottla, three, "uneven")) == [1, 1, 1, 2, 2, 2]  # type: ignore[type-var]
    assert brokers(ottla, three)[3]["replicas"] == 0

    plan = ottla("broker", "balance", "--replicas", "--dry-run", *at)
    assert "6 partitions" in plan.out or "4 partitions" in plan.out or "5 partitions" in plan.out
    assert ", 4 replicas to copy (" in plan.out
    ottla("broker", "balance", "--replicas", "-y", *at)
    found = brokers(ottla, three)
    assert [(row["replicas"], row["leaders"], row["preferred"]) for row in found.values()] == [(4, 2, 2)] * 3
    assert "contradict each other" in ottla("broker", "balance", "--replicas", "--leaders", *at, code=2).err


def test_leadership_comes_back_after_a_restart(ottla: Ottla, three: Cluster) -> None:
    at = ("-b", three.bootstrap)
    assigned(ottla, three, "back", [[1, 2, 3], [2, 1, 3]])
    three.broker(1).restart()
    three.all_in_sync("back")
    assert leaders_of(ottla, three, "back") == [2, 2]
    (state,) = ottla("cluster", "status", "--json", *at).json
    assert state["not_led_by_preferred"] == 1  # type: ignore[index]
    done = ottla("broker", "balance", "-y", *at)
    assert "  1,2,3  1,2,3  no copy\n" in done.out
    assert leaders_of(ottla, three, "back") == [1, 2]
