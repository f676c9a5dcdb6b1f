"""Drives kafka-python."""

from typing import Any

import kafka
from kafka.admin import ConfigResource
from kafka.errors import InvalidProducerEpochError, ProducerFencedError, TopicAlreadyExistsError
from worker import HEARTBEAT_MS, SESSION_MS, Deadline, Record, Start, serve


class KafkaPython:
    def version(self) -> str:
        return str(kafka.__version__)

    def produce(
        self, bootstrap: str, topic: str, records: list[Record], codec: str, acks: str, idempotent: bool
    ) -> list[int | None]:
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            linger_ms=20,
            batch_size=65536,
            retry_backoff_ms=20,
            reconnect_backoff_ms=10,
            max_request_size=1_048_588,
        )
        futures = [
            producer.send(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
            for record in records
        ]
        producer.flush(60)
        offsets: list[int | None] = [future.get(60).offset for future in futures]
        producer.close()
        return offsets

    def transact(self, bootstrap: str, topic: str, transactional_id: str, records: list[Record], size: int) -> bool:
        settings = {"bootstrap_servers": bootstrap, "transactional_id": transactional_id, "retry_backoff_ms": 20}
        older, newer = kafka.KafkaProducer(**settings), kafka.KafkaProducer(**settings)
        older.init_transactions()
        older.begin_transaction()
        self._send(older, topic, records[:size])
        newer.init_transactions()
        fenced = False
        try:
            older.commit_transaction()
        except (ProducerFencedError, InvalidProducerEpochError):
            fenced = True
        older.close(0)
        for start in range(size, len(records), size):
            newer.begin_transaction()
            self._send(newer, topic, records[start : start + size])
            if start // size % 3 == 2:
                newer.abort_transaction()
            else:
                newer.commit_transaction()
        newer.close()
        return fenced

    def _send(self, producer: Any, topic: str, records: list[Record]) -> None:
        for record in records:
            producer.send(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
        producer.flush(60)

    def _consumer(self, bootstrap: str, topic: str, partitions: int) -> tuple[Any, list[Any]]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=20,
            check_crcs=True,
        )
        places = [kafka.TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(places)
        return consumer, places

    def _read(self, consumer: Any, ends: dict[Any, int], positions: dict[Any, int]) -> list[Record]:
        records: list[Record] = []
        deadline = Deadline("consume")
        left = {place for place, end in ends.items() if positions[place] < end}
        while left:
            for place, messages in consumer.poll(100, max_records=10_000).items():
                records += [
                    Record(place.partition, m.offset, m.timestamp, m.key, m.value, tuple(m.headers)) for m in messages
                ]
                if messages[-1].offset + 1 >= ends[place]:
                    left.discard(place)
            deadline.check(f"{len(records)} records, {len(left)} partitions left")
        return records

    def consume(self, bootstrap: str, topic: str, partitions: int, start: Start) -> list[Record]:
        consumer, places = self._consumer(bootstrap, topic, partitions)
        if start.kind == "earliest":
            consumer.seek_to_beginning(*places)
            positions = consumer.beginning_offsets(places)
        elif start.kind == "timestamp":
            found = consumer.offsets_for_times(dict.fromkeys(places, start.value))
            positions = {place: found[place].offset for place in places}
        else:
            positions = dict.fromkeys(places, start.value)
        if start.kind != "earliest":
            for place, offset in positions.items():
                consumer.seek(place, offset)
        records = self._read(consumer, consumer.end_offsets(places), positions)
        consumer.close()
        return records

    def latest(self, bootstrap: str, topic: str, partitions: int, records: list[Record]) -> list[Record]:
        consumer, places = self._consumer(bootstrap, topic, partitions)
        consumer.seek_to_end(*places)
        positions = {place: consumer.position(place) for place in places}
        self.produce(bootstrap, topic, records, "none", "all", False)
        seen = self._read(consumer, consumer.end_offsets(places), positions)
        consumer.close()
        return seen

    def member(self, bootstrap: str, topic: str, group: str, instance: str | None) -> "KafkaPythonMember":
        return KafkaPythonMember(bootstrap, topic, group, instance)

    def admin(self, bootstrap: str, topic: str) -> "KafkaPythonAdmin":
        return KafkaPythonAdmin(bootstrap, topic)


class KafkaPythonMember:
    def __init__(self, bootstrap: str, topic: str, group: str, instance: str | None) -> None:
        self.consumer = kafka.KafkaConsumer(
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

    def poll(self) -> list[Record]:
        return [
            Record(place.partition, m.offset, m.timestamp, m.key, m.value, tuple(m.headers))
            for place, messages in self.consumer.poll(50, max_records=10_000).items()
            for m in messages
        ]

    def assigned(self) -> set[int]:
        return {place.partition for place in self.consumer.assignment()}

    def commit(self) -> None:
        self.consumer.commit()

    def close(self) -> None:
        self.consumer.close()


class KafkaPythonAdmin:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self.client = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
        self.topic = topic

    def create(self, partitions: int, configs: dict[str, str]) -> str:
        options = {"num_partitions": partitions, "replication_factor": 1, "configs": configs}
        try:
            self.client.create_topics({self.topic: options})
        except TopicAlreadyExistsError as error:
            return str(error.message)
        return "created"

    def partitions(self) -> str:
        if self.topic not in self.client.list_topics():
            return "none"
        return str(len(self.client.describe_topics([self.topic])[0]["partitions"]))

    def grow(self, partitions: int) -> None:
        self.client.create_partitions({self.topic: partitions})

    def config(self, name: str) -> str:
        resource = ConfigResource("topic", self.topic, [name])
        entry = self.client.describe_configs([resource], config_filter="all")["topic"][self.topic][name]
        return f"{entry['value']} {entry['config_source']}"

    def incremental(self, name: str, value: str | None) -> None:
        change = ("DELETE", None) if value is None else ("SET", value)
        self.client.alter_configs([ConfigResource("topic", self.topic, {name: change})], incremental=True)

    def replace(self, name: str, value: str) -> None:
        self.client.alter_configs([ConfigResource("topic", self.topic, {name: value})], incremental=False)

    def delete(self) -> None:
        self.client.delete_topics([self.topic])

    def close(self) -> None:
        self.client.close()


if __name__ == "__main__":
    serve(KafkaPython())
