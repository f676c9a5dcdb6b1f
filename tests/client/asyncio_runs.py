"""Loops of asyncio for the client's tests, after which nothing is left."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from ottla.client import guest as guests
from ottla.client.aio import Admin, Cluster, Consumer, Producer
from tests.support.waiting import PATIENCE_S, eventually

T = TypeVar("T")


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Runs it in a loop of its own, after which nothing of it is left."""

    async def limited() -> T:
        async with asyncio.timeout(PATIENCE_S):
            found = await main()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return found

    before, threads = descriptors(), set(threading.enumerate())
    try:
        return asyncio.run(limited())
    finally:
        # Trio keeps a thread that waited for sockets for ten seconds, for the next one to wait.
        assert {each for each in threading.enumerate() if not each.name.startswith("Trio thread")} <= threads
        assert guests._here.guest is None
        assert not trio.lowlevel.in_trio_run()
        eventually("every descriptor is closed", lambda: descriptors() <= before, facts=lambda: (before, descriptors()))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def filled(cluster: Cluster, topic: str, count: int, partitions: int = 1) -> None:
    await Admin(cluster).create_topic(topic, partitions)
    async with Producer(cluster) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, partition=number % partitions)


async def taken(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    async for record in consumer:
        found.append(record.value)
        if len(found) == count:
            break
    return found


def numbers(*span: int) -> list[bytes]:
    return [b"%d" % number for number in range(*span)]
