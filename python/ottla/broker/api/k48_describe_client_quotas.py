"""DescribeClientQuotas (key 48): the quotas of users and client ids (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.quotas.entities import CLIENT_ID, USER, all_entities, parts, values
from ottla.broker.quotas.limits import ABSENT, Entity
from ottla.errors import InvalidRequest, KafkaError, UnsupportedVersion
from ottla.slices import Slices
from ottla.wire.k48_describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    DescribeClientQuotas: TypeAlias = "Call[DescribeClientQuotasRequest, DescribeClientQuotasResponse]"


EXACT, IS_DEFAULT, ANY = range(3)


async def handle(call: DescribeClientQuotas, rooms: AdminRooms) -> None:
    asked = call.message
    response = DescribeClientQuotasResponse(error_message=None)
    try:
        filters = _filters(asked.components)
        response.entries = []
        slices = Slices()
        for entity, config in await all_entities(rooms.tree):
            await slices.row()
            quotas = [ValueData(key=kind.value, value=value) for kind, value in values(config)]
            if quotas and _matches(filters, entity, strict=asked.strict):
                named = [EntityData(entity_type=kind, entity_name=name) for kind, name in parts(entity)]
                response.entries.append(EntryData(entity=named, values=quotas))
    except KafkaError as error:
        response.error_code, response.error_message, response.entries = error.code, str(error), None
    call.reply(response)


def _filters(components: Iterable[ComponentData]) -> dict[str, ComponentData]:
    filters: dict[str, ComponentData] = {}
    for component in components:
        kind = component.entity_type
        if kind in filters:
            raise InvalidRequest(f"Duplicate {kind} filter component entity type: name it once.")
        if not kind:
            raise InvalidRequest("Unexpected empty filter component entity type.")
        if kind not in (USER, CLIENT_ID):
            raise UnsupportedVersion(f"Custom entity type '{kind}' not supported: it is {USER} or {CLIENT_ID}.")
        if component.match_type not in (EXACT, IS_DEFAULT, ANY):
            raise InvalidRequest(f"Unexpected match type {component.match_type}: it is 0, 1 or 2.")
        filters[kind] = component
    return filters


def _matches(filters: dict[str, ComponentData], entity: Entity, *, strict: bool) -> bool:
    return all(
        _part_matches(filters.get(kind), name, strict=strict)
        for kind, name in ((USER, entity.user), (CLIENT_ID, entity.client_id))
    )


def _part_matches(component: ComponentData | None, name: str | None, *, strict: bool) -> bool:
    if component is None:
        return name is ABSENT or not strict
    if name is ABSENT:
        return False
    if component.match_type == ANY:
        return True
    return name is None if component.match_type == IS_DEFAULT else name == component.match
