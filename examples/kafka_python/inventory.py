"""How many there are of each article: a compacted topic is the table, its newest record of a key the row."""

from kafka import KafkaConsumer, KafkaProducer, TopicPartition


def note(servers: str, topic: str, counts: dict[str, int]) -> None:
    """Writes how many there are of some articles."""
    producer = KafkaProducer(bootstrap_servers=servers, acks="all")
    try:
        for article, count in counts.items():
            producer.send(topic, key=article.encode(), value=str(count).encode()).get(60)
    finally:
        producer.close()


def table(servers: str, topic: str) -> dict[str, int]:
    """How many there are now of each article."""
    consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        consumer.seek_to_beginning(partition)
        found: dict[str, int] = {}
        while consumer.position(partition) < end:
            for records in consumer.poll(timeout_ms=1000).values():
                found |= {record.key.decode(): int(record.value) for record in records}
        return found
    finally:
        consumer.close()
