"""`ottla consume --group`: topics shared with the other members of a group, and what is committed."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.peers.apache import Apache, Kafka
from tests.peers.ottla import Broker, Brokers
from tests.support.waiting import PATIENCE_S, eventually

from .conftest import KAFKA, Ottla
from .readers import Reader


@pytest.fixture(scope="module", params=[KAFKA, "ottla"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker | Kafka]:
    folder = tmp_path_factory.mktemp("consume-group")
    settings = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
    if request.param == "ottla":
        with Brokers(folder) as brokers:
            yield brokers(settings=settings)
    else:
        with Apache(folder) as apache:
            yield apache.broker("2.7.2", zookeeper=apache.zookeeper(), settings=settings)


@pytest.fixture
def topic(ottla: Ottla, broker: Broker | Kafka, request: pytest.FixtureRequest) -> str:
    """An empty topic of two partitions."""
    name = request.node.originalname
    ottla("topic", "create", name, "-p", "2", "-b", broker.bootstrap)
    return str(name)


def fill(ottla: Ottla, broker: Broker | Kafka, topic: str, numbers: range) -> list[str]:
    """Numbers in order, even ones in partition 0, odd ones in 1; the values."""
    lines = b"".join(b'{"partition": %d, "value": "%d"}\n' % (number % 2, number) for number in numbers)
    ottla("produce", topic, "--json", "-b", broker.bootstrap, stdin=lines)
    return [str(number) for number in numbers]


def committed(ottla: Ottla, broker: Broker | Kafka, group: str) -> list[int]:
    (found,) = ottla("group", "describe", group, "--json", "-b", broker.bootstrap).json
    assert isinstance(found, dict)
    return [row["committed"] for row in found["partitions"]]


def test_nothing_is_committed_beyond_what_was_printed(ottla: Ottla, broker: Broker | Kafka, topic: str) -> None:
    fill(ottla, broker, topic, range(10))
    at = ("-b", broker.bootstrap)
    shared = ("consume", topic, "-g", "counted", "--from-beginning", *at)
    seen = ottla(*shared, "-n", "3").out.splitlines()
    assert len(seen) == 3
    assert sum(committed(ottla, broker, "counted")) == 3
    more = ottla(*shared, "-n", "4").out.splitlines()
    assert len(more) == 4
    rest = ottla(*shared, "--until-end").out.splitlines()
    assert sorted(map(int, seen + more + rest)) == list(range(10))
    assert committed(ottla, broker, "counted") == [5, 5]
    nothing = ottla(*shared, "--until-end")
    assert (nothing.out, nothing.err) == ("", "nothing new for group 'counted'\n")


def test_a_group_without_offsets_begins_at_the_end(ottla: Ottla, broker: Broker | Kafka, topic: str) -> None:
    fill(ottla, broker, topic, range(4))
    at = ("-b", broker.bootstrap)
    assert ottla("consume", topic, "-g", "late", "-e", *at).out == ""
    assert committed(ottla, broker, "late") == [2, 2]
    added = fill(ottla, broker, topic, range(4, 6))
    assert sorted(ottla("consume", topic, "--group", "late", "-e", *at).out.splitlines()) == added


def test_members_share_and_each_record_is_seen_once(ottla: Ottla, broker: Broker | Kafka, topic: str) -> None:
    at = ("-b", broker.bootstrap)
    expected = fill(ottla, broker, topic, range(20))
    first = Reader(topic, "-g", "shared", "--from-beginning", *at)
    try:
        eventually("the first has all", lambda: len(first.lines) == 20)
        second = Reader(topic, "-g", "shared", "--from-beginning", *at)
        try:

            def owners() -> int:
                (found,) = ottla("group", "describe", "shared", "--json", "-b", broker.bootstrap).json
                assert isinstance(found, dict)
                return len({row["member"] for row in found["partitions"] if row["member"]})

            eventually("each has a partition", lambda: owners() == 2)
            expected += fill(ottla, broker, topic, range(20, 40))
            eventually("both have all", lambda: len(first.lines) + len(second.lines) >= 40)
            first.interrupt()
            expected += fill(ottla, broker, topic, range(40, 50))
            eventually("the second has the rest", lambda: len(first.lines) + len(second.lines) >= 50)
            second.interrupt()
        finally:
            second.end()
    finally:
        first.end()
    assert second.lines
    assert sorted(first.lines + second.lines, key=int) == expected
    assert committed(ottla, broker, "shared") == [25, 25]


def test_what_nobody_read_from_a_pipe_is_not_committed(ottla: Ottla, broker: Broker | Kafka, topic: str) -> None:
    expected = fill(ottla, broker, topic, range(6))
    command = [sys.executable, "-m", "ottla", "consume", topic, "-g", "piped", "--from-beginning"]
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, "-b", broker.bootstrap], stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 1
        assert process.stderr.read() == b""
    again = ottla("consume", topic, "-g", "piped", "--from-beginning", "-e", "-b", broker.bootstrap).out
    assert sorted(again.splitlines()) == expected


def test_a_member_that_gets_nothing_says_so(ottla: Ottla, broker: Broker | Kafka, topic: str) -> None:
    at = ("-b", broker.bootstrap)
    expected = fill(ottla, broker, topic, range(2))
    readers = [Reader(topic, "-g", "full", "--from-beginning", *at) for _ in range(2)]
    try:
        eventually("all are read", lambda: len(readers[0].lines) + len(readers[1].lines) == 2)

        def members() -> int:
            (found,) = ottla("group", "describe", "full", "--json", "-b", broker.bootstrap).json
            assert isinstance(found, dict)
            return len({row["member"] for row in found["partitions"] if row["member"]})

        eventually("each has a partition", lambda: members() == 2)
        third = ottla("consume", topic, "-g", "full", "-e", "-b", broker.bootstrap)
        # A rebalance may give the newest member a partition, and an older one none.
        assert third.out == ""
        assert third.err in (
            "other members of group 'full' have all partitions\n",
            "nothing new for group 'full'\n",
        )
    finally:
        for reader in readers:
            reader.end()
    assert sorted(readers[0].lines + readers[1].lines) == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-p", "0"), "--partition does not go with --group: its members share all partitions"),
        (("-o", "3"), "--offset does not go with --group: a group goes on where it was, and `ottla group reset` sets"),
        (("-t", "5"), "--timestamp does not go with --group"),
        (("-o", "3", "--from-beginning"), "--from-beginning and --offset contradict each other"),
    ],
)
def test_options_that_do_not_fit(ottla: Ottla, options: tuple[str, ...], said: str) -> None:
    assert said in ottla("consume", "orders", "-g", "g", *options, code=2).err


def test_a_group_needs_a_name(ottla: Ottla, broker: Broker | Kafka, topic: str) -> None:
    assert "Invalid value for '-g' / '--group': it is empty" in ottla("consume", topic, "-g", "", code=2).err
    missing = ottla("consume", "nowhere", "-g", "g", "-b", broker.bootstrap, code=1).err
    assert "there is no topic 'nowhere'" in missing


def test_records_before_a_damaged_batch_are_committed(ottla: Ottla, broker: Broker | Kafka, topic: str) -> None:
    at = ("-b", broker.bootstrap)
    for number in range(3):
        ottla("produce", topic, "--json", *at, stdin=b'{"partition": 0, "value": "%d"}\n' % number)
    log = broker.data / f"{topic}-0" / f"{0:020}.log"
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    ended = ottla("consume", topic, "-g", "damaged", "--from-beginning", "-e", *at, code=1)
    assert ended.out.splitlines() == ["0", "1"]
    assert "the batch at offset 2 is damaged" in ended.err
    assert committed(ottla, broker, "damaged")[0] == 2
