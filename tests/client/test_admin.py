"""What Java's Admin of 2.7 can do, done by ours: against our broker and Apache Kafka 2.7.2, 3.9.2 and 4.3.1."""

import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import trio

from ottla.client import EARLIEST, LATEST, Admin, Cluster, Producer, TopicPartition
from ottla.client.admin import ANY_NAME
from ottla.client.cluster_admin import ReplicaPlace
from ottla.client.groups import Committed
from ottla.errors import (
    BrokerNotAvailable,
    ElectionNotNeeded,
    GroupIdNotFound,
    InvalidRequest,
    KafkaError,
    LogDirNotFound,
    NonEmptyGroup,
    OffsetOutOfRange,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from ottla.kafka import BROKER_LOGGER_RESOURCE, BROKER_RESOURCE
from tests.client.conftest import knows_itself
from tests.peers.apache import Apache, Kafka
from tests.peers.ottla import Broker, Brokers
from tests.peers.processes import with_parent
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio

LATER = [pytest.param(version, marks=[pytest.mark.java, pytest.mark.soak]) for version in ("3.9.2", "4.3.1")]


@pytest.fixture(scope="module", params=["ottla", pytest.param("2.7.2", marks=pytest.mark.java), *LATER])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka | Broker]:
    if request.param == "ottla":
        yield request.getfixturevalue("our_broker")
    elif request.param == "2.7.2":
        yield request.getfixturevalue("apache_kafka")
    else:
        with Apache(tmp_path_factory.mktemp("admin-kafka")) as apache:
            broker = apache.broker(request.param)
            broker.wait_until(lambda: knows_itself(broker.port))
            yield broker


async def soon(what: str, holds: Callable[[], Awaitable[bool]]) -> None:
    """Brokers of Kafka hear of changes a moment later."""
    with trio.fail_after(PATIENCE_S):
        while not await holds():
            await trio.lowlevel.checkpoint()


async def test_topics_with_replicas_that_are_named(server: Kafka | Broker) -> None:
    async with Cluster(server.bootstrap) as cluster:
        admin = Admin(cluster)
        await admin.create_topic("checked", 1, validate_only=True)
        await admin.create_topic("named", assignment=[[server.id], [server.id]])
        assert "checked" not in await admin.list_topics()
        await admin.create_partitions("named", 3, assignment=[[server.id]])
        (topic,) = await admin.describe_topics(["named"])
        assert [each.replicas for each in topic.partitions] == [(server.id,)] * 3
        with pytest.raises(KafkaError):
            await admin.create_partitions("named", 4, assignment=[[server.id + 1]])


async def test_records_are_deleted_and_offsets_listed(server: Kafka | Broker) -> None:
    first, second = TopicPartition("shorter", 0), TopicPartition("shorter", 1)
    async with Cluster(server.bootstrap) as cluster:
        admin = Admin(cluster)
        await admin.create_topic("shorter", 2)
        async with Producer(cluster) as producer:
            for number in range(20):
                await producer.send("shorter", b"v", partition=number % 2, timestamp_ms=1000 * number)
        assert await admin.delete_records({first: 4, second: -1}) == {first: 4, second: 10}
        begins = await admin.list_offsets({first: EARLIEST, second: EARLIEST})
        assert [begins[each].offset for each in (first, second)] == [4, 10]
        ends = await admin.list_offsets({first: LATEST, second: LATEST})
        assert [ends[each].offset for each in (first, second)] == [10, 10]
        assert await admin.list_offsets({first: 11_000}) == {first: (6, 12_000)}
        with pytest.raises(OffsetOutOfRange, match="shorter-0"):
            await admin.delete_records({first: 11})
        with pytest.raises(UnknownTopicOrPartition):
            await admin.delete_records({TopicPartition("nowhere", 0): 1})


async def test_settings_are_changed_and_replaced(server: Kafka | Broker) -> None:
    async with Cluster(server.bootstrap) as cluster:
        admin = Admin(cluster)

        async def own() -> dict[str, str | None]:
            return {each.name: each.value for each in await admin.describe_settings("set") if each.source == 1}

        await admin.create_topic("set", 1, settings={"cleanup.policy": "compact", "retention.ms": "5000"})
        await admin.alter_settings("set", {"segment.bytes": "1048576"}, append={"cleanup.policy": "delete"})
        await soon("a list", lambda: is_now(own, {"cleanup.policy": "compact,delete", "retention.ms": "5000"}))
        await admin.alter_settings("set", {"segment.bytes": None}, subtract={"cleanup.policy": "compact"})
        await soon("less", lambda: is_now(own, {"cleanup.policy": "delete", "retention.ms": "5000"}))
        await admin.replace_settings("set", {"retention.bytes": "7"}, validate_only=True)
        await admin.replace_settings("set", {"max.message.bytes": "7000"})
        await soon("others", lambda: is_now(own, {"max.message.bytes": "7000", "cleanup.policy": None}))
        assert await own() == {"max.message.bytes": "7000"}


async def is_now(own: Callable[[], Awaitable[dict[str, str | None]]], wanted: dict[str, str | None]) -> bool:
    found = await own()
    return all(found.get(name) == value for name, value in wanted.items())


async def test_settings_of_one_broker_and_of_all(server: Kafka | Broker) -> None:
    name, resource = "log.cleaner.io.buffer.load.factor", BROKER_RESOURCE
    async with Cluster(server.bootstrap) as cluster:
        admin = Admin(cluster)

        async def value(whose: str) -> str | None:
            found = {each.name: each.value for each in await admin.describe_settings(whose, resource=resource)}
            return found.get(name)

        async def holds(whose: str, wanted: str) -> bool:
            return await value(whose) == wanted

        await admin.alter_settings("", {name: "0.8"}, resource=resource)
        await soon("all brokers", lambda: holds("", "0.8"))
        await soon("one broker", lambda: holds(str(server.id), "0.8"))
        await admin.alter_settings(str(server.id), {name: "0.7"}, resource=resource)
        await soon("its own", lambda: holds(str(server.id), "0.7"))
        await admin.alter_settings(str(server.id), {name: None}, resource=resource)
        await admin.alter_settings("", {name: None}, resource=resource)
        with pytest.raises(BrokerNotAvailable, match="broker 77"):
            await admin.describe_settings("77", resource=resource)


async def test_levels_of_loggers(server: Kafka | Broker) -> None:
    async with Cluster(server.bootstrap) as cluster:
        admin, who = Admin(cluster), str(server.id)
        loggers = {
            each.name: each.value for each in await admin.describe_settings(who, resource=BROKER_LOGGER_RESOURCE)
        }
        name = next(name for name in loggers if name not in ("root", ""))
        await admin.alter_settings(who, {name: "WARN"}, resource=BROKER_LOGGER_RESOURCE)
        found = {each.name: each.value for each in await admin.describe_settings(who, resource=BROKER_LOGGER_RESOURCE)}
        assert found[name] == "WARN"


async def test_quotas(server: Kafka | Broker) -> None:
    anna, any_client = {"user": "anna"}, {"user": "anna", "client-id": None}
    async with Cluster(server.bootstrap) as cluster:
        admin = Admin(cluster)
        await admin.alter_quotas(anna, {"producer_byte_rate": 1e6}, validate_only=True)
        await admin.alter_quotas(anna, {"producer_byte_rate": 1e6, "request_percentage": 50})
        await admin.alter_quotas(any_client, {"consumer_byte_rate": 2e6})
        await admin.alter_quotas({"client-id": None}, {"consumer_byte_rate": 5e6})

        async def are(entity: dict[str, str | None], exactly: bool, limits: list[dict[str, float]]) -> bool:
            found = await admin.describe_quotas(entity, exactly=exactly)
            return sorted((dict(each.limits) for each in found), key=str) == sorted(limits, key=str)

        both = {"producer_byte_rate": 1e6, "request_percentage": 50.0}
        await soon("anna's", lambda: are({"user": "anna"}, True, [both]))
        await soon("all of anna's", lambda: are({"user": "anna"}, False, [both, {"consumer_byte_rate": 2e6}]))
        await soon("any user's", lambda: are({"user": ANY_NAME}, True, [both]))
        await soon("the default", lambda: are({"client-id": None}, True, [{"consumer_byte_rate": 5e6}]))
        await soon("all", lambda: are({}, False, [both, {"consumer_byte_rate": 2e6}, {"consumer_byte_rate": 5e6}]))
        assert any(each.entity == any_client for each in await admin.describe_quotas())
        await admin.alter_quotas(anna, {"producer_byte_rate": None, "request_percentage": None})
        await admin.alter_quotas(any_client, {"consumer_byte_rate": None})
        await admin.alter_quotas({"client-id": None}, {"consumer_byte_rate": None})
        await soon("none", lambda: are({}, False, []))
        with pytest.raises(InvalidRequest):
            await admin.alter_quotas(anna, {"beauty": 1})


async def test_features(server: Kafka | Broker) -> None:
    async with Cluster(server.bootstrap) as cluster:
        admin = Admin(cluster)
        features = await admin.describe_features()
        # 2.7 has the calls, and no feature yet.
        has_some = getattr(server, "version", "2.7.2") != "2.7.2"
        assert bool(features.supported) == has_some
        if has_some:
            assert "metadata.version" in features.finalized
        with pytest.raises(KafkaError):
            await admin.update_features({"no-such-feature": 1})


async def test_the_cluster_and_its_directories(server: Kafka | Broker) -> None:
    here = TopicPartition("placed", 0)
    async with Cluster(server.bootstrap) as cluster:
        admin = Admin(cluster)
        await admin.create_topic("placed", 1)
        found = await admin.brokers.describe()
        assert found.brokers.keys() == {server.id} == {found.controller}
        assert found.cluster_id
        assert found.topics == ()
        asked = [here, TopicPartition("nowhere", 0)]

        async def is_there() -> bool:
            return here in await admin.brokers.replica_directories(server.id, asked)

        await soon("the replica", is_there)
        places = await admin.brokers.replica_directories(server.id, asked)
        path = places[here].path
        assert places == {here: ReplicaPlace(path, 0, None, -1)}
        assert await admin.brokers.move_directories(server.id, {here: path}) == {}
        refused = await admin.brokers.move_directories(server.id, {here: "/not/a/log/directory"})
        assert {name: type(problem) for name, problem in refused.items()} == {here: LogDirNotFound}
        assert await admin.brokers.moves() == {}
        assert all(isinstance(each, ElectionNotNeeded | None) for each in (await admin.brokers.elect()).values())


async def test_a_replica_moves_to_another_directory(brokers: Brokers, tmp_path: Path) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    broker = brokers(arguments=("--data-dir", ",".join(map(str, paths))))
    here = TopicPartition("moves", 0)
    async with Cluster(broker.bootstrap) as cluster:
        admin = Admin(cluster)
        await admin.create_topic("moves", 1)
        before = (await admin.brokers.replica_directories(broker.id, [here]))[here].path
        (other,) = {str(path) for path in paths} - {before}
        assert await admin.brokers.move_directories(broker.id, {here: other}) == {}

        async def is_there() -> bool:
            found = await admin.brokers.replica_directories(broker.id, [here])
            return found[here] == ReplicaPlace(other, 0, None, -1)

        await soon("the move", is_there)


async def test_groups_and_their_offsets(server: Kafka | Broker) -> None:
    first, second = TopicPartition("grouped", 0), TopicPartition("grouped", 1)
    async with Cluster(server.bootstrap) as cluster:
        admin = Admin(cluster)
        await admin.create_topic("grouped", 2)
        groups = admin.groups
        await groups.commit("g-admin", {first: Committed(5, metadata="m"), second: Committed(7)})
        assert [each.state for each in await groups.listed() if each.group == "g-admin"] == ["Empty"]
        assert "g-admin" in [each.group for each in await groups.listed(states=["Empty"])]
        assert "g-admin" not in [each.group for each in await groups.listed(states=["Stable"])]
        assert (await groups.describe("g-admin")).state == "Empty"
        assert {name: each.offset for name, each in (await groups.committed("g-admin")).items()} == {
            first: 5,
            second: 7,
        }
        await groups.delete_offsets("g-admin", [first])
        assert (await groups.committed("g-admin")).keys() == {second}
        await groups.delete("g-admin")
        with pytest.raises(GroupIdNotFound):
            await groups.delete("g-admin")


#: Three members of a group: two static ones, and one that is not.
MEMBERS = """
import sys
import confluent_kafka as ck

made = []
for name in ("one", "two", ""):
    settings = {"bootstrap.servers": sys.argv[1], "group.id": "g-members", "log_level": 0}
    settings["session.timeout.ms"] = 300_000
    made.append(ck.Consumer({**settings, "group.instance.id": name} if name else settings))
    made[-1].subscribe(["membered"])
while True:
    for consumer in made:
        consumer.poll(0.01)
"""


async def test_members_are_removed(server: Kafka | Broker) -> None:
    """Static ones, which nobody expects to leave, by their names; then all. They stand still meanwhile, and are killed
    at the end: librdkafka's `close` does not always return for a member that was removed.
    """
    async with Cluster(server.bootstrap) as cluster:
        admin = Admin(cluster)
        await admin.create_topic("membered", 3)

        async def members() -> set[str | None]:
            group = await admin.groups.describe("g-members")
            return {each.instance_id for each in group.members} if group.state == "Stable" else set()

        command = [sys.executable, "-W", "ignore", "-c", MEMBERS, server.bootstrap]
        with subprocess.Popen(with_parent(command)) as process:
            try:
                with trio.fail_after(PATIENCE_S):
                    while await members() != {"one", "two", None}:
                        await trio.lowlevel.checkpoint()
                process.send_signal(signal.SIGSTOP)
                with pytest.raises(NonEmptyGroup):
                    await admin.groups.delete("g-members")
                with pytest.raises(UnknownMemberId):
                    await admin.groups.remove_members("g-members", instance_ids=["three"])
                await admin.groups.remove_members("g-members", instance_ids=["one"])
                left = (await admin.groups.describe("g-members")).members
                assert {each.instance_id for each in left} == {"two", None}
                await admin.groups.remove_all_members("g-members")
                assert (await admin.groups.describe("g-members")).members == ()
                await admin.groups.remove_all_members("g-members")
            finally:
                process.kill()


async def test_the_table_names_what_is_there() -> None:
    admin = Admin(Cluster("127.0.0.1:1"))
    text = (Path(__file__).parents[2] / "docs" / "client.md").read_text()
    named = re.findall(r"`admin((?:\.\w+)+)\(", text)
    assert len(named) > 25
    for path in named:
        found: object = admin
        for name in path[1:].split("."):
            found = getattr(found, name)
        assert callable(found), path
