"""DescribeClientQuotas: the quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Float64, Int8, Int16, Int32, Message, V


class ComponentData(Message):
    entity_type: str = ""
    match_type: Int8 = 0
    """0 this name, 1 the default, 2 any name."""
    match: Annotated[str | None, V(nullable="0+")] = ""


class DescribeClientQuotasRequest(Message):
    components: list[ComponentData] = []
    strict: bool = False


class EntityData(Message):
    entity_type: str = ""
    entity_name: Annotated[str | None, V(nullable="0+")] = ""


class ValueData(Message):
    key: str = ""
    value: Float64 = 0.0


class EntryData(Message):
    entity: list[EntityData] = []
    values: list[ValueData] = []


class DescribeClientQuotasResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    entries: Annotated[list[EntryData] | None, V(nullable="0+")] = []


DESCRIBE_CLIENT_QUOTAS = Api(
    48,
    "DescribeClientQuotas",
    "0",
    flexible=1,
    request=DescribeClientQuotasRequest,
    response=DescribeClientQuotasResponse,
    items_max=FEW_ITEMS_MAX,
    needs="DESCRIBE_CONFIGS on CLUSTER",
)
