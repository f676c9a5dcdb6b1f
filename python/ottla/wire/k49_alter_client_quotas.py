"""AlterClientQuotas: sets and removes quotas (KIP-546)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Float64, Int16, Int32, Message, V


class EntityData(Message):
    """A part of an entity."""

    #: "user" or "client-id".
    entity_type: str = ""
    #: Null: the default, which holds where no name fits. "" is refused.
    entity_name: Annotated[str | None, V(nullable="0+")] = ""


class OpData(Message):
    """A change of one quota."""

    #: As in DescribeClientQuotas.
    key: str = ""
    #: As in DescribeClientQuotas. Byte rates have to be whole numbers.
    value: Float64 = 0.0
    #: True: the quota goes, whatever `value` is, and what is inherited holds.
    remove: bool = False


class EntryData(Message):
    """Changes for one entity."""

    #: As in DescribeClientQuotas.
    entity: list[EntityData] = []
    #: Made all together, or not at all.
    ops: list[OpData] = []


class AlterClientQuotasRequest(Message):
    """Changes of quotas."""

    #: Each by itself: one may be made and the next refused.
    entries: list[EntryData] = []
    #: True: everything is checked, and nothing changed.
    validate_only: bool = False


class EntryDataResult(Message):
    """The result for one entity."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    #: As in the request.
    entity: list[EntityData] = []


class AlterClientQuotasResponse(Message):
    """The results."""

    throttle_time_ms: Int32 = 0
    #: In any order.
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
