"""AlterClientQuotas (key 49): sets and removes quotas of users and client ids (KIP-546). Each broker takes them when it
hears of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.broker.quotas.entities import CLIENT_ID, USER, path_of, problem_of
from ottla.broker.quotas.limits import ABSENT, Entity, Quota
from ottla.controller import configs
from ottla.controller.writes import pieces_of
from ottla.coordination.znodes import MalformedNode
from ottla.errors import InvalidConfig, InvalidRequest, KafkaError
from ottla.slices import Slices
from ottla.wire.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    EntryDataResult,
    OpData,
)

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    AlterClientQuotas: TypeAlias = "Call[AlterClientQuotasRequest, AlterClientQuotasResponse]"

#: Bytes per second are whole numbers in the coordination tree, as Kafka reads them.
WHOLE: Final = frozenset({Quota.PRODUCE.value, Quota.FETCH.value})
KEYS: Final = frozenset(kind.value for kind in Quota)
TOLERANCE: Final = 1e-6
ENTITY_TYPES: Final = len((USER, CLIENT_ID))


async def handle(call: AlterClientQuotas, rooms: AdminRooms) -> None:
    asked = call.message
    response = AlterClientQuotasResponse()
    for entries in pieces_of(await _distinct(asked.entries)):
        response.entries += await _alter(rooms, entries, asked.validate_only)
    call.reply(response)


async def _distinct(entries: list[EntryData]) -> list[EntryData]:
    """As Kafka's maps have them: an entity that is named twice is changed as its last entry says, and an entity of two
    users is the second one.
    """
    result: dict[object, EntryData] = {}
    slices = Slices()
    for entry in entries:
        await slices.row()
        parts: dict[str, EntityData] = {}
        for part in entry.entity:
            await slices.row()
            parts[part.entity_type] = part
        if len(parts) > ENTITY_TYPES:
            # It is refused, whatever others say.
            result[id(entry)] = entry
            continue
        names = frozenset((part.entity_type, part.entity_name) for part in parts.values())
        result[names] = EntryData(list(parts.values()), entry.ops)
    return list(result.values())


async def _alter(rooms: AdminRooms, entries: Sequence[EntryData], validate_only: bool) -> list[EntryDataResult]:
    results = [EntryDataResult(error_message=None, entity=entry.entity) for entry in entries]
    entities: dict[int, configs.Entity] = {}
    wanted: dict[int, configs.Wanted] = {}
    slices = Slices()
    for at, entry in enumerate(entries):
        await slices.row()
        with _told_in(results[at]):
            entities[at] = configs.Entity(*path_of(_entity(entry)))
    stored = await configs.get_configs(rooms.tree, list(entities.values()))
    for (at, entity), config in zip(entities.items(), stored, strict=True):
        await slices.row()
        with _told_in(results[at]):
            wanted[at] = configs.Wanted(entity, _altered(config, entries[at].ops))
    if not validate_only:
        for at, error in zip(wanted, await configs.set_configs(rooms.tree, list(wanted.values())), strict=True):
            if error is not None:
                results[at].error_code, results[at].error_message = error.code, str(error)
    return results


@contextmanager
def _told_in(result: EntryDataResult) -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        result.error_code, result.error_message = error.code, str(error)


def _altered(config: dict[str, str] | MalformedNode, operations: list[OpData]) -> dict[str, str]:
    if isinstance(config, MalformedNode):
        raise InvalidConfig(str(config)) from config
    for operation in operations:
        if operation.remove:
            config.pop(operation.key, None)
        else:
            config[operation.key] = _text(operation)
    return config


def _entity(entry: EntryData) -> Entity:
    named: dict[str, str | None] = {}
    for part in entry.entity:
        if part.entity_type not in (USER, CLIENT_ID):
            raise InvalidRequest(f"Unhandled client quota entity type: {part.entity_type!r} is not supported.")
        if part.entity_name == "":
            raise InvalidRequest(f"Empty {part.entity_type} not supported: leave the name null for the default.")
        named[part.entity_type] = part.entity_name
    return Entity(named.get(USER, ABSENT), named.get(CLIENT_ID, ABSENT))


def _text(operation: OpData) -> str:
    key, value = operation.key, operation.value
    if key not in KEYS:
        raise InvalidRequest(f"Invalid configuration key {key}: it is one of {', '.join(sorted(KEYS))}.")
    if (problem := problem_of(value)) is not None:
        raise InvalidRequest(f"{key}={value} {problem}.")
    if key not in WHOLE:
        return repr(value)
    whole = int(value + TOLERANCE)
    if abs(whole - value) > TOLERANCE:
        raise InvalidRequest(f"Configuration {key} must be a Long value, not {value}.")
    return str(whole)
