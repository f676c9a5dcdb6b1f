"""`ottla group` with `--zookeeper`: the groups of consumers before Kafka 0.9."""

import json
import socket
from collections.abc import Iterator

import pytest
import trio
from kazoo.client import KazooClient

from ottla.classic import TopicPartition
from ottla.classic.groups import GroupHasMembers, delete_group, read_group, write_offsets
from ottla.coordination.zookeeper import ZooKeeperTree
from tests.peers.apache import fetch, tool
from tests.peers.old_clients import OldConsumer
from tests.peers.ports import free_port

from .conftest import Ottla
from .old_groups import Old, running

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory, zookeeper_server: str) -> Iterator[Old]:
    with running(tmp_path_factory.mktemp("old-groups"), f"{zookeeper_server}/old-groups") as found:
        yield found


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


def test_groups_of_both_kinds_are_listed(ottla: Ottla, old: Old) -> None:
    topic = old.topic()
    mine = old.group(topic, 3)
    old.commit_in_kafka("newer", topic, 1)
    at = ("--zookeeper", old.zookeeper)
    assert mine in ottla("group", "list", "--names", *at).out.splitlines()
    head, *found = rows(ottla("group", "list", *at).out)
    assert head == ["group", "state", "protocol", "type", "kind"]
    assert [mine, "Empty", "-", "zookeeper"] in found
    assert not [row for row in found if row[0] == "newer"]
    with old.member(mine, topic):
        both = rows(ottla("group", "list", *at, "--bootstrap", old.bootstrap).out)
        assert [mine, "Active", "-", "zookeeper"] in both
        assert ["newer", "Empty", "-", "kafka"] in both
        listed = ottla("group", "list", "--json", *at).json
        assert {"group": mine, "state": "Active", "protocol_type": None, "kind": "zookeeper"} in listed


def test_a_group_is_described_with_its_owners(ottla: Ottla, old: Old) -> None:
    topic = old.topic()
    mine = old.group(topic, 3)
    at = ("--zookeeper", old.zookeeper)
    with old.member(mine, topic) as name:
        head, columns, *table = ottla("group", "describe", mine, *at).out.splitlines()
        (found,) = ottla("group", "describe", mine, "--json", *at).json
    assert head == f"{mine}: in ZooKeeper, 1 member"
    assert columns.split() == ["topic", "partition", "committed", "end", "lag", "owner", "storage"]
    assert rows("\n".join(table)) == [
        [topic, "0", "3", "10", "7", f"{name}-0", "zookeeper"],
        [topic, "1", "-", "10", "-", f"{name}-0", "-"],
    ]
    assert isinstance(found, dict)
    assert found["members"] == [{"member": name, "topics": [topic], "pattern": "static"}]
    assert found["partitions"][0] == {
        "topic": topic,
        "partition": 0,
        "committed": 3,
        "end": 10,
        "lag": 7,
        "owner": f"{name}-0",
        "zookeeper": 3,
        "kafka": None,
    }
    assert found["problems"] == []


def test_where_offsets_are_is_told(ottla: Ottla, old: Old) -> None:
    topic = old.topic(partitions=4)
    mine = old.group(topic, 3, 4, 5)
    old.commit_in_kafka(mine, topic, 3, 6, 2, 1)
    for brokers in ((), ("--bootstrap", old.bootstrap)):
        told = ottla("group", "describe", mine, "--zookeeper", old.zookeeper, *brokers).out.splitlines()[2:]
        assert [line.split(maxsplit=6)[2:] for line in told] == [
            ["3", "10", "7", "-", "both"],
            ["6", "10", "4", "-", "kafka (zookeeper: 4)"],
            ["5", "10", "5", "-", "zookeeper (kafka: 2)"],
            ["1", "10", "9", "-", "kafka"],
        ]


def test_what_is_damaged_is_named_and_the_rest_shown(ottla: Ottla, old: Old) -> None:
    topic = old.topic(partitions=3)
    mine = old.group(topic, 3)
    old.write(f"{mine}/offsets/{topic}/1", "three")
    old.write(f"{mine}/offsets/{topic}/last", "3")
    old.write(f"{mine}/owners/{topic}/2", "somebody-0")
    old.write(f"{mine}/ids/{mine}_host", "\x01", ephemeral=True)
    try:
        out = ottla("group", "describe", mine, "--zookeeper", old.zookeeper).out
    finally:
        old.client.delete(f"/consumers/{mine}/ids/{mine}_host")
    head, _, *told = out.splitlines()
    assert head == f"{mine}: in ZooKeeper, 1 member"
    assert [line.split() for line in told[:3]] == [
        [topic, "0", "3", "10", "7", "-", "zookeeper"],
        [topic, "1", "-", "10", "-", "-", "-"],
        [topic, "2", "-", "10", "-", "somebody-0", "-"],
    ]
    where = f"/consumers/{mine}"
    assert sorted(line.strip() for line in told[3:]) == sorted(
        [
            f"member {mine}_host owns no partition",
            f"{where}/ids/{mine}_host is no consumer's registration: '\\x01'",
            f"{where}/offsets/{topic}/1 has no offset, but 'three'",
            f"{where}/offsets/{topic}/last is the node of no partition",
            f"{where}/owners/{topic}/2 outlives its owner: no member's session has made it",
        ]
    )


def test_nodes_of_nobody_among_the_members(ottla: Ottla, old: Old) -> None:
    """They can be no member that is to be stopped first. A whole group goes with them; else they are left alone."""
    topic = old.topic(partitions=3)
    other = old.topic()
    mine = old.group(topic, 3)
    path = f"/consumers/{mine}/ids/{mine}_ghost"
    old.write(f"{mine}/ids/{mine}_ghost", '{"version":1,"subscription":{"t":1},"pattern":"static"}')
    old.write(f"{mine}/offsets/{other}/0", "1")
    zookeeper = ["--zookeeper", old.zookeeper]
    out = ottla("group", "describe", mine, *zookeeper).out
    assert out.startswith(f"{mine}: in ZooKeeper, 0 members\n")
    assert [mine, "Empty", "-", "zookeeper"] in rows(ottla("group", "list", *zookeeper).out)
    assert f"  {path} outlives its member: no session has made it, and nobody reads what it is given\n" in out
    for command in (
        ["reset", mine, "--to-earliest", "--topic", topic],
        ["delete", mine, "--topic", other],
    ):
        said = ottla("group", *command, *zookeeper, "--yes", code=1).err
        assert f"group '{mine}' has no member, but {path}, which goes with nobody's session: delete that node" in said
        assert said.count("\n") == 1
    assert old.client.exists(path)
    ottla("group", "delete", mine, *zookeeper, "--yes")
    assert not old.client.exists(f"/consumers/{mine}")


def test_one_missing_leader_does_not_stop_the_rest(ottla: Ottla, old: Old) -> None:
    topic = old.topic()
    mine = old.group(topic, 3, 4)
    leaderless = old.topic_that_nobody_leads()
    old.write(f"{mine}/offsets/{leaderless}/0", "7")
    old.write(f"{mine}/offsets/gone/0", "8")
    ghost = {"version": 1, "partitions": {"0": [99]}}
    old.client.create("/brokers/topics/never-led", json.dumps(ghost).encode())
    old.write(f"{mine}/offsets/never-led/0", "9")
    _, _, *told = ottla("group", "describe", mine, "--zookeeper", old.zookeeper).out.splitlines()
    assert sorted([line.split() for line in told[:5]]) == sorted(
        [
            ["gone", "0", "8", "-", "-", "-", "zookeeper"],
            [leaderless, "0", "7", "-", "-", "-", "zookeeper"],
            ["never-led", "0", "9", "-", "-", "-", "zookeeper"],
            [topic, "0", "3", "10", "7", "-", "zookeeper"],
            [topic, "1", "4", "10", "6", "-", "zookeeper"],
        ]
    )
    assert [line.strip() for line in told[5:]] == [
        f"{leaderless}-0 has no leader now (LEADER_NOT_AVAILABLE)",
        "never-led-0 is in ZooKeeper, and no broker knows it",
    ]


def test_a_tree_without_brokers_is_shown(ottla: Ottla, old: Old) -> None:
    host, _, _ = old.zookeeper.partition("/")
    with_root = KazooClient(host)
    with_root.start()
    with_root.ensure_path("/left-over/consumers/g/offsets/t")
    with_root.create("/left-over/consumers/g/offsets/t/0", b"12")
    with_root.ensure_path("/nothing")
    with_root.stop()
    with_root.close()
    told = ottla("group", "describe", "--zookeeper", f"{host}/left-over").out.splitlines()
    assert told[2].split() == ["t", "0", "12", "-", "-", "-", "zookeeper"]
    assert "what brokers know is left out: no broker with a listener of PLAINTEXT is registered" in told[3]
    none = ottla("group", "list", "--zookeeper", f"{host}/nothing", code=1).err
    assert f"cannot list groups: no cluster is in ZooKeeper at {host}/nothing" in none
    assert "--zookeeper is what the brokers have as zookeeper.connect" in none
    missing = ottla("group", "list", "--zookeeper", f"{host}/nowhere", code=1).err
    assert "cannot list groups: there is no /nowhere in that ZooKeeper" in missing


def test_brokers_and_a_zookeeper_that_do_not_answer(ottla: Ottla, old: Old) -> None:
    topic = old.topic()
    mine = old.group(topic, 3)
    nobody = f"127.0.0.1:{free_port()}"
    out = ottla("group", "describe", mine, "--zookeeper", old.zookeeper, "-b", nobody).out
    assert [topic, "0", "3", "-", "-", "-", "zookeeper"] in rows(out)
    assert out.splitlines()[-1].startswith("  what brokers know is left out: ")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        for command in (("group", "list"), ("consume", topic, "-g", "g", "--classic")):
            said = ottla(*command, "--zookeeper", where, "--timeout-ms", "300", code=1).err
            assert f"no ZooKeeper server at {where} answered within 300 ms; is a ZooKeeper running there?" in said
    said = ottla("group", "list", "--zookeeper", old.bootstrap, "--timeout-ms", "300", code=1).err
    assert f"answered within 300 ms: a Kafka broker answers at {old.bootstrap}, with its own protocol. Name " in said
    assert said.count("\n") == 1


def test_mistakes_are_told_in_one_line(ottla: Ottla, old: Old) -> None:
    mine = old.group(old.topic(), 3)
    at = ("--zookeeper", old.zookeeper)
    unknown = ottla("group", "describe", f"{mine}x", *at, code=1).err
    assert f"there is no group '{mine}x'; the nearest is '{mine}' in ZooKeeper at {old.zookeeper}" in unknown
    assert "no group in ZooKeeper can have the name 'a/b'" in ottla("group", "describe", "a/b", *at, code=1).err
    nobody = f"127.0.0.1:{free_port()}"
    silent = ottla("group", "describe", mine, "--zookeeper", nobody, "--timeout-ms", "300", code=1).err
    assert f"cannot describe group '{mine}': no ZooKeeper server at {nobody} answered within 300 ms" in silent
    assert len(silent.strip().splitlines()) == 1
    assert "Invalid value for '--zookeeper'" in ottla("group", "list", "--zookeeper", "http://a", code=2).err


def test_offsets_are_reset(ottla: Ottla, old: Old) -> None:
    topic = old.topic()
    mine = old.group(topic, 3, 4)
    at = ("--zookeeper", old.zookeeper)

    def reset(*how: str, name: str = mine) -> list[list[str]]:
        head, *told = rows(ottla("group", "reset", name, *how, *at, "--yes").out)
        assert head == ["topic", "partition", "from", "to"]
        return told[:-1]

    assert reset("--to-earliest") == [[topic, "0", "3", "0"], [topic, "1", "4", "0"]]
    assert old.offsets(mine, topic) == {"0": "0", "1": "0"}
    assert reset("--to-offset", "99", "-p", "1") == [[topic, "1", "0", "10"]]
    assert reset("--shift-by", "2") == [[topic, "0", "0", "2"], [topic, "1", "10", "10"]]
    assert old.offsets(mine, topic) == {"0": "2", "1": "10"}
    plan = ottla("group", "reset", mine, "--to-latest", *at, "--dry-run").out
    assert rows(plan)[1:] == [[topic, "0", "2", "10"], [topic, "1", "10", "10"]]
    asked = ottla("group", "reset", mine, "--to-latest", *at, code=2).err
    assert f"2 offsets of group {mine} would be set, and nobody can be asked here" in asked
    assert old.offsets(mine, topic) == {"0": "2", "1": "10"}
    new = f"{mine}-new"
    assert "with --topic it is made" in ottla("group", "reset", new, "--to-latest", *at, "--yes", code=1).err
    assert reset("--to-latest", "-t", topic, name=new) == [[topic, "0", "-", "10"], [topic, "1", "-", "10"]]
    assert old.offsets(new, topic) == {"0": "10", "1": "10"}
    none = ottla("group", "reset", mine, "--to-latest", "-p", "7", *at, code=1).err
    assert f"there is no partition 7 in what group '{mine}' reads" in none


def test_a_group_that_keeps_offsets_in_kafka_is_reset_there_too(ottla: Ottla, old: Old) -> None:
    topic = old.topic()
    mine = old.group(topic, 3, 4)
    old.commit_in_kafka(mine, topic, 8)
    at = ("--zookeeper", old.zookeeper)
    told = ottla("group", "reset", mine, "--to-offset", "1", *at, "--yes").out
    assert rows(told)[1:3] == [[topic, "0", "8", "1"], [topic, "1", "4", "1"]]
    assert f"set 2 offsets of group {mine}, 1 of them also in Kafka" in told
    (found,) = ottla("group", "describe", mine, "--json", *at).json
    assert isinstance(found, dict)
    assert [(row["zookeeper"], row["kafka"]) for row in found["partitions"]] == [(1, 1), (1, None)]


def test_a_group_with_members_is_not_changed(ottla: Ottla, old: Old) -> None:
    topic = old.topic()
    mine = old.group(topic, 3, 4)
    at = ("--zookeeper", old.zookeeper)
    with old.member(mine, topic):
        for command in (("reset", mine, "--to-latest"), ("delete", mine), ("delete", mine, "-t", topic)):
            refused = ottla("group", *command, *at, "--yes", code=1).err
            assert f"group '{mine}' has 1 member: stop them first" in refused
        everywhere = ottla("group", "delete", "-t", topic, *at, "--yes")
        assert f"group '{mine}' has 1 member" in everywhere.err
    assert old.offsets(mine, topic) == {"0": "3", "1": "4"}


def test_a_member_that_comes_meanwhile_stops_a_change(old: Old) -> None:
    topic = old.topic()
    mine = old.group(topic, 3, 4)

    async def change() -> None:
        async with await ZooKeeperTree.connect(old.zookeeper) as tree:
            found = await read_group(tree, mine)
            assert found is not None
            await tree.ensure(f"/consumers/{mine}/ids/late")
            with pytest.raises(GroupHasMembers):
                await write_offsets(tree, mine, {TopicPartition(topic, 0): 9})
            with pytest.raises(GroupHasMembers):
                await delete_group(tree, found)

    trio.run(change)
    assert old.offsets(mine, topic) == {"0": "3", "1": "4"}


def test_groups_are_deleted(ottla: Ottla, old: Old) -> None:
    topic, other = old.topic(), old.topic()
    at = ("--zookeeper", old.zookeeper)
    mine = old.group(topic, 3, 4)
    old.write(f"{mine}/owners/{topic}/0", "left over")
    second, third, fourth = old.group(topic, 1), old.group(topic, 1), old.group(other, 1)
    old.write(f"{second}/offsets/{other}/0", "5")
    old.write(f"{second}/ids")
    plan = ottla("group", "delete", mine, second, *at, "--dry-run").out
    assert rows(plan) == [
        ["group", "members", "offsets"],
        [mine, "0", "2"],
        [second, "0", "2"],
    ]
    assert f"{mine} would be deleted" in ottla("group", "delete", mine, *at, code=2).err
    assert ottla("group", "delete", mine, *at, "--yes").out == f"deleted group {mine}\n"
    assert old.client.exists(f"/consumers/{mine}") is None
    gone = ottla("group", "delete", mine, third, *at, "--yes", code=1)
    assert gone.out == f"deleted group {third}\n"
    assert f"there is no group '{mine}'" in gone.err
    missing = ottla("group", "delete", fourth, "-t", topic, *at, "--yes", code=1).err
    assert f"group '{fourth}' has nothing of '{topic}'; did you mean {other}?" in missing
    assert ottla("group", "delete", "-t", topic, *at, "--yes").out == f"deleted what group {second} has of {topic}\n"
    assert old.offsets(second, topic) == {}
    assert old.offsets(second, other) == {"0": "5"}
    last = ottla("group", "delete", second, "-t", other, *at, "--yes").out
    assert last == f"deleted group {second}, which had nothing else\n"
    assert old.client.exists(f"/consumers/{second}") is None
    assert f"no group has anything of '{topic}'" in ottla("group", "delete", "-t", topic, *at, "--yes", code=1).err


def test_which_group_is_to_be_said(ottla: Ottla, old: Old) -> None:
    for options in ((), ("-t", "orders"), ("--zookeeper", old.zookeeper)):
        said = ottla("group", "delete", *options, "--yes", code=2).err
        assert "name a group; without one, --topic and --zookeeper" in said


@pytest.mark.judge
def test_kafkas_tool_of_that_time_says_the_same(ottla: Ottla, old: Old) -> None:
    """ConsumerGroupCommand of 0.10.2 beside ours, for a group with a member of Java."""
    version = "0.10.2.2"
    fetch(version)

    def theirs(*arguments: str) -> str:
        command = "kafka.admin.ConsumerGroupCommand"
        return tool(version, command, "--zookeeper", old.zookeeper, *arguments)

    topic = old.topic()
    mine = old.group(topic, 3)
    old.commit_in_kafka(mine, topic, 3)
    at = ("--zookeeper", old.zookeeper)
    assert set(theirs("--list").split()) >= {mine}
    assert set(theirs("--list").split()) >= set(ottla("group", "list", "--names", *at).out.split())
    with OldConsumer(version, old.zookeeper, mine, topic, auto_offset_reset="largest").wait_ready() as member:
        member.commit()
        told = [line.split() for line in theirs("--describe", "--group", mine).splitlines() if line.startswith(topic)]
        (found,) = ottla("group", "describe", mine, "--json", *at).json
        assert isinstance(found, dict)
        names = ("topic", "partition", "committed", "end", "lag")
        ours = [
            [*("-" if each[name] is None else str(each[name]) for name in names), each["owner"].rpartition("-")[0]]
            for each in found["partitions"]
        ]
        assert ours == told
        assert "still active" in theirs("--delete", "--group", mine)
        assert "has 1 member" in ottla("group", "delete", mine, *at, "--yes", code=1).err
    assert "Deleted" in theirs("--delete", "--group", mine)
    assert f"there is no group '{mine}'" in ottla("group", "describe", mine, *at, code=1).err
