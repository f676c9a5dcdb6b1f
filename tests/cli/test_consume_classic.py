"""`ottla consume --classic`: a member as the consumers before Kafka 0.9 are."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.waiting import PATIENCE_S, eventually

from .conftest import Ottla
from .old_groups import Old, running
from .readers import Reader

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory, zookeeper_server: str) -> Iterator[Old]:
    with running(tmp_path_factory.mktemp("consume-classic"), f"{zookeeper_server}/consume-classic") as found:
        yield found


def fill(ottla: Ottla, old: Old, topic: str, numbers: range) -> list[str]:
    """Numbers in order, even ones in partition 0, odd ones in 1; the values."""
    lines = b"".join(b'{"partition": %d, "value": "%d"}\n' % (number % 2, number) for number in numbers)
    ottla("produce", topic, "--json", "-b", old.bootstrap, stdin=lines)
    return [str(number) for number in numbers]


def shared(old: Old, group: str, *topics: str) -> tuple[str, ...]:
    """Arguments of a member that begins with the oldest record."""
    return (*topics, "-g", group, "--from-beginning", "--classic", "--zookeeper", old.zookeeper)


def test_offsets_of_what_was_printed_are_in_zookeeper(ottla: Ottla, old: Old) -> None:
    topic = old.topic(records=0)
    fill(ottla, old, topic, range(10))
    member = ("consume", *shared(old, "counted", topic))
    seen = ottla(*member, "-n", "3", "--json").json
    assert {"partition", "offset", "value"} <= set(seen[0])  # type: ignore[call-overload]
    assert sum(map(int, old.offsets("counted", topic).values())) == 3
    rest = ottla(*member, "--until-end").out.splitlines()
    assert sorted([int(each["value"]) for each in seen] + list(map(int, rest))) == list(range(10))  # type: ignore[index]
    assert old.offsets("counted", topic) == {"0": "5", "1": "5"}
    nothing = ottla(*member, "--until-end")
    assert (nothing.out, nothing.err) == ("", "nothing new for group 'counted'\n")
    assert old.client.get_children(f"/consumers/counted/owners/{topic}") == []
    assert old.client.get_children("/consumers/counted/ids") == []


def test_members_share_and_each_record_is_seen_once(ottla: Ottla, old: Old) -> None:
    topic = old.topic(records=0)
    expected = fill(ottla, old, topic, range(20))
    first = Reader(*shared(old, "shared", topic))
    try:
        eventually("the first has all", lambda: len(first.lines) == 20)
        second = Reader(*shared(old, "shared", topic))
        try:

            def owners() -> int:
                (found,) = ottla("group", "describe", "shared", "--json", "--zookeeper", old.zookeeper).json
                assert isinstance(found, dict)
                return len({row["owner"] for row in found["partitions"] if row["owner"]})

            eventually("each has a partition", lambda: owners() == 2)
            expected += fill(ottla, old, topic, range(20, 40))
            eventually("both have all", lambda: len(first.lines) + len(second.lines) >= 40)
            first.interrupt()
            expected += fill(ottla, old, topic, range(40, 50))
            eventually("the second has the rest", lambda: len(first.lines) + len(second.lines) >= 50)
            second.interrupt()
        finally:
            second.end()
    finally:
        first.end()
    assert second.lines
    assert sorted(first.lines + second.lines, key=int) == expected
    assert old.offsets("shared", topic) == {"0": "25", "1": "25"}


def test_several_topics_are_one_stream(ottla: Ottla, old: Old) -> None:
    one, other = old.topic(partitions=1), old.topic(partitions=1)
    out = ottla("consume", *shared(old, "several", one, other), "-e", "-f", "%t %s\\n").out
    assert sorted(out.splitlines()) == sorted(f"{topic} {number}" for topic in (one, other) for number in range(10))


def test_what_nobody_read_from_a_pipe_is_not_committed(old: Old) -> None:
    topic = old.topic()
    command = [sys.executable, "-m", "ottla", "consume", *shared(old, "piped", topic)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 1
        assert process.stderr.read() == b""
    assert old.offsets("piped", topic) == {}


def test_a_topic_that_is_not_there(ottla: Ottla, old: Old) -> None:
    topic = old.topic()
    missing = ottla("consume", *shared(old, "g", f"{topic}x"), code=1).err
    assert f"cannot consume '{topic}x': there is no topic '{topic}x'; the nearest is '{topic}'" in missing
    bad = ottla("consume", *shared(old, "a/b", topic), code=1).err
    assert "'group.id' and 'consumer.id' are names of nodes in ZooKeeper, without '/'" in bad


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--classic",), "--classic needs --group and --zookeeper as well"),
        (("--classic", "-g", "g"), "--classic and --group need --zookeeper as well"),
        (("--zookeeper", "h:1", "-g", "g"), "--group and --zookeeper need --classic as well"),
        (("--classic", "--zookeeper", "h:1", "-g", "g", "-b", "h:2"), "--bootstrap does not go with --classic"),
        (("--classic", "--zookeeper", "h:1", "-g", "g", "--read-committed"), "those consumers know no transactions"),
        (("--classic", "--zookeeper", "h:1", "-g", "g", "-p", "0"), "--partition does not go with --group"),
    ],
)
def test_options_that_do_not_fit(ottla: Ottla, options: tuple[str, ...], said: str) -> None:
    assert said in ottla("consume", "orders", *options, code=2).err
