"""DescribeConfigs (key 32): every setting of a topic or of this broker, with its source.

Version 1: sources and synonyms (KIP-226). 3: types and documentation (KIP-569).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker import loggers
from ottla.broker.freeing import Freed
from ottla.broker.resources import own_broker, resource_of
from ottla.config import Source, TopicConfig
from ottla.config.describe import Described, describe_broker, describe_default_broker, describe_topic
from ottla.controller.names import check_name
from ottla.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition
from ottla.kafka import BROKER_LOGGER_RESOURCE, BROKER_RESOURCE, TOPIC_RESOURCE
from ottla.slices import Slices
from ottla.wire.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ottla.wire.needs import Operation

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    DescribeConfigs: TypeAlias = "Call[DescribeConfigsRequest, DescribeConfigsResponse]"

#: Lengths and numbers of a row.
ROW_BYTES = 16
#: The memory that a resource takes, as a multiple of its size in an answer.
ROW_OBJECTS = 2
#: A resource with more names of settings is described each time that it is named: there is no such number of settings.
REMEMBERED_MAX = 1_000


async def handle(call: DescribeConfigs, rooms: AdminRooms) -> None:
    version = call.version
    asked = call.message
    results = []
    rights = call.rights
    memory, slices, mine = call.memory, Slices(), Freed()
    # A resource that is named twice is described twice, as in Kafka, and looked up once.
    known: dict[tuple[int, str, tuple[str, ...] | None], tuple[DescribeConfigsResult, int]] = mine.add({})
    for resource in asked.resources:
        asked_keys = resource.configuration_keys
        is_remembered = asked_keys is None or len(asked_keys) <= REMEMBERED_MAX
        keys = tuple(asked_keys) if asked_keys is not None and is_remembered else None
        key = (resource.resource_type, resource.resource_name, keys)
        names: set[str] = mine.add(set()) if not is_remembered else set()
        for name in asked_keys or ():
            await slices.row()
            names.add(name)
        is_new = not is_remembered or key not in known
        if is_new:
            result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
            try:
                if rights is not None:
                    rights.check(Operation.DESCRIBE_CONFIGS, *resource_of(resource))
                entries = await _describe(rooms, resource, names or None)
                result.configs = [_entry(version, entry, asked) for entry in entries]
            except KafkaError as error:
                result.error_code, result.error_message = error.code, str(error)
            size_bytes = _size_bytes(result)
            if is_remembered:
                known[key] = (result, size_bytes)
        else:
            result, size_bytes = known[key]
        await memory.add(size_bytes, ROW_OBJECTS * size_bytes if is_new else 0)
        results.append(result)
        await slices.row()
    call.reply(DescribeConfigsResponse(results=results))


async def _describe(
    rooms: AdminRooms, resource: DescribeConfigsResource, names: Collection[str] | None
) -> Iterable[Described]:
    """`names`: the settings that are asked for, None for all."""
    if resource.resource_type == TOPIC_RESOURCE:
        check_name(resource.resource_name)
        if resource.resource_name not in rooms.metadata.topics:
            raise UnknownTopicOrPartition(f"There is no topic {resource.resource_name}.")
        overrides = await rooms.admin.topic_overrides(resource.resource_name)
        return describe_topic(rooms.config, TopicConfig.as_stored(rooms.config, overrides), names)
    if resource.resource_type == BROKER_RESOURCE:
        if own_broker(rooms.id, resource.resource_name):
            return describe_broker(rooms.config, names)
        return describe_default_broker(rooms.config, names)
    if resource.resource_type == BROKER_LOGGER_RESOURCE:
        if not own_broker(rooms.id, resource.resource_name):
            raise InvalidRequest("Broker id must not be empty")
        return [
            Described(name, level, Source.LOGGER, [], None, None, False, False)
            for name, level in loggers.levels().items()
            if names is None or name in names
        ]
    raise InvalidRequest(
        f"Resource type {resource.resource_type} has no settings here; topics are {TOPIC_RESOURCE}, "
        f"brokers {BROKER_RESOURCE}."
    )


def _size_bytes(result: DescribeConfigsResult) -> int:
    """About what a resource takes in an answer."""
    return ROW_BYTES + sum(
        ROW_BYTES
        + len(entry.name)
        + len(entry.value or "")
        + len(entry.documentation or "")
        + sum(ROW_BYTES + len(synonym.name) + len(synonym.value or "") for synonym in entry.synonyms)
        for entry in result.configs
    )


def _entry(version: int, entry: Described, asked: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        is_default=version == 0 and entry.source is Source.DEFAULT,
        config_source=entry.source.value,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source.value) for s in entry.synonyms]
        if asked.include_synonyms
        else [],
        config_type=entry.type.value if entry.type else 0,
        documentation=entry.documentation if asked.include_documentation else None,
    )
