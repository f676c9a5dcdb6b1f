"""Drives aiokafka: every command is one run of an event loop."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import ProducerFenced, for_code
from worker import HEARTBEAT_MS, SESSION_MS, Deadline, Record, Start, serve

SOURCES = {1: "DYNAMIC_TOPIC_CONFIG", 4: "STATIC_BROKER_CONFIG", 5: "DEFAULT_CONFIG"}


class Aiokafka:
    #: Members of a group share one loop, which runs while any of them is polled.
    runner: asyncio.Runner | None = None

    def version(self) -> str:
        return str(aiokafka.__version__)

    def produce(
        self, bootstrap: str, topic: str, records: list[Record], codec: str, acks: str, idempotent: bool
    ) -> list[int | None]:
        return asyncio.run(self._produce(bootstrap, topic, records, codec, acks, idempotent))

    async def _produce(
        self, bootstrap: str, topic: str, records: list[Record], codec: str, acks: str, idempotent: bool
    ) -> list[int | None]:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            linger_ms=20,
            max_batch_size=65536,
            max_request_size=1_048_588,
            retry_backoff_ms=20,
        )
        async with producer:
            futures = [
                await producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                    headers=list(record.headers),
                )
                for record in records
            ]
            await producer.flush()
            answers = await asyncio.gather(*futures)
        return [None if answer is None else answer.offset for answer in answers]

    def transact(self, bootstrap: str, topic: str, transactional_id: str, records: list[Record], size: int) -> bool:
        return asyncio.run(self._transact(bootstrap, topic, transactional_id, records, size))

    async def _transact(
        self, bootstrap: str, topic: str, transactional_id: str, records: list[Record], size: int
    ) -> bool:
        settings = {"bootstrap_servers": bootstrap, "transactional_id": transactional_id, "retry_backoff_ms": 20}
        older, newer = aiokafka.AIOKafkaProducer(**settings), aiokafka.AIOKafkaProducer(**settings)
        await older.start()
        await older.begin_transaction()
        await self._send(older, topic, records[:size])
        fenced = False
        async with newer:
            try:
                await older.commit_transaction()
            except ProducerFenced:
                fenced = True
            await older.stop()
            for start in range(size, len(records), size):
                await newer.begin_transaction()
                await self._send(newer, topic, records[start : start + size])
                if start // size % 3 == 2:
                    await newer.abort_transaction()
                else:
                    await newer.commit_transaction()
        return fenced

    async def _send(self, producer: Any, topic: str, records: list[Record]) -> None:
        futures = [
            await producer.send(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
                headers=list(record.headers),
            )
            for record in records
        ]
        await asyncio.gather(*futures)

    def consume(self, bootstrap: str, topic: str, partitions: int, start: Start) -> list[Record]:
        return asyncio.run(self._consume(bootstrap, topic, partitions, start))

    def _consumer(self, bootstrap: str, topic: str, partitions: int) -> tuple[Any, list[Any]]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=20,
            check_crcs=True,
        )
        places = [aiokafka.TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(places)
        return consumer, places

    async def _consume(self, bootstrap: str, topic: str, partitions: int, start: Start) -> list[Record]:
        consumer, places = self._consumer(bootstrap, topic, partitions)
        async with consumer:
            if start.kind == "earliest":
                await consumer.seek_to_beginning(*places)
                positions = await consumer.beginning_offsets(places)
            elif start.kind == "timestamp":
                found = await consumer.offsets_for_times(dict.fromkeys(places, start.value))
                positions = {place: found[place].offset for place in places}
            else:
                positions = dict.fromkeys(places, start.value)
            for place, offset in positions.items():
                if start.kind != "earliest":
                    consumer.seek(place, offset)
            return await self._read(consumer, await consumer.end_offsets(places), positions)

    async def _read(self, consumer: Any, ends: dict[Any, int], positions: dict[Any, int]) -> list[Record]:
        records: list[Record] = []
        deadline = Deadline("consume")
        left = {place for place, end in ends.items() if positions[place] < end}
        while left:
            for place, messages in (await consumer.getmany(timeout_ms=100)).items():
                records += [
                    Record(place.partition, m.offset, m.timestamp, m.key, m.value, tuple(m.headers)) for m in messages
                ]
                if messages and messages[-1].offset + 1 >= ends[place]:
                    left.discard(place)
            deadline.check(f"{len(records)} records, {len(left)} partitions left")
        return records

    def latest(self, bootstrap: str, topic: str, partitions: int, records: list[Record]) -> list[Record]:
        async def run() -> list[Record]:
            consumer, places = self._consumer(bootstrap, topic, partitions)
            async with consumer:
                await consumer.seek_to_end(*places)
                positions = {place: await consumer.position(place) for place in places}
                await self._produce(bootstrap, topic, records, "none", "all", False)
                return await self._read(consumer, await consumer.end_offsets(places), positions)

        return asyncio.run(run())

    def member(self, bootstrap: str, topic: str, group: str, instance: str | None) -> "AiokafkaMember":
        if self.runner is None:
            self.runner = asyncio.Runner()
        return AiokafkaMember(self.runner, bootstrap, topic, group, instance)

    def admin(self, bootstrap: str, topic: str) -> "AiokafkaAdmin":
        return AiokafkaAdmin(bootstrap, topic)


class AiokafkaMember:
    def __init__(self, runner: asyncio.Runner, bootstrap: str, topic: str, group: str, instance: str | None) -> None:
        self.runner = runner

        async def start() -> Any:
            consumer = aiokafka.AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=group,
                group_instance_id=instance,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                fetch_max_wait_ms=20,
            )
            await consumer.start()
            return consumer

        self.consumer = runner.run(start())

    def poll(self) -> list[Record]:
        batches = self.runner.run(self.consumer.getmany(timeout_ms=50))
        return [
            Record(place.partition, m.offset, m.timestamp, m.key, m.value, tuple(m.headers))
            for place, messages in batches.items()
            for m in messages
        ]

    def assigned(self) -> set[int]:
        return {place.partition for place in self.consumer.assignment()}

    def commit(self) -> None:
        self.runner.run(self.consumer.commit())

    def close(self) -> None:
        self.runner.run(self.consumer.stop())


class AiokafkaAdmin:
    incremental = None  # aiokafka has no IncrementalAlterConfigs

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.runner = asyncio.Runner()
        self.topic = topic

        async def connect() -> AIOKafkaAdminClient:
            client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
            await client.start()
            return client

        self.client = self.runner.run(connect())

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    def create(self, partitions: int, configs: dict[str, str]) -> str:
        new = NewTopic(self.topic, partitions, 1, topic_configs=configs)
        ((_, code, *_),) = self._run(self.client.create_topics([new])).topic_errors
        return "created" if code == 0 else str(for_code(code).message)

    def partitions(self) -> str:
        if self.topic not in self._run(self.client.list_topics()):
            return "none"
        return str(len(self._run(self.client.describe_topics([self.topic]))[0]["partitions"]))

    def grow(self, partitions: int) -> None:
        self._run(self.client.create_partitions({self.topic: NewPartitions(partitions)}))

    def config(self, name: str) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, self.topic, {name: ""})
        (response,) = self._run(self.client.describe_configs([resource]))
        (entry,) = response.resources[0][4]
        assert entry[0] == name, entry
        return f"{entry[1]} {SOURCES[entry[3]]}"

    def replace(self, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, self.topic, {name: value})
        (response,) = self._run(self.client.alter_configs([resource]))
        assert response.resources[0][0] == 0, response

    def delete(self) -> None:
        response = self._run(self.client.delete_topics([self.topic]))
        assert [code for _, code in response.topic_error_codes] == [0], response

    def close(self) -> None:
        self._run(self.client.close())
        self.runner.close()


if __name__ == "__main__":
    serve(Aiokafka())
