"""Messages of a chat room: several are said together, or none of them."""

from collections.abc import AsyncGenerator

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def say(servers: str, room: str, name: str, *lines: str) -> None:
    """Writes the lines in one transaction. What goes wrong in between aborts it."""
    producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=f"chat-{name}")
    async with producer, producer.transaction():
        for line in lines:
            if not line:
                raise ValueError("an empty line says nothing")
            await producer.send(room, line.encode(), key=name.encode())


async def listen(servers: str, room: str) -> AsyncGenerator[tuple[str, str], None]:
    """Who said what, from the beginning on. Only lines of transactions that were committed."""
    consumer = AIOKafkaConsumer(
        room, bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    async with consumer:
        async for record in consumer:
            yield record.key.decode(), record.value.decode()
