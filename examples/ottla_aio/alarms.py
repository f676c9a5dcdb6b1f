"""A service that reads temperatures and writes an alarm for each that is too high, exactly once."""

from ottla.client import TopicPartition
from ottla.client.aio import Cluster, Consumer, Producer, TransactionalProducer

LIMIT_C = 80


async def measure(servers: str, topic: str, readings: list[tuple[str, int]]) -> None:
    """Writes the temperatures of some machines, in degrees Celsius, and returns when the brokers have them."""
    async with Cluster(servers) as cluster, Producer(cluster) as producer:
        for machine, celsius in readings:
            await producer.send(topic, str(celsius).encode(), key=machine.encode())


async def watch(servers: str, readings: str, alarms: str, count: int) -> None:
    """Reads so many temperatures from where the group was, and writes the alarms. What was read is committed in the
    transaction of its alarms: after a crash both are there, or none of them. Raises ValueError: one is no number.
    """
    async with (
        Cluster(servers) as cluster,
        TransactionalProducer(cluster, f"{readings}-watch") as producer,
        Consumer(cluster, group=f"{readings}-watch", start="earliest", auto_commit=False) as consumer,
    ):
        consumer.subscribe([readings])
        while count > 0:
            records = await consumer.poll()
            if not records:
                continue
            async with producer.transaction():
                for record in records:
                    if int(record.value or b"") > LIMIT_C:
                        await producer.send(alarms, record.value, key=record.key)
                ends = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
                me = consumer.group_metadata()
                await producer.send_offsets(me.group, ends, member_id=me.member_id, generation=me.generation)
            count -= len(records)


async def raised(servers: str, alarms: str, count: int) -> list[tuple[str, int]]:
    """The first alarms: which machine, and its temperature. Waits until there are so many."""
    found: list[tuple[str, int]] = []
    async with Cluster(servers) as cluster, Consumer(cluster, read_committed=True) as consumer:
        await consumer.assign({TopicPartition(alarms, 0): 0})
        async for record in consumer:
            found.append(((record.key or b"").decode(), int(record.value or b"")))
            if len(found) == count:
                break
    return found
