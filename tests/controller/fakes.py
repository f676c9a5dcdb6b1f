"""Brokers that only listen: real sockets, real frames, and a record of what the controller told them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import trio

from ottla.controller import Registration
from ottla.coordination.tree import Tree
from ottla.coordination.znodes import BrokerRegistration, Endpoint
from ottla.wire.headers import request_header_version
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR, LeaderAndIsrPartitionError, LeaderAndIsrResponse
from ottla.wire.k05_stop_replica import STOP_REPLICA, StopReplicaPartitionError, StopReplicaResponse
from ottla.wire.k06_update_metadata import UPDATE_METADATA, UpdateMetadataResponse
from tests.support.waiting import PATIENCE_S

APIS: dict[int, Any] = {api.key: api for api in (LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA)}


class Recorded(NamedTuple):
    """One request as it came: `frame` is everything after the size."""

    api: Any
    version: int
    client_id: str | None
    message: Any
    frame: bytes


class FakeBroker:
    """Answers the controller's three requests with success, or as `errors` says: (topic, partition) to error code."""

    def __init__(self, broker_id: int, rack: str | None = None, ottla: str | None = None) -> None:
        self.id = broker_id
        self.rack = rack
        self.ottla = ottla
        #: As a broker registers whose machine lost its power.
        self.is_unclean = False
        self.port = 0
        self.received: list[Recorded] = []
        self.errors: dict[tuple[str, int], int] = {}
        self.registration: Registration | None = None
        self.silent = False
        #: Connections that are there, and on which nothing was said.
        self.quiet = 0
        self._changed = trio.Event()
        self._scope = trio.CancelScope()

    async def serve(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Also again after `die`, at the same port unless that was set to 0."""
        listeners = await trio.open_tcp_listeners(self.port, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        task_status.started()
        with trio.CancelScope() as self._scope:
            await trio.serve_listeners(self._connection, listeners)

    def die(self) -> None:
        """Its machine closes its connections, and refuses others. Its session lives on."""
        self._scope.cancel()

    async def register(self, tree: Tree) -> int:
        self.registration = Registration(tree, self.id, self.describe)
        return await self.registration.register(wait_ms=1000)

    def describe(self) -> BrokerRegistration:
        here = Endpoint("PLAINTEXT", "127.0.0.1", self.port)
        return BrokerRegistration((here,), self.rack, timestamp_ms=1, ottla=self.ottla, is_unclean=self.is_unclean)

    async def _connection(self, stream: trio.SocketStream) -> None:
        self.quiet += 1
        try:
            data = await _received(stream)
        finally:
            self.quiet -= 1
        buffer = b""
        while data:
            buffer += data
            while len(buffer) >= 4 and len(buffer) >= 4 + (size := struct.unpack_from(">i", buffer)[0]):
                frame, buffer = buffer[4 : 4 + size], buffer[4 + size :]
                if struct.unpack_from(">h", frame)[0] not in APIS:
                    # A client of the cluster asks, or another broker: this one only listens to the controller.
                    await stream.aclose()
                    return
                await self._answer(stream, frame)
            data = await _received(stream)

    async def _answer(self, stream: trio.SocketStream, frame: bytes) -> None:
        key, version, correlation_id, client_id, message = decode(frame)
        while self.silent:
            await self._change()
        self.received.append(Recorded(APIS[key], version, client_id, message, frame))
        self._notify()
        body = APIS[key].encode_response(version, self._response(key, message))
        # Every version used here is flexible: tagged fields end the response header.
        await stream.send_all(struct.pack(">iib", len(body) + 5, correlation_id, 0) + body)

    def _response(self, key: int, message: Any) -> Any:
        if key == UPDATE_METADATA.key:
            return UpdateMetadataResponse()
        named = [
            (topic.topic_name, state.partition_index, self.errors.get((topic.topic_name, state.partition_index), 0))
            for topic in message.topic_states
            for state in topic.partition_states
        ]
        if key == LEADER_AND_ISR.key:
            return LeaderAndIsrResponse(partition_errors=[LeaderAndIsrPartitionError(*entry) for entry in named])
        return StopReplicaResponse(partition_errors=[StopReplicaPartitionError(*entry) for entry in named])

    def speak(self) -> None:
        """Answer again after `silent`."""
        self.silent = False
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _change(self) -> None:
        await self._changed.wait()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what was received makes `condition` true."""
        with trio.fail_after(PATIENCE_S):
            while not condition():
                await self._change()

    # What the broker would know now.

    def of(self, api: Any) -> list[Any]:
        return [recorded.message for recorded in self.received if recorded.api is api]

    def roles(self, topic: str) -> dict[int, Any]:
        """By partition, the newest LeaderAndIsr of a topic."""
        return {
            state.partition_index: state
            for message in self.of(LEADER_AND_ISR)
            for topic_state in message.topic_states
            if topic_state.topic_name == topic
            for state in topic_state.partition_states
        }

    def metadata(self, topic: str) -> dict[int, Any]:
        """By partition, the newest UpdateMetadata of a topic; without those that are being deleted."""
        known: dict[int, Any] = {}
        for message in self.of(UPDATE_METADATA):
            for topic_state in message.topic_states:
                if topic_state.topic_name == topic:
                    for state in topic_state.partition_states:
                        known[state.partition_index] = state
        return {partition: state for partition, state in known.items() if state.leader != -2}

    def live_brokers(self) -> list[int]:
        return sorted(broker for broker, away_ms in self.named_brokers().items() if not away_ms)

    def named_brokers(self) -> dict[int, int]:
        """For how many milliseconds each is away yet; 0: it lives."""
        messages = self.of(UPDATE_METADATA)
        return {broker.id: broker.away_ms for broker in messages[-1].live_brokers} if messages else {}

    def stopped(self, topic: str) -> dict[int, Any]:
        return {
            state.partition_index: state
            for message in self.of(STOP_REPLICA)
            for topic_state in message.topic_states
            if topic_state.topic_name == topic
            for state in topic_state.partition_states
        }


def decode(frame: bytes) -> tuple[int, int, int, str | None, Any]:
    """Key, version, correlation id, client id and message of a request with header version 2."""
    key, version, correlation_id, size = struct.unpack_from(">hhih", frame)
    client_id = None if size < 0 else frame[10 : 10 + size].decode()
    start = 10 + max(size, 0) + 1
    assert request_header_version(key, version) == 2
    return key, version, correlation_id, client_id, APIS[key].decode_request(version, frame, start)


async def _received(stream: trio.SocketStream) -> bytes:
    """Some bytes; none when the connection has ended."""
    try:
        return bytes(await stream.receive_some(65536))
    except trio.BrokenResourceError:
        return b""
