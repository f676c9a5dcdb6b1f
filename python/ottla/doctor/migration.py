"""Checks that Ottla's brokers can take the places of a cluster's brokers one by one, on the same directories and tree.

A cluster of Kafka 2.6 or 2.7 can, and one of a later release in ZooKeeper mode that never ran a newer protocol than
2.7. What such a protocol leaves behind cannot be taken back: topic ids, finalized features, fields of partitions'
states that 2.7 does not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from ottla.broker.zookeeper_access import Access
from ottla.client.security import MECHANISMS
from ottla.config import ConfigError
from ottla.config.broker import Source
from ottla.config.effective import EFFECTIVE
from ottla.config.names import base_setting
from ottla.config.protocol import InterBrokerProtocol
from ottla.config.security import OF_AUTHORIZER, REFUSED, base_name, inert_because, refusal
from ottla.config.topic import check_topic
from ottla.config.values import UnknownSetting, check, parse
from ottla.coordination import znodes
from ottla.coordination.tree import LoginRefused, NoNode, NotAllowed, Tree, Unavailable, children_or_none, get_or_none
from ottla.coordination.znodes import BrokerRegistration, MalformedNode
from ottla.coordination.zookeeper import ZooKeeperTree
from ottla.doctor.brokers import Cluster, Refused, named
from ottla.doctor.findings import Report, some
from ottla.errors import counted
from ottla.kafka import BROKER_RESOURCE
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR
from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource

BROKERS, TREE = "migration: brokers", "migration: tree"
PROTOCOL: Final = "inter.broker.protocol.version"
#: Nodes that are read in one piece.
NODES_AT_ONCE: Final = 500
#: The fields that 2.7 has in /brokers/topics/T and in a partition's state.
TOPIC_FIELDS: Final = frozenset({"version", "partitions", "adding_replicas", "removing_replicas"})
STATE_FIELDS: Final = frozenset({"version", "leader", "leader_epoch", "isr", "controller_epoch"})
#: Settings of tiered storage (KIP-405), which no release of 2.x has.
TIERED: Final = frozenset({"remote.log.storage.system.enable", "remote.storage.enable"})
MECHANISMS_SETTING: Final = "sasl.enabled.mechanisms"
SERVED: Final = (*MECHANISMS, "OAUTHBEARER")
#: The settings of a running broker's own place in the cluster: the new broker has its own.
OWN: Final = frozenset({"listeners", "advertised.listeners", "broker.id", "log.dirs", "log.dir", "zookeeper.connect"})
#: Sources of a setting that somebody has set, by their numbers on the wire.
SET_BY_HAND: Final = frozenset({Source.DYNAMIC_BROKER, Source.DYNAMIC_DEFAULT, Source.STATIC})

NEWER = (
    "the cluster ran a newer protocol than 2.7, which cannot be taken back: copy its topics to a new cluster with "
    "`ottla mirror`"
)


async def check_brokers(report: Report, cluster: Cluster) -> None:
    """Checks the brokers by what they say of themselves. Raises OSError, Refused."""
    before = len(report.findings)
    problem, warning = partial(report.problem, BROKERS), partial(report.warning, BROKERS)
    for broker, connection in cluster.connections.items():
        if LEADER_AND_ISR.key not in (connection.protocol.versions or {}):
            problem(
                f"broker {broker} takes no LeaderAndIsr: the cluster is in KRaft mode",
                "there is no ZooKeeper in which a broker of Ottla could join it: copy its topics to a new cluster with "
                "`ottla mirror`",
            )
            continue
        settings = await _settings(cluster, broker)
        _protocol(f"broker {broker}", settings.get(PROTOCOL), problem)
        for found, todo in _refused(settings):
            problem(f"broker {broker}: {found}", todo)
        without_effect = sorted(name for name in settings if _is_without_effect(name))
        if without_effect:
            warning(
                f"broker {broker}: without effect in Ottla: {some(without_effect)}",
                "see docs/settings.md whether you need what they do",
            )
    if len(report.findings) == before:
        report.ok(BROKERS, "their protocol and their settings are ones that Ottla has")


async def _settings(cluster: Cluster, broker: int) -> dict[str, str | None]:
    """The settings that somebody has made for the broker, and its protocol in any case."""
    resource = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name=str(broker))
    answer = await cluster.ask(broker, DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=[resource]))
    (row,) = answer.results
    if row.error_code:
        raise Refused(f"the settings of broker {broker}: {row.error_message or named(row.error_code)}")
    return {
        each.name: each.value
        for each in row.configs
        if each.name not in OWN and (each.name == PROTOCOL or each.config_source in SET_BY_HAND)
    }


def _protocol(who: str, version: str | None, problem: Callable[[str, str], None]) -> None:
    try:
        protocol = InterBrokerProtocol.named(version)
    except (AssertionError, ValueError):
        problem(
            f"{who}: {PROTOCOL}={version}, and Ottla speaks 2.6 to 2.7",
            f"with {PROTOCOL}=2.7 from its first start on, it could join. " + NEWER,
        )
        return
    if protocol.is_older_than_spoken:
        problem(
            f"{who}: {PROTOCOL}={version}, and Ottla speaks 2.6 to 2.7",
            f"upgrade the cluster to Kafka 2.6 or 2.7 and set {PROTOCOL} to that, as Kafka's upgrade notes say",
        )


def _refused(settings: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    for name, value in sorted(settings.items()):
        if name in TIERED and value == "true":
            yield f"{name}=true: Ottla has no tiered storage", "bring the segments back, and turn it off"
        elif base_name(name) == MECHANISMS_SETTING and (others := _other_mechanisms(value)):
            yield f"{name}={value}: Ottla has no {', '.join(others)}", f"move their clients to {', '.join(SERVED)}"
        elif base_name(name) in REFUSED:
            # The value of a password is not told; that there is one is enough.
            if (error := refusal(name, "set" if value is None else value, ())) is not None:
                yield str(error).partition(";")[0], "take it away, or keep Kafka until Ottla has it"
        elif (setting := base_setting(name)) is not None and value is not None:
            try:
                check(name, parse(name, setting.type, value), setting.valid)
            except ConfigError as error:
                yield str(error), "give it a value that Ottla takes"


def _other_mechanisms(value: str | None) -> list[str]:
    return [each for each in re.split(r"\s*,\s*", (value or "").strip()) if each and each not in SERVED]


def _is_without_effect(name: str) -> bool:
    if name in TIERED or base_name(name) in {*REFUSED, *OF_AUTHORIZER} or name == PROTOCOL:
        return False
    setting = base_setting(name)
    return setting is None or setting.name not in EFFECTIVE or inert_because(name) is not None


async def check_tree(report: Report, zookeeper: str, timeout_s: float, access: Access | None = None) -> None:
    """Checks the contents of ZooKeeper, `HOST:PORT,HOST:PORT/chroot`. Without `access` the doctor is nobody there."""
    way = {} if access is None else access._asdict()
    try:
        tree = await ZooKeeperTree.connect(
            zookeeper, connect_timeout_ms=int(timeout_s * 1000), create_chroot=False, **way
        )
    except LoginRefused as error:
        report.problem(TREE, str(error), "give the doctor the brokers' user and password for ZooKeeper")
        return
    except (NoNode, Unavailable) as error:
        report.problem(TREE, str(error), "name the servers and the chroot of the brokers' zookeeper.connect")
        return
    async with tree:
        found = [*await _of_cluster(tree), *await _of_topics(tree), *await _of_security(tree), *await _under_way(tree)]
    for is_problem, what, todo in found:
        (report.problem if is_problem else report.warning)(TREE, what, todo)
    if not found:
        report.ok(TREE, "nothing in it that Kafka 2.7 would not have written")


_Found = list[tuple[bool, str, str]]


async def _of_cluster(tree: Tree) -> _Found:
    found: _Found = []
    feature = await get_or_none(tree, znodes.FEATURE)
    if feature is not None and (features := _fields(feature.data).get("features")):
        found.append((True, f"finalized features in {znodes.FEATURE}: {some(sorted(features))}", NEWER))
    controller = await get_or_none(tree, znodes.CONTROLLER)
    in_kraft = controller is not None and _fields(controller.data).get("kraftControllerEpoch", -1) not in (-1, None)
    if in_kraft or await get_or_none(tree, "/migration") is not None:
        found.append((True, "the cluster is on its way to KRaft mode", "finish that, or take it back first"))
    for name in await children_or_none(tree, znodes.BROKER_IDS) or []:
        node = await get_or_none(tree, f"{znodes.BROKER_IDS}/{name}")
        if node is None:
            continue
        try:
            BrokerRegistration.decode(name, node.data)
        except MalformedNode as error:
            found.append((True, str(error), "no broker understands it; look at who writes it"))
    return found


async def _of_topics(tree: Tree) -> _Found:
    topics = await children_or_none(tree, znodes.TOPICS) or []
    with_id, with_more, malformed, unknown = [], [], [], []
    tiered: list[str] = []
    refused: dict[str, str] = {}
    for start in range(0, len(topics), NODES_AT_ONCE):
        some_topics = topics[start : start + NODES_AT_ONCE]
        nodes = await tree.get_many([znodes.topic_path(topic) for topic in some_topics])
        states: list[str] = []
        for topic, node in zip(some_topics, nodes, strict=True):
            fields = {} if node is None else _fields(node.data)
            if node is not None and "partitions" not in fields:
                malformed.append(topic)
            if "topic_id" in fields:
                with_id.append(topic)
            states += [znodes.state_path(topic, int(index)) for index in fields.get("partitions", {})]
        for first in range(0, len(states), NODES_AT_ONCE):
            paths = states[first : first + NODES_AT_ONCE]
            for path, node in zip(paths, await tree.get_many(paths), strict=True):
                if node is not None and _fields(node.data).keys() - STATE_FIELDS:
                    with_more.append(path)
        configs = await tree.get_many([znodes.config_path("topics", topic) for topic in some_topics])
        for topic, node in zip(some_topics, configs, strict=True):
            settings = {} if node is None else dict(_fields(node.data).get("config") or {})
            if settings.pop("remote.storage.enable", "false") == "true":
                tiered.append(topic)
            for name, value in settings.items():
                try:
                    check_topic({name: value})
                except UnknownSetting:
                    unknown.append(f"{name} of {topic}")
                except ConfigError as error:
                    refused[topic] = str(error)
    found: _Found = []
    if with_id:
        found.append((True, f"topics with ids: {some(with_id)}", NEWER))
    if with_more:
        found.append((True, f"states of partitions with fields that 2.7 does not have: {some(with_more)}", NEWER))
    if malformed:
        found.append((True, f"nodes of topics that nobody understands: {some(malformed)}", "delete them, or mend them"))
    if tiered:
        found.append((True, f"tiered storage: {some(tiered)}", "bring the segments back, and turn it off"))
    found += [(True, f"topic {topic}: {error}", "give it a value that Ottla takes") for topic, error in refused.items()]
    if unknown:
        found.append((False, f"settings that Ottla does not know: {some(unknown)}", "they have no effect in Ottla"))
    return found


async def _of_security(tree: ZooKeeperTree) -> _Found:
    found: _Found = []
    guarded = await tree.guarded([znodes.CONTROLLER_EPOCH, znodes.CLUSTER_ID, *znodes.PERSISTENT_PATHS])
    for path, owners in list(guarded.items())[:1]:
        found.append(
            (
                True,
                f"{path} may be changed by {owners} only, and so {len(guarded) - 1} other nodes",
                "Ottla's brokers have to be that user (zookeeper.sasl.jaas.config) or have that certificate "
                "(zookeeper.ssl.keystore.location); give it to the doctor, too, with --zookeeper-config",
            )
        )
    acls = [
        f"{kind}:{name}"
        for kind in await children_or_none(tree, "/kafka-acl") or []
        for name in await children_or_none(tree, f"/kafka-acl/{kind}") or []
    ]
    if acls:
        found.append(
            (False, f"access rules for {some(acls)}", "they hold in Ottla if authorizer.class.name is set there, too")
        )
    tokens: list[str] | None = []
    with suppress(NotAllowed):  # who may read it is told above
        tokens = await children_or_none(tree, "/delegation_token/tokens")
    if tokens:
        found.append((True, counted(len(tokens), "delegation token"), "Ottla takes none: let clients log in otherwise"))
    return found


async def _under_way(tree: Tree) -> _Found:
    found: _Found = []
    if deleting := await children_or_none(tree, znodes.DELETE_TOPICS):
        found.append((False, f"topics are being deleted: {some(deleting)}", "wait for that, or start their brokers"))
    if await get_or_none(tree, znodes.REASSIGN_PARTITIONS) is not None:
        found.append((False, "partitions are being moved (/admin/reassign_partitions)", "wait for that"))
    return found


def _fields(data: bytes) -> dict[str, Any]:
    """A node's JSON; nothing if it is none."""
    try:
        fields = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return {}
    return fields if isinstance(fields, dict) else {}
