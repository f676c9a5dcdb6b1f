"""UpdateMetadata (key 6): the controller tells a broker who is alive and who leads what. Between brokers only."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.between import PARTITIONS_MAX, check_replicas, is_partition
from ottla.broker.metadata_cache import BrokerMetadata, Update
from ottla.errors import RemoteProtocolError, StaleBrokerEpoch, StaleControllerEpoch
from ottla.kafka import PROTOCOLS, TopicPartition
from ottla.slices import Slices
from ottla.wire.k06_update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import ControlRooms

    UpdateMetadata: TypeAlias = "Call[UpdateMetadataRequest, UpdateMetadataResponse]"

#: Since this version listeners have names.
LISTENER_NAMES_SINCE = 3
#: More brokers, and listeners of one, than any cluster has. Answers name all of them in one go.
BROKERS_MAX, LISTENERS_MAX = 10_000, 100
PROTOCOL_NAMES = {number: name for name, number in PROTOCOLS.items()}


async def handle(call: UpdateMetadata, rooms: ControlRooms) -> None:
    version = call.version
    asked = call.message
    answer = UpdateMetadataResponse()
    await rooms.look_for_controller(asked.controller_epoch)
    if rooms.is_stale(asked.broker_epoch):
        answer.error_code = StaleBrokerEpoch.code
    elif not rooms.accept_controller(asked.controller_id, asked.controller_epoch):
        answer.error_code = StaleControllerEpoch.code
    else:
        slices = call.slices()
        deleted = await _apply(rooms, version, asked, slices)
        if deleted:
            await rooms.groups.removal.partitions_deleted(deleted, slices)
            call.leave([deleted])
    call.reply(answer)


async def _apply(
    rooms: ControlRooms, version: int, asked: UpdateMetadataRequest, slices: Slices
) -> list[TopicPartition]:
    """Returns the partitions that are gone. Rows of partitions that cannot be are left out; the answer has no place to
    say so.
    """
    if len(asked.live_brokers) > BROKERS_MAX:
        raise RemoteProtocolError(f"{len(asked.live_brokers)} brokers are more than {BROKERS_MAX}")
    if max(len(asked.ungrouped_partition_states), len(asked.topic_states)) > PARTITIONS_MAX:
        raise RemoteProtocolError(f"more than {PARTITIONS_MAX} partitions or topics are told of at once")
    async with rooms.metadata.updating:
        update = Update(rooms.metadata)
        for row in asked.live_brokers:
            await slices.row()
            update.add_broker(await _broker(version, row, slices), row.away_ms)
        for state in asked.ungrouped_partition_states:
            await slices.row()
            check_replicas(state.isr, state.replicas, state.offline_replicas)
            if is_partition(rooms, state.topic_name, state.partition_index):
                update.add(state.topic_name, state)
        for topic in asked.topic_states:
            await slices.row()
            for state in topic.partition_states:
                await slices.row()
                check_replicas(state.isr, state.replicas, state.offline_replicas)
                if is_partition(rooms, topic.topic_name, state.partition_index):
                    update.add(topic.topic_name, state)
        await update.apply(asked.controller_id, slices)
        return update.deleted


async def _broker(version: int, row: UpdateMetadataBroker, slices: Slices) -> BrokerMetadata:
    """One that is alive, or away. Before version 3 its listeners have no names, and are called as their protocols."""
    if version == 0:
        return BrokerMetadata(row.id, row.rack, {PROTOCOL_NAMES[0]: (row.v0_host, row.v0_port)})
    if len(row.endpoints) > LISTENERS_MAX:
        raise RemoteProtocolError(f"{len(row.endpoints)} listeners of one broker are more than {LISTENERS_MAX}")
    endpoints, protocols = {}, {}
    for endpoint in row.endpoints:
        await slices.row()
        name = endpoint.listener if version >= LISTENER_NAMES_SINCE else _protocol(endpoint)
        endpoints[name] = (endpoint.host, endpoint.port)
        if endpoint.security_protocol:
            protocols[name] = PROTOCOL_NAMES.get(endpoint.security_protocol, name)
    return BrokerMetadata(row.id, row.rack, endpoints, protocols)


def _protocol(endpoint: UpdateMetadataEndpoint) -> str:
    name = PROTOCOL_NAMES.get(endpoint.security_protocol)
    if name is None:
        raise RemoteProtocolError(f"there is no security protocol with the number {endpoint.security_protocol}")
    return name
