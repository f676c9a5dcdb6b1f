"""Writes orders, and counts them by fruit as a member of a consumer group."""

from collections import Counter
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaException, Producer


def place(servers: str, topic: str, orders: Iterable[tuple[str, str]]) -> None:
    """Writes an order for each customer and fruit, and returns when the brokers have all of them."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for customer, fruit in orders:
        producer.produce(topic, fruit, customer)
    if left := producer.flush(60):
        raise TimeoutError(f"{left} orders were not written")


def count(servers: str, topic: str, group: str, orders: int) -> Counter[str]:
    """Reads so many orders, commits, and returns how many there are of each fruit."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: Counter[str] = Counter()
    try:
        while found.total() < orders:
            messages = consumer.consume(orders - found.total(), timeout=60)
            if not messages:
                raise TimeoutError(f"no more orders came than {found.total()} of {orders}")
            for message in messages:
                if message.error():
                    raise KafkaException(message.error())
                found[(message.value() or b"").decode()] += 1
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found
