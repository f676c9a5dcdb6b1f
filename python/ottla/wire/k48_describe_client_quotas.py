"""DescribeClientQuotas: the quotas of users and client ids (KIP-546)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Float64, Int8, Int16, Int32, Message, V


class ComponentData(Message):
    """A filter for one part of entities."""

    #: "user" or "client-id"; each at most once. Kafka has "ip" later (KIP-612).
    entity_type: str = ""
    #: 0 this name, 1 the default, 2 any name.
    match_type: Int8 = 0
    #: The name if `match_type` is 0, or else null.
    match: Annotated[str | None, V(nullable="0+")] = ""


class DescribeClientQuotasRequest(Message):
    """A filter. An entity has to match in all parts."""

    #: Empty: all entities.
    components: list[ComponentData] = []
    #: True: only entities without other parts than `components` names.
    strict: bool = False


class EntityData(Message):
    """A part of an entity."""

    #: "user" or "client-id".
    entity_type: str = ""
    #: Null: the default, which holds where no name fits.
    entity_name: Annotated[str | None, V(nullable="0+")] = ""


class ValueData(Message):
    """A quota."""

    #: producer_byte_rate, consumer_byte_rate, request_percentage or controller_mutation_rate.
    key: str = ""
    #: Bytes a second, percent of one thread's time, or partitions made and deleted a second. Each broker counts for
    #: itself.
    value: Float64 = 0.0


class EntryData(Message):
    """An entity and its quotas."""

    #: A user, a client id, or both: then the quota is of that client id of that user.
    entity: list[EntityData] = []
    #: Its own quotas, not those that it inherits.
    values: list[ValueData] = []


class DescribeClientQuotasResponse(Message):
    """The quotas."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    #: Null after an error.
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
