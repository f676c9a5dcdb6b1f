"""A broker in `async with`. It has a thread of its own, so the loop goes on."""

import asyncio
from contextlib import aclosing

import chat
import pytest

import ottla


async def heard(servers: str, room: str, count: int) -> list[tuple[str, str]]:
    async with aclosing(chat.listen(servers, room)) as lines:
        return [await anext(lines) for _ in range(count)]


def test_a_conversation() -> None:
    async def main() -> None:
        async with ottla.Broker() as broker:
            await asyncio.to_thread(broker.create_topic, "room")
            await chat.say(broker.bootstrap_servers, "room", "alice", "hello", "is anybody there?")
            await chat.say(broker.bootstrap_servers, "room", "bob", "yes")
            assert await heard(broker.bootstrap_servers, "room", 3) == [
                ("alice", "hello"),
                ("alice", "is anybody there?"),
                ("bob", "yes"),
            ]

    asyncio.run(main())


def test_what_is_aborted_is_not_heard(ottla_broker: ottla.Broker, ottla_topic: str) -> None:
    servers = ottla_broker.bootstrap_servers

    async def main() -> None:
        with pytest.raises(ValueError, match="says nothing"):
            await chat.say(servers, ottla_topic, "alice", "never mind", "")
        await chat.say(servers, ottla_topic, "bob", "what?")
        assert await heard(servers, ottla_topic, 1) == [("bob", "what?")]

    asyncio.run(main())
