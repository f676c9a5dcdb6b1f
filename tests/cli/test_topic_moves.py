"""`ottla topic reassign` and `ottla topic elect` on three brokers: of Ottla's always, of Kafka's in the long run."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.client import cluster_admin, leading
from tests.cluster.stand import Cluster
from tests.peers.processes import is_readable
from tests.support.waiting import PATIENCE_S, eventually

from .conftest import Ottla
from .placement import assigned, leaders_of, replicas_of

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]
#: Bytes of a record, and how many of them one partition gets: several fetches of a follower, so that a throttle holds.
RECORD, RECORDS = 1000, 6000
#: Bytes a second by which that takes half an hour.
SLOWLY = 3000
THROTTLES = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


@pytest.fixture(autouse=True)
def no_topics(ottla: Ottla, three: Cluster) -> None:
    """Each test has the cluster for itself."""
    if names := ottla("topic", "list", "-b", three.bootstrap).out.split():
        ottla("topic", "delete", "-y", *names, "-b", three.bootstrap)


def filled(ottla: Ottla, three: Cluster, topic: str) -> None:
    """Megabytes in a topic with one partition, on brokers 1 and 2."""
    assigned(ottla, three, topic, [[1, 2]])
    size = ("--num-records", str(RECORDS), "--record-size", str(RECORD))
    ottla("bench", "produce", "--topic", topic, *size, "-b", three.bootstrap)


def status(ottla: Ottla, three: Cluster) -> dict[str, object]:
    (found,) = ottla("cluster", "status", "--json", "-b", three.bootstrap).json
    assert isinstance(found, dict)
    return found


def moves(ottla: Ottla, three: Cluster) -> list[dict[str, object]]:
    return status(ottla, three)["moves"]  # type: ignore[return-value]


def throttles(ottla: Ottla, three: Cluster, topic: str) -> dict[str, str]:
    """The settings of throttles, of a topic and of all brokers."""
    at = ("--json", "-b", three.bootstrap)
    (found,) = ottla("topic", "describe", topic, *at).json
    own = {name: value for name, value in found["settings"].items() if name in THROTTLES}  # type: ignore[index]
    for row in ottla("broker", "describe", *at).json:
        own |= {f"{row['id']} {name}": value for name, value in row["settings"].items() if name in RATES}  # type: ignore[index]
    return own


def unthrottled(ottla: Ottla, three: Cluster, topic: str) -> None:
    """Nothing is held back; brokers of Kafka answer by what they have heard of their settings."""
    eventually(
        "no throttle", lambda: throttles(ottla, three, topic) == {}, facts=lambda: throttles(ottla, three, topic)
    )


def rates_are(ottla: Ottla, three: Cluster, topic: str, rate: int) -> dict[str, str]:
    """Waits until all brokers have this rate; all settings of throttles then."""
    wanted = {f"{broker} {name}": str(rate) for broker in (1, 2, 3) for name in RATES}

    def held() -> dict[str, str]:
        return throttles(ottla, three, topic)

    eventually("the rates", lambda: held() | wanted == held(), facts=held)
    return held()


def test_replicas_that_are_named(ottla: Ottla, three: Cluster, tmp_path: Path) -> None:
    assigned(ottla, three, "named", [[1, 2], [2, 1]])
    at = ("-b", three.bootstrap)
    ottla("produce", "named", "--partition", "0", *at, stdin=b"a\nb\nc\n")
    plan = ottla("topic", "reassign", "named", "--assign", "0=3,1", *at, code=2)
    assert plan.out.splitlines()[1].split()[:4] == ["named", "0", "1,2", "3,1"]
    assert "1 partition, 1 replica to copy (" in plan.out
    assert "1 replica would be copied, and nobody can be asked here: --yes does it without asking" in plan.err
    assert ottla("topic", "reassign", "named", "--assign", "0=3,1", "--dry-run", *at).out == plan.out
    assert replicas_of(ottla, three, "named") == [[1, 2], [2, 1]]
    done = ottla("topic", "reassign", "named", "--assign", "0=3,1", "-y", *at)
    assert done.out.endswith("changed 1 partition\n")
    assert (replicas_of(ottla, three, "named"), leaders_of(ottla, three, "named")) == ([[3, 1], [2, 1]], [3, 2])
    assert ottla("topic", "reassign", "named", "--assign", "0=3,1", "-y", *at).out == "nothing to be done\n"
    assert ottla("consume", "named", "--from-beginning", "--until-end", *at).out.split() == ["a", "b", "c"]

    file = tmp_path / "plan.json"
    rows = [{"topic": "named", "partition": 1, "replicas": [3, 2], "log_dirs": ["any", "any"]}]
    file.write_text(json.dumps({"version": 1, "partitions": rows}))
    ottla("topic", "reassign", "--plan", str(file), "-y", *at)
    assert (replicas_of(ottla, three, "named"), leaders_of(ottla, three, "named")) == ([[3, 1], [3, 2]], [3, 3])


def test_replicas_that_are_spread(ottla: Ottla, three: Cluster) -> None:
    assigned(ottla, three, "spread", [[1], [1], [1], [1], [1], [1]])
    at = ("-b", three.bootstrap)
    ottla("topic", "reassign", "spread", "--replicas", "3", "-y", *at)
    assert [sorted(each) for each in replicas_of(ottla, three, "spread")] == [[1, 2, 3]] * 6  # type: ignore[call-overload]
    assert sorted(leaders_of(ottla, three, "spread")) == [1, 1, 2, 2, 3, 3]  # type: ignore[type-var]
    ottla("topic", "reassign", "spread", "--to", "2,3", "-r", "2", "-y", *at)
    assert [sorted(each) for each in replicas_of(ottla, three, "spread")] == [[2, 3]] * 6  # type: ignore[call-overload]
    assert sorted(leaders_of(ottla, three, "spread")) == [2, 2, 2, 3, 3, 3]  # type: ignore[type-var]


def test_a_throttled_move_is_seen_and_cancelled(ottla: Ottla, three: Cluster) -> None:
    filled(ottla, three, "slow")
    at = ("-b", three.bootstrap)
    unthrottled(ottla, three, "slow")
    slowly = ("--assign", "0=1,3", "--throttle", str(SLOWLY), "--no-wait", "-y")
    begun = ottla("topic", "reassign", "slow", *slowly, *at).out
    assert "1 replica to copy (6." in begun
    assert "`ottla topic reassign --resume` waits for them and takes the throttle back" in begun
    held = rates_are(ottla, three, "slow", SLOWLY)
    assert held[THROTTLES[0]] == "0:1,0:2"
    assert held[THROTTLES[1]] == "0:3"
    assert len(held) == 2 + 2 * 3
    found = status(ottla, three)
    assert (found["under_replicated"], found["behind"]) == (0, []), "what was never there is not missed"
    gets = found["brokers"][2]  # type: ignore[index]
    assert (gets["out_of_sync"], gets["lag"]) == (0, found["moves"][0]["lag"]["3"])  # type: ignore[index]
    assert 0 < gets["lag"] <= RECORDS
    (move,) = moves(ottla, three)
    assert (move["topic"], move["partition"], move["adding"], move["removing"]) == ("slow", 0, [3], [2])
    assert move["size_bytes"] > RECORD * RECORDS > move["copied_bytes"]  # type: ignore[operator]
    text = ottla("cluster", "status", *at).out.splitlines()
    assert text[-2].split() == ["moving", "partition", "from", "to", "copied"]
    assert " of 6." in text[-1]

    # The plan of another command begins with what will be.
    assert ottla("topic", "reassign", "slow", "--assign", "0=1,3", "-y", *at).out == "nothing to be done\n"
    assert ottla("topic", "reassign", "slow", "-r", "3", "-n", *at).out.splitlines()[1].split()[2] == "1,3"
    ottla("topic", "reassign", "--resume", "--throttle", str(2 * SLOWLY), "--no-wait", *at)
    rates_are(ottla, three, "slow", 2 * SLOWLY)

    asked = ottla("topic", "reassign", "--cancel", *at, code=2)
    assert asked.out.splitlines()[1].split() == ["slow", "0", "1,3", "1,2"]
    assert "1 move would be cancelled, and nobody can be asked here" in asked.err
    assert len(moves(ottla, three)) == 1

    # The rates are those of other moves, too, as long as there are any.
    filled(ottla, three, "other")
    ottla("topic", "reassign", "other", *slowly, *at)
    assert ottla("topic", "reassign", "slow", "--cancel", "-y", *at).out.endswith("cancelled 1 move\n")
    assert {row["topic"] for row in moves(ottla, three)} == {"other"}
    eventually("it is as before", lambda: replicas_of(ottla, three, "slow") == [[1, 2]])
    held = rates_are(ottla, three, "slow", SLOWLY)
    assert len(held) == 2 * 3
    assert THROTTLES[0] in throttles(ottla, three, "other")
    assert ottla("topic", "reassign", "--cancel", "-y", *at).out.endswith("cancelled 1 move\n")
    assert moves(ottla, three) == []
    unthrottled(ottla, three, "other")
    assert ottla("topic", "reassign", "--cancel", "-y", *at).out == "nothing moves\n"


def test_a_move_is_waited_for_and_its_throttle_taken_back(ottla: Ottla, three: Cluster) -> None:
    filled(ottla, three, "waited")
    at = ("-b", three.bootstrap)
    quickly = ("--throttle", str(50_000_000))
    ottla("topic", "reassign", "waited", "--assign", "0=3,2", *quickly, "-y", *at)
    assert (replicas_of(ottla, three, "waited"), leaders_of(ottla, three, "waited")) == ([[3, 2]], [3])
    unthrottled(ottla, three, "waited")

    ottla("topic", "reassign", "waited", "--assign", "0=3,1", *quickly, "--no-wait", "-y", *at)
    resumed = ottla("topic", "reassign", "--resume", *at).out
    assert resumed in (
        f"{what}\ntook throttles back: topic waited; broker 1, 2, 3\n"
        for what in ("1 partition moved", "nothing moves")
    )
    assert moves(ottla, three) == []
    unthrottled(ottla, three, "waited")
    assert ottla("topic", "reassign", "--resume", *at).out == "nothing moves\n"


def test_ctrl_c_leaves_the_move_and_says_what_to_do(ottla: Ottla, three: Cluster) -> None:
    """Also shows the bar, since stderr is a terminal here."""
    filled(ottla, three, "left")
    at = ("-b", three.bootstrap)
    terminal, other = os.openpty()
    command = [sys.executable, "-m", "ottla", "topic", "reassign", "left", "--assign", "0=1,3", "-y"]
    process = subprocess.Popen(
        [*command, "--throttle", str(SLOWLY), *at], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=other
    )
    os.close(other)
    said = b""

    def hears(text: bytes) -> bool:
        nonlocal said
        if is_readable(terminal):
            try:
                said += os.read(terminal, 65536)
            except OSError:  # the other end is closed
                return True
        return text in said

    try:
        eventually("the bar", lambda: hears(b"of 1 partition"), facts=lambda: said)
        process.send_signal(signal.SIGINT)
        eventually("what to do is said", lambda: hears(b"--cancel"), facts=lambda: said)
        assert process.wait(PATIENCE_S) == 130
    finally:
        process.kill()
        process.communicate()
        os.close(terminal)
    assert b"the moves go on without this command" in said
    assert len(moves(ottla, three)) == 1
    ottla("topic", "reassign", "left", "--cancel", "-y", *at)
    unthrottled(ottla, three, "left")


def test_a_broker_that_stands_still_hides_no_other(
    ottla: Ottla, three: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until its session ends it counts as there."""
    assigned(ottla, three, "seen", [[1, 2], [3, 1], [1, 3]])
    for module in (cluster_admin, leading):
        monkeypatch.setattr(module, "SILENT_S", 0.5)
    at = ("-b", three.broker(1).address)
    with three.broker(3).paused():
        (found,) = ottla("cluster", "status", "--json", *at).json
        rows = {row["id"]: row["lag"] for row in found["brokers"]}  # type: ignore[index]
        assert (rows[1], rows[2], rows[3]) == (None, 0, None), "1 follows what nobody can compare with"
        sizes = {row["id"]: row["size_bytes"] for row in ottla("broker", "list", "--json", *at).json}  # type: ignore[index]
        assert (sizes[1] is None, sizes[2] is None, sizes[3]) == (False, False, None)
        (topic,) = ottla("topic", "describe", "seen", "--json", *at).json
        ends = [(row["leader"], row["not_served"] is None, row["end_offset"]) for row in topic["partitions"]]  # type: ignore[index]
        # The session may be over by now.
        assert ends in ([(1, True, 0), (3, False, None), (1, True, 0)], [(1, True, 0)] * 3)
    three.all_in_sync("seen")


def test_preferred_leaders_are_elected(ottla: Ottla, three: Cluster) -> None:
    at = ("-b", three.bootstrap)
    assigned(ottla, three, "elected", [[1, 2], [1, 3], [2, 3]])
    assert ottla("topic", "elect", "elected", *at).out == "each is led by its preferred replica\n"
    three.broker(1).stop()
    eventually("others lead", lambda: leaders_of(ottla, three, "elected") == [2, 3, 2])
    failed = ottla("topic", "elect", "elected", "-y", *at, code=1)
    assert failed.out.endswith("elected 0 leaders\n")
    assert "2 partitions keep what they have:\n  elected-0: " in failed.err
    assert "(PREFERRED_LEADER_NOT_AVAILABLE)" in failed.err
    three.broker(1).start()
    three.all_in_sync("elected")
    shown = ottla("topic", "elect", "--all", "-n", *at).out.splitlines()
    assert [line.split() for line in shown[1:]] == [["elected", "0", "2", "1,2"], ["elected", "1", "3", "1,3"]]
    asked = ottla("topic", "elect", "--all", *at, code=2)
    assert asked.out.splitlines() == shown
    assert "2 leaders would be elected, and nobody can be asked here" in asked.err
    assert ottla("topic", "elect", "elected", "-p", "1", "-y", *at).out.endswith("elected 1 leader\n")
    eventually("that one", lambda: leaders_of(ottla, three, "elected") == [2, 1, 2])
    assert ottla("topic", "elect", "--all", "-y", *at).out.endswith("elected 1 leader\n")
    eventually("all of them", lambda: leaders_of(ottla, three, "elected") == [1, 1, 2])


def test_an_unclean_leader_is_elected_when_it_is_asked_for(ottla: Ottla, three: Cluster) -> None:
    assigned(ottla, three, "lost", [[1, 2]])
    at = ("-b", three.broker(3).address)
    ottla("produce", "lost", *at, stdin=b"kept\n")
    three.broker(2).stop()
    eventually("one is alone", lambda: three.observer.state("lost", 0).isr == frozenset({1}))
    ottla("produce", "lost", "-b", three.broker(1).address, stdin=b"not seen by 2\n")
    three.broker(1).kill()
    three.leaves(three.broker(1))
    three.broker(2).start()
    eventually("nobody leads", lambda: leaders_of(ottla, three, "lost") == [-1])
    asked = ottla("topic", "elect", "lost", "--unclean", *at, code=2)
    assert asked.out.splitlines()[1].split() == ["lost", "0", "none", "1,2"]
    assert "1 leader would be elected at a loss, and nobody can be asked here" in asked.err
    assert ottla("topic", "elect", "lost", "--unclean", "-y", *at).out.endswith("elected 1 leader\n")
    eventually("it leads", lambda: leaders_of(ottla, three, "lost") == [2])
    assert ottla("consume", "lost", "--from-beginning", "--until-end", *at).out == "kept\n"
    assert ottla("topic", "elect", "lost", "--unclean", "-y", *at).out == "each has a leader\n"
    three.broker(1).start()
    three.all_in_sync("lost")


def test_mistakes_are_explained_and_change_nothing(ottla: Ottla, three: Cluster, tmp_path: Path) -> None:
    assigned(ottla, three, "still", [[1, 2]])
    at = ("-y", "-b", three.bootstrap)

    def refused(*arguments: str, code: int = 1) -> str:
        return ottla("topic", "reassign", *arguments, *at, code=code).err

    assert "say what to do: --to, --replicas" in refused("still", code=2)
    assert "name the topics" in refused("--to", "1,2", code=2)
    assert "'1,x' is no list of brokers such as 1,2,3" in refused("still", "--to", "1,x", code=2)
    assert "names a broker twice" in refused("still", "--to", "1,1", code=2)
    assert "is not PARTITION=ID,..." in refused("still", "--assign", "1,2", code=2)
    assert "partition 0 is given twice" in refused("still", "--assign", "0=1", "--assign", "0=2", code=2)
    assert "name it" in refused("still", "other", "--assign", "0=1", code=2)
    assert "contradict each other" in refused("still", "--to", "1", "--cancel", code=2)
    assert "--resume and --dry-run contradict each other" in refused("--resume", "--dry-run", code=2)
    assert "still has no partition 1, but 1 from 0 on" in refused("still", "--assign", "1=1")
    assert "broker 9 is not there; known are 1, 2, 3" in refused("still", "--assign", "0=1,9")
    assert "broker 9 is not there" in refused("still", "--to", "9")
    assert "still-0 is to have 4 replicas, but there are only 3 brokers" in refused("still", "--replicas", "4")
    assert "there is no topic 'stil'; the nearest is 'still'" in refused("stil", "--to", "1,2")
    file = tmp_path / "plan.json"
    assert "No such file" in refused("--plan", str(file), code=2)
    for text in ("", "[]", '{"partitions": [{"topic": "still"}]}', '{"partitions": [7]}'):
        file.write_text(text)
        assert "is no plan of kafka-reassign-partitions" in refused("--plan", str(file), code=2)
    assert replicas_of(ottla, three, "still") == [[1, 2]]

    bootstrap = at[1:]
    assert "name topics, or give --all" in ottla("topic", "elect", *bootstrap, code=2).err
    assert "contradict" in ottla("topic", "elect", "--all", "-p", "0", *bootstrap, code=2).err
    assert "has no partition 3" in ottla("topic", "elect", "still", "-p", "3", *bootstrap, code=1).err
    assert "there is no topic 'stil'" in ottla("topic", "elect", "stil", *bootstrap, code=1).err
