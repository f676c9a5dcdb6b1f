"""Settings of topics, brokers, users and client ids in the tree: read, and replaced with a word to every broker.

How a broker hears of them is in `config_changes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.config.topic import check_topic
from ottla.config.values import ConfigError
from ottla.controller.names import may_be_name
from ottla.controller.writes import Change, together, until_done
from ottla.coordination import znodes
from ottla.coordination.tree import ANY_VERSION, Check, Create, Operation, Set, Tree, get_or_none
from ottla.coordination.znodes import MalformedNode
from ottla.errors import InvalidConfig, InvalidRequest, KafkaError, UnknownTopicOrPartition
from ottla.slices import in_slices


class Entity(NamedTuple):
    """Who has settings of its own."""

    kind: str
    """topics, brokers, clients or users"""
    name: str


class Wanted(NamedTuple):
    """All settings that an entity is to have of its own."""

    entity: Entity
    config: Mapping[str, str]


async def get_config(tree: Tree, entity_type: str, entity_name: str) -> dict[str, str]:
    """An entity's own settings; empty if it has none. Raises MalformedNode."""
    path = znodes.config_path(entity_type, entity_name)
    node = await get_or_none(tree, path)
    return {} if node is None else znodes.decode_config(path, node.data)


async def get_configs(tree: Tree, entities: Sequence[Entity]) -> list[dict[str, str] | MalformedNode]:
    """The same of many entities, in order."""
    paths = [znodes.config_path(*entity) for entity in entities]
    configs: list[dict[str, str] | MalformedNode] = []
    async for path, node in in_slices(zip(paths, await tree.get_many(paths), strict=True)):
        try:
            configs.append({} if node is None else znodes.decode_config(path, node.data))
        except MalformedNode as error:
            configs.append(error)
    return configs


async def set_topic_config(tree: Tree, topic: str, config: Mapping[str, str]) -> None:
    """Replace a topic's own settings and tell every broker. Raises UnknownTopicOrPartition, InvalidConfig."""
    await _check_topic(tree, topic)
    check_topic_config(config)
    await set_config(tree, "topics", topic, config)


async def _check_topic(tree: Tree, topic: str) -> None:
    if not may_be_name(topic) or await tree.exists(znodes.topic_path(topic)) is None:
        raise UnknownTopicOrPartition(f"Topic '{topic}' does not exist.")


async def set_config(tree: Tree, entity_type: str, entity_name: str, config: Mapping[str, str]) -> None:
    """Replace an entity's own settings, whatever it is, and tell every broker.

    Brokers' settings that hold for all of them are those of the broker "<default>". Nothing is checked here.
    """
    operations = _operations(Wanted(Entity(entity_type, entity_name), config))
    await tree.ensure(znodes.config_path(entity_type, entity_name))
    await until_done(tree, operations)


async def set_configs(tree: Tree, wanted: Sequence[Wanted]) -> list[KafkaError | None]:
    """The same for many different entities: by entity None, or UnknownTopicOrPartition for a topic that is not there,
    or InvalidRequest for what is no name.
    """
    errors: dict[Entity, KafkaError | None] = {}
    changes: dict[Entity, Change] = {}
    async for each in in_slices(wanted):
        errors[each.entity] = None
        try:
            changes[each.entity] = _change(tree, each)
        except KafkaError as error:
            errors[each.entity] = error
    await tree.ensure(*(znodes.config_path(*entity) for entity in changes))
    errors.update(zip(changes, await together(tree, list(changes.values())), strict=True))
    return list(errors.values())


def _change(tree: Tree, wanted: Wanted) -> Change:
    (kind, name), config = wanted
    operations = _operations(wanted)

    async def alone(_: bool) -> None:
        if kind == "topics":
            await _check_topic(tree, name)
        await set_config(tree, kind, name, config)

    if kind == "topics":
        operations.insert(0, Check(znodes.topic_path(name), ANY_VERSION))
    return Change(operations, alone)


def _operations(wanted: Wanted) -> list[Operation]:
    """New settings, and the word to every broker. After a lost answer brokers may be told twice."""
    (kind, name), config = wanted
    if not name or "/" in name.replace("/clients/", ""):
        raise InvalidRequest(f"no name of one of the {kind}: {name!r}")
    return [Set(znodes.config_path(kind, name), znodes.encode_config(config)), _notification(kind, name)]


async def notify_config_change(tree: Tree, entity_type: str, entity_name: str) -> None:
    """Let every broker read an entity's settings again. After a lost answer they may be told twice."""
    await until_done(tree, [_notification(entity_type, entity_name)])


def _notification(entity_type: str, entity_name: str) -> Operation:
    change = znodes.encode_config_change(f"{entity_type}/{entity_name}")
    return Create(znodes.CONFIG_CHANGE_PREFIX, change, sequential=True)


def check_topic_config(config: Mapping[str, str]) -> None:
    """Raises InvalidConfig unless a topic may have these settings."""
    try:
        check_topic(config)
    except ConfigError as error:
        raise InvalidConfig(str(error)) from error
