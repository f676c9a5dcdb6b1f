"""DeleteTopics (key 20): deletes topics, and answers when this broker's own metadata has forgotten them.

Only the controller deletes, and it asks the tree about a topic that this broker has not heard of: for a moment after an
election that is one that is led here already, and "unknown" would tell its owner that it is gone. (Kafka 2.7 asks its
metadata alone.) Version 3: TOPIC_DELETION_DISABLED has a code of its own. 4: flexible. 5: error messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.controller.writes import pieces_of
from ottla.coordination import znodes
from ottla.errors import (
    InvalidRequest,
    KafkaError,
    NotController,
    RequestTimedOut,
    TopicDeletionDisabled,
    UnknownTopicOrPartition,
)
from ottla.slices import Slices
from ottla.wire.k20_delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    DeleteTopics: TypeAlias = "Call[DeleteTopicsRequest, DeleteTopicsResponse]"

THROTTLING_ERRORS_SINCE = 5


async def handle(call: DeleteTopics, rooms: AdminRooms) -> None:
    version = call.version
    asked = call.message
    if not rooms.metadata.is_known:
        await rooms.metadata.known()  # a topic that we have not heard of yet is not unknown
    in_tree: set[str] | None = None
    deleted: list[str] = []
    mutations = call.mutations(THROTTLING_ERRORS_SINCE)
    rights, slices = call.rights, Slices()
    results: dict[str, DeletableTopicResult] = {}
    for names in pieces_of(asked.topic_names):
        marked: list[str] = []
        for name in names:
            await slices.row()
            if name in results:
                continue
            result = results[name] = DeletableTopicResult(name=name)
            try:
                if not rooms.controller.is_active:
                    raise NotController
                if not rooms.config.get_bool("delete.topic.enable"):
                    raise (TopicDeletionDisabled if version >= 3 else InvalidRequest)("delete.topic.enable is false")
                if rights is not None:
                    rights.check(Operation.DELETE, Resource.TOPIC, name)
                if name not in rooms.metadata.topics:
                    if in_tree is None:
                        in_tree = set(await rooms.tree.children(znodes.TOPICS))
                    if name not in in_tree:
                        raise UnknownTopicOrPartition(f"There is no topic {name}.")
                mutations.take(len(rooms.metadata.topics.get(name, ())))
                marked.append(name)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, str(error)
        for name, refused in (await rooms.admin.delete_topics(marked)).items():
            await slices.row()
            if refused is None:
                deleted.append(name)
            else:
                results[name].error_code, results[name].error_message = refused.code, str(refused)
    there = set(deleted)
    if deleted:
        with rooms.metadata.patience(max(asked.timeout_ms, 0) / 1000):
            await rooms.metadata.wait_for_each(lambda name: name not in rooms.metadata.topics, deleted)
            # Metadata forgets a topic before its name is free again: who makes it anew at once must not be refused.
            for name in deleted:
                await slices.row()
                await rooms.admin.until_name_is_free(name)
                there.discard(name)
        for name in there:
            results[name].error_code = RequestTimedOut.code
            results[name].error_message = "The topic is marked for deletion, but was not gone in time."
    mutations.settle()
    answer = DeleteTopicsResponse()
    for name in asked.topic_names:
        await slices.row()
        answer.responses.append(results[name])
    call.reply(answer)
