"""Settings in the coordination tree that a later Kafka, or a hand, has written: nothing is deleted for them.

All retention here is that of the default, seven days, and all records are of 2023: what retention applies to is deleted
as soon as somebody looks, and somebody looks every ten milliseconds.
"""

from pathlib import Path

import pytest

from ottla import _core
from ottla.broker.broker import Broker
from ottla.broker.quotas.limits import ABSENT, Entity
from ottla.broker.watching.metrics import BrokerMetrics
from ottla.broker.watching.readiness import Readiness
from ottla.config.table import TOPIC_SETTINGS
from ottla.config.values import Type
from ottla.controller import create_partitions
from ottla.controller.configs import notify_config_change
from ottla.coordination import znodes
from ottla.coordination.embedded import EmbeddedTree
from ottla.kafka import TOPIC_RESOURCE
from ottla.metrics.families import NOT_UNDERSTOOD
from ottla.replication import upkeep
from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource
from tests.support.client import batch
from tests.support.settings import DELETE, SET, alter
from tests.support.waiting import comes_true
from tests.support.written_tree import overwrite, started, told

pytestmark = pytest.mark.trio
TOPIC, BROKER_NODE, ALL_BROKERS = "topics", "1", "<default>"
#: As Kafka 3.6 and later write them for a topic with tiered storage.
LATER = {"local.retention.ms": "-2", "remote.storage.enable": "true"}
#: A value for each type that no setting of it can have. A string that is none of the choices is one of a later release.
WRONG = {
    Type.BOOLEAN: "perhaps",
    Type.INT: "12 MB",
    Type.LONG: "1e99",
    Type.DOUBLE: "much",
    Type.LIST: "compact,tiered",
    Type.STRING: "the-next-one",
}


async def made(path: Path, topics: dict[str, dict[str, str]], brokers: dict[str, dict[str, str]] | None = None) -> None:
    """Topics with one old record each, and then with these settings, past every check, while no broker runs."""
    async with started(path) as broker:
        for topic in topics:
            await broker.admin.create_topic(topic, partitions=1, overrides={"retention.ms": "-1"})
            await broker.metadata.wait_until(lambda topic=topic: topic in broker.metadata.topics)  # type: ignore[misc]
            await told(broker, lambda client, topic=topic: client.produce(topic, batch(b"1")))
    await overwrite(
        path,
        {
            znodes.config_path(kind, name): znodes.encode_config(settings)
            for kind, all_of_them in (("topics", topics), ("brokers", brokers or {}))
            for name, settings in all_of_them.items()
        },
    )


async def set_to(broker: Broker, kind: str, name: str, settings: dict[str, str]) -> None:
    node = znodes.config_path(kind, name)
    await broker.tree.ensure(node)
    await broker.tree.set(node, znodes.encode_config(settings))
    await notify_config_change(broker.tree, kind, name)


def start_of(broker: Broker, topic: str) -> int:
    return broker.replicas.partitions[topic, 0].log.start_offset


def looked(broker: Broker) -> None:
    """Retention has been applied to every log as its settings are now."""
    upkeep.delete_old_segments(broker.logs.directories)


async def described(broker: Broker, topic: str) -> dict[str, tuple[str | None, int, int]]:
    """Value, source and type of each setting."""
    resource = DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic)
    answer = await told(
        broker, lambda client: client.call(DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=[resource]), 3)
    )
    (row,) = answer.results
    assert row.error_code == 0, row.error_message
    return {each.name: (each.value, each.config_source, each.config_type) for each in row.configs}


async def test_every_setting_with_a_value_that_is_not_understood(tmp_path: Path) -> None:
    """And with a name that is not known: that one alone is left out."""
    wrong = {f"wrong-{name}": {name: WRONG[setting.type]} for name, setting in TOPIC_SETTINGS.items()}
    # What is any text, or any list, is understood.
    free = {"wrong-leader.replication.throttled.replicas", "wrong-follower.replication.throttled.replicas"}
    later = {f"later-{name}": {**LATER, name: "1"} for name in ("flush.messages",)}
    await made(tmp_path, {"control": {}, **wrong, **later})
    async with started(tmp_path) as broker:
        for topic in ("control", *later):
            await comes_true(f"retention of {topic}", lambda topic=topic: start_of(broker, topic) == 1)  # type: ignore[misc]
        looked(broker)
        kept = {topic for topic in wrong if start_of(broker, topic) == 0}
        assert kept | free >= wrong.keys()
        assert broker.settings.topics_not_understood.keys() == kept
        for topic, settings in {**wrong, **later}.items():
            answer = await described(broker, topic)
            assert answer.keys() == TOPIC_SETTINGS.keys() | settings.keys()
            for name, value in settings.items():
                shown = value if name in TOPIC_SETTINGS else None
                assert answer[name][:2] == (shown, 1)
                assert bool(answer[name][2]) == (name in TOPIC_SETTINGS)


async def test_what_a_later_kafka_wrote_beside_what_is_understood(tmp_path: Path) -> None:
    later = {**LATER, "cleanup.policy": "compact", "retention.ms": "-1"}
    await made(tmp_path, {"control": {}, "later": later})
    async with started(tmp_path) as broker:
        await comes_true("retention", lambda: start_of(broker, "control") == 1)
        assert start_of(broker, "later") == 0
        # Another setting is altered, and what is not known stays in the tree; it can be taken away by its name.
        assert await told(broker, lambda c: alter(c, "segment.ms", "5000", broker="later", kind=2)) == (0, None)
        assert await broker.admin.topic_overrides("later") == {**later, "segment.ms": "5000"}
        (code, _) = await told(
            broker, lambda c: alter(c, "remote.storage.enable", "false", broker="later", kind=2, operation=SET)
        )
        assert code != 0
        for name in LATER:
            done = await told(
                broker, lambda c, name=name: alter(c, name, None, broker="later", kind=2, operation=DELETE)
            )
            assert done == (0, None)
        assert await broker.admin.topic_overrides("later") == {
            "cleanup.policy": "compact",
            "retention.ms": "-1",
            "segment.ms": "5000",
        }


async def test_until_it_is_mended(tmp_path: Path) -> None:
    await made(tmp_path, {"control": {}, "t": {"segment.ms": "soon", "retention.bytes": "many"}})
    async with started(tmp_path) as broker:
        await comes_true("retention", lambda: start_of(broker, "control") == 1)
        looked(broker)
        readiness = Readiness()
        readiness.serves(broker)
        told_of = {family.name: rows for family, rows in BrokerMetrics(readiness)()}
        assert list(told_of[NOT_UNDERSTOOD.name]) == [({}, 1)]
        # One after the other.
        assert await told(broker, lambda c: alter(c, "segment.ms", None, broker="t", kind=2)) == (0, None)
        await comes_true("it is heard", lambda: "many" in broker.settings.topics_not_understood["t"])
        looked(broker)
        assert start_of(broker, "t") == 0
        assert await told(broker, lambda c: alter(c, "retention.bytes", "-1", broker="t", kind=2)) == (0, None)
        await comes_true("retention", lambda: start_of(broker, "t") == 1)
        assert broker.settings.topics_not_understood == {}


async def test_a_change_with_a_value_that_is_not_understood_has_no_effect(tmp_path: Path) -> None:
    await made(tmp_path, {"t": {"retention.ms": "-1", "max.message.bytes": "2000"}})
    async with started(tmp_path) as broker:
        await set_to(broker, TOPIC, "t", {"retention.ms": "1000", "max.message.bytes": "1 MB"})
        await comes_true("it is heard", lambda: "t" in broker.settings.topics_not_understood)
        looked(broker)
        assert start_of(broker, "t") == 0
        assert broker.logs.topic_config("t").get_int("max.message.bytes") == 2000
        # Nor when the topic gets more partitions, for which its settings are read again.
        await create_partitions(broker.tree, "t", 2)
        await broker.metadata.wait_until(lambda: len(broker.metadata.topics["t"]) == 2)
        assert broker.logs.topic_config("t").get_int("max.message.bytes") == 2000
        await set_to(broker, TOPIC, "t", {"retention.ms": "1000", "max.message.bytes": "1000000"})
        await comes_true("retention", lambda: start_of(broker, "t") == 1)
        assert broker.logs.topic_config("t").get_int("max.message.bytes") == 1_000_000


@pytest.mark.parametrize("node", [BROKER_NODE, ALL_BROKERS])
@pytest.mark.parametrize("name", ["log.retention.ms", "log.retention.bytes", "log.cleanup.policy"])
async def test_a_brokers_setting_for_logs_that_is_not_understood(tmp_path: Path, node: str, name: str) -> None:
    await made(tmp_path, {"t": {}}, {node: {name: "for ever", "log.segment.bytes": "1048576"}})
    async with started(tmp_path) as broker:
        looked(broker)
        assert start_of(broker, "t") == 0
        assert broker.logs.topic_config("t").get_int("segment.bytes") == 1_048_576
        await set_to(broker, "brokers", node, {"log.segment.bytes": "2097152", "log.roll.ms": "soon"})
        await comes_true("it is heard", lambda: "soon" in broker.settings.brokers_not_understood.get(node, ""))
        looked(broker)
        assert start_of(broker, "t") == 0
        assert broker.logs.topic_config("t").get_int("segment.bytes") == 1_048_576, "no part of the change is taken"
        await set_to(broker, "brokers", node, {"log.segment.bytes": "1048576"})
        await comes_true("retention", lambda: start_of(broker, "t") == 1)
        # And once more, of a broker that has deleted before.
        await set_to(broker, "brokers", node, {"log.segment.bytes": "1048576", "log.roll.ms": "soon"})
        await comes_true("it is heard", lambda: bool(broker.settings.brokers_not_understood))
        await told(broker, lambda client: client.produce("t", batch(b"2")))
        looked(broker)
        assert start_of(broker, "t") == 1
        await set_to(broker, "brokers", node, {"log.segment.bytes": "2097152"})
        await comes_true("retention", lambda: start_of(broker, "t") == 2)
        assert broker.logs.topic_config("t").get_int("segment.bytes") == 2_097_152


async def test_a_change_beside_a_value_that_was_not_understood_before(tmp_path: Path) -> None:
    """A broker's setting that is none of its logs: others go on to be changed."""
    before = {"max.connections": "many", "log.segment.bytes": "1048576"}
    await made(tmp_path, {"t": {}}, {BROKER_NODE: before})
    async with started(tmp_path) as broker:
        await set_to(broker, "brokers", BROKER_NODE, {**before, "log.segment.bytes": "2097152"})
        await comes_true("it is taken", lambda: broker.logs.topic_config("t").get_int("segment.bytes") == 2_097_152)
        await set_to(broker, "brokers", BROKER_NODE, {"max.connections": "few", "log.segment.bytes": "4194304"})
        await set_to(broker, TOPIC, "t", {"segment.bytes": "100000"})
        await comes_true("both are heard", lambda: broker.logs.topic_config("t").get_int("segment.bytes") == 100_000)
        assert broker.config.get_int("log.segment.bytes") == 2_097_152


async def test_what_changed_while_a_broker_was_away(tmp_path: Path) -> None:
    """For so long that others have removed the notification: a new session reads all settings again."""
    await made(tmp_path, {"t": {"retention.ms": "-1"}, "mended": {"retention.ms": "soon"}})
    async with started(tmp_path) as broker:
        tree = broker.tree
        assert isinstance(tree, EmbeddedTree)
        quota = Entity(ABSENT, "c")
        await set_to(broker, "clients", "c", {"producer_byte_rate": "1000"})
        await comes_true("the quota", lambda: quota in broker.client_quotas.entities())
        for kind, name, settings in (
            ("topics", "t", {"retention.ms": "-1", "min.insync.replicas": "2"}),
            ("topics", "mended", {"retention.ms": "-1"}),
            ("brokers", ALL_BROKERS, {"log.segment.bytes": "2097152"}),
            ("clients", "c", {}),
            ("clients", "d", {"producer_byte_rate": "1000"}),
        ):
            node = znodes.config_path(kind, name)
            await tree.ensure(node)
            await tree.set(node, znodes.encode_config(settings))
        await tree.expire()
        await comes_true("the topic's", lambda: broker.logs.topic_config("t").get_int("min.insync.replicas") == 2)
        await comes_true("all brokers'", lambda: broker.config.get_int("log.segment.bytes") == 2_097_152)
        await comes_true("clients'", lambda: broker.client_quotas.entities() == {Entity(ABSENT, "d")})
        assert not broker.settings.topics_not_understood
        assert broker.replicas.partitions["t", 0].min_insync_replicas == 2


def keyed(number: int) -> bytes:
    builder = _core.BatchBuilder()
    builder.append(1_700_000_000_000, b"the same", b"%d" % number * 50)
    return builder.finish()


async def test_nothing_is_compacted(tmp_path: Path) -> None:
    """Of a topic whose settings are not understood, although it is dirty enough for any that are."""
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": "200"}
    await made(tmp_path, {"t": {**compacted, "flush.ms": "soon"}})
    async with started(tmp_path) as broker:
        for number in range(6):
            await told(broker, lambda client, number=number: client.produce("t", keyed(number)))
        dirty: list[_core.Cleanable] = []
        broker.logs.directories.in_each(lambda native: dirty.extend(native.cleanable(1 << 50)))
        assert [log.topic for log in dirty] == ["t"]
        assert broker.logs.cleanable(1 << 50) == {}
        assert await told(broker, lambda c: alter(c, "flush.ms", None, broker="t", kind=2)) == (0, None)
        await comes_true("it is cleaned", lambda: broker.cleaner.last_report is not None)
