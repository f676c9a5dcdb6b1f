"""Drives confluent-kafka (librdkafka); the same file for every version of it."""

import warnings
from typing import Any

import confluent_kafka as ck
from confluent_kafka import admin
from worker import DEADLINE_S, HEARTBEAT_MS, SESSION_MS, Deadline, Record, Start, serve


class Confluent:
    def version(self) -> str:
        return f"{ck.__version__} (librdkafka {ck.libversion()[0]})"

    def _producer(self, bootstrap: str, codec: str, acks: str, idempotent: bool) -> ck.Producer:
        return ck.Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": idempotent,
                "linger.ms": 20,
                "message.max.bytes": 1_048_588,
                "batch.num.messages": 1000,
                "queue.buffering.max.messages": 1_000_000,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
            }
        )

    def produce(
        self, bootstrap: str, topic: str, records: list[Record], codec: str, acks: str, idempotent: bool
    ) -> list[int | None]:
        producer = self._producer(bootstrap, codec, acks, idempotent)
        offsets: list[int | None] = [None] * len(records)
        errors: list[Any] = []

        def report(index: int) -> Any:
            def delivered(error: Any, message: Any) -> None:
                if error is not None:
                    errors.append(error)
                else:
                    offsets[index] = message.offset()

            return delivered

        for index, record in enumerate(records):
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                timestamp=record.timestamp_ms,
                headers=list(record.headers) or None,
                on_delivery=report(index),
            )
            if index % 1000 == 0:
                producer.poll(0)
        left = producer.flush(60)
        if errors or left:
            raise RuntimeError(f"{len(errors)} failed, {left} unsent, first: {errors[:1]}")
        return offsets

    def transact(self, bootstrap: str, topic: str, transactional_id: str, records: list[Record], size: int) -> bool:
        older, newer = (self._transactional(bootstrap, transactional_id) for _ in range(2))
        older.init_transactions(60)
        older.begin_transaction()
        self._send(older, topic, records[:size])
        newer.init_transactions(60)
        fenced = False
        try:
            older.commit_transaction(60)
        except ck.KafkaException as error:
            fenced = error.args[0].code() == ck.KafkaError._FENCED
        for start in range(size, len(records), size):
            newer.begin_transaction()
            self._send(newer, topic, records[start : start + size])
            if start // size % 3 == 2:
                newer.abort_transaction(60)
            else:
                newer.commit_transaction(60)
        return fenced

    def _transactional(self, bootstrap: str, transactional_id: str) -> ck.Producer:
        return ck.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 10,
            }
        )

    def _send(self, producer: ck.Producer, topic: str, records: list[Record]) -> None:
        for record in records:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                timestamp=record.timestamp_ms,
                headers=list(record.headers) or None,
            )
        if left := producer.flush(60):
            raise RuntimeError(f"{left} unsent")

    def _consumer(self, bootstrap: str, topic: str) -> ck.Consumer:
        consumer = ck.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "matrix",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 20,
                "check.crcs": True,
                # The default asks for 64 MB of every partition: pointless for thousands of them.
                "fetch.message.max.bytes": 1_048_576,
            }
        )
        consumer.list_topics(topic, timeout=DEADLINE_S)  # without known leaders, asking for offsets waits half a second
        return consumer

    def _read(self, consumer: ck.Consumer, done: Any) -> list[Record]:
        """Poll until `done(records, ends)`, where ends holds the last reported end of each partition."""
        records: list[Record] = []
        ends: dict[int, int] = {}
        deadline = Deadline("consume")
        while not done(records, ends):
            for message in consumer.consume(2000, 0.02):
                error = message.error()
                if error is None:
                    records.append(_record(message))
                elif error.code() == ck.KafkaError._PARTITION_EOF:
                    ends[message.partition()] = message.offset()
                else:
                    raise ck.KafkaException(error)
            deadline.check(f"{len(records)} records, {len(ends)} ends")
        return records

    def consume(self, bootstrap: str, topic: str, partitions: int, start: Start) -> list[Record]:
        consumer = self._consumer(bootstrap, topic)
        offset = {"earliest": ck.OFFSET_BEGINNING}.get(start.kind, start.value)
        places = [ck.TopicPartition(topic, partition, offset) for partition in range(partitions)]
        if start.kind == "timestamp":
            places = consumer.offsets_for_times(places, timeout=DEADLINE_S)
        consumer.assign(places)
        records = self._read(consumer, lambda _, ends: len(ends) == partitions)
        consumer.close()
        return records

    def latest(self, bootstrap: str, topic: str, partitions: int, records: list[Record]) -> list[Record]:
        consumer = self._consumer(bootstrap, topic)
        consumer.assign([ck.TopicPartition(topic, partition, ck.OFFSET_END) for partition in range(partitions)])
        before = self._read(consumer, lambda _, ends: len(ends) == partitions)
        self.produce(bootstrap, topic, records, "none", "all", False)
        seen = self._read(consumer, lambda records_seen, _: len(before) + len(records_seen) >= len(records))
        consumer.close()
        return before + seen

    def member(self, bootstrap: str, topic: str, group: str, instance: str | None) -> "ConfluentMember":
        return ConfluentMember(bootstrap, topic, group, instance)

    def admin(self, bootstrap: str, topic: str) -> "ConfluentAdmin":
        return ConfluentAdmin(bootstrap, topic)


def _record(message: Any) -> Record:
    return Record(
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


class ConfluentMember:
    def __init__(self, bootstrap: str, topic: str, group: str, instance: str | None) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "fetch.wait.max.ms": 20,
        }
        if instance is not None:
            settings["group.instance.id"] = instance
        self.consumer = ck.Consumer(settings)
        self.consumer.subscribe([topic])

    def poll(self) -> list[Record]:
        records = []
        for message in self.consumer.consume(2000, 0.05):
            if message.error() is not None:
                raise ck.KafkaException(message.error())
            records.append(_record(message))
        return records

    def assigned(self) -> set[int]:
        return {place.partition for place in self.consumer.assignment()}

    def commit(self) -> None:
        self.consumer.commit(asynchronous=False)

    def close(self) -> None:
        self.consumer.close()


class ConfluentAdmin:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self.client = admin.AdminClient({"bootstrap.servers": bootstrap})
        self.topic = topic

    def create(self, partitions: int, configs: dict[str, str]) -> str:
        new = admin.NewTopic(self.topic, partitions, 1, config=configs)
        try:
            self.client.create_topics([new])[self.topic].result(DEADLINE_S)
        except ck.KafkaException as error:
            return str(error.args[0].name())
        return "created"

    def partitions(self) -> str:
        found = self.client.list_topics(timeout=DEADLINE_S).topics.get(self.topic)
        return str(len(found.partitions)) if found else "none"

    def grow(self, partitions: int) -> None:
        self.client.create_partitions([admin.NewPartitions(self.topic, partitions)])[self.topic].result(DEADLINE_S)

    def config(self, name: str) -> str:
        resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, self.topic)
        entry = self.client.describe_configs([resource])[resource].result(DEADLINE_S)[name]
        return f"{entry.value} {admin.ConfigSource(entry.source).name}"

    def incremental(self, name: str, value: str | None) -> None:
        operation = admin.AlterConfigOpType.SET if value is not None else admin.AlterConfigOpType.DELETE
        entry = admin.ConfigEntry(name, value, incremental_operation=operation)
        resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, self.topic, incremental_configs=[entry])
        self.client.incremental_alter_configs([resource])[resource].result(DEADLINE_S)

    def replace(self, name: str, value: str) -> None:
        resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, self.topic, set_config={name: value})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.client.alter_configs([resource])[resource].result(DEADLINE_S)

    def delete(self) -> None:
        self.client.delete_topics([self.topic])[self.topic].result(DEADLINE_S)

    def close(self) -> None:
        pass


if __name__ == "__main__":
    serve(Confluent())
