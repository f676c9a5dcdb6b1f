"""AlterClientQuotas: sets and removes quotas (KIP-546)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Float64, Int16, Int32, Message, V


class EntityData(Message):
    entity_type: str = ""
    entity_name: Annotated[str | None, V(nullable="0+")] = ""


class OpData(Message):
    key: str = ""
    value: Float64 = 0.0
    remove: bool = False


class EntryData(Message):
    entity: list[EntityData] = []
    ops: list[OpData] = []


class AlterClientQuotasRequest(Message):
    entries: list[EntryData] = []
    validate_only: bool = False


class EntryDataResult(Message):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    entity: list[EntityData] = []


class AlterClientQuotasResponse(Message):
    throttle_time_ms: Int32 = 0
    entries: list[EntryDataResult] = []


ALTER_CLIENT_QUOTAS = Api(
    49,
    "AlterClientQuotas",
    "0",
    flexible=1,
    request=AlterClientQuotasRequest,
    response=AlterClientQuotasResponse,
    items_max=FEW_ITEMS_MAX,
    needs="ALTER_CONFIGS on CLUSTER",
)
