"""AlterIsr (key 56): a leader tells the controller the in-sync replicas that its partitions are to have (KIP-497).
Between brokers only. Only the controller does it, and answers with the state that holds then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.controller.decisions import IsrChange
from ottla.errors import KafkaError
from ottla.kafka import TopicPartition
from ottla.wire.k56_alter_isr import AlterIsrRequest, AlterIsrResponse, AlterIsrResponsePartition, AlterIsrResponseTopic

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    AlterIsr: TypeAlias = "Call[AlterIsrRequest, AlterIsrResponse]"


async def handle(call: AlterIsr, rooms: AdminRooms) -> None:
    asked = call.message
    slices = call.slices()
    # Of a partition that is named twice the last row counts, as in Kafka.
    changes: dict[TopicPartition, IsrChange] = {}
    for topic in asked.topics:
        await slices.row()
        for row in topic.partitions:
            await slices.row()
            name = TopicPartition(topic.name, row.partition_index)
            changes[name] = IsrChange(row.leader_epoch, tuple(row.new_isr), row.current_isr_version)
    answer = AlterIsrResponse()
    try:
        results = await rooms.controller.alter_isr(asked.broker_id, asked.broker_epoch, changes)
    except KafkaError as refused:
        answer.error_code = refused.code
        call.reply(answer)
        return
    topics: dict[str, AlterIsrResponseTopic] = {}
    # Taken apart meanwhile: to free many at once would take the loop for long.
    while changes:
        await slices.row()
        name, _ = changes.popitem()
        result = results.pop(name)
        told = AlterIsrResponsePartition(partition_index=name.partition)
        if isinstance(result, KafkaError):
            told.error_code = result.code
        else:
            state, told.current_isr_version = result
            told.leader_id, told.leader_epoch, told.isr = state.leader, state.leader_epoch, list(state.isr)
        topics.setdefault(name.topic, AlterIsrResponseTopic(name=name.topic)).partitions.append(told)
    answer.topics = list(topics.values())
    call.reply(answer)
