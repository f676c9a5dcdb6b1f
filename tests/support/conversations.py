"""Conversations of a client with brokers that fail in each way: rows of a table, for whichever client has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ottla.client import TopicPartition
from ottla.errors import (
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from ottla.wire.k01_fetch import FETCH
from tests.client.scripted_cluster import World

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)


async def loses_its_leader(world: World) -> None:
    world[HERE].moves(None)


async def gets_a_leader(world: World) -> None:
    world[HERE].moves(2)


async def leader_stands_still(world: World) -> None:
    world.brokers[1].stands_still()


async def leader_goes_on(world: World) -> None:
    world.brokers[1].goes_on()


async def leader_stands_still_and_another_leads(world: World) -> None:
    world.brokers[1].stands_still()
    world[HERE].moves(2)


async def leader_dies(world: World) -> None:
    await world.brokers[1].dies()


async def leader_moves(world: World) -> None:
    world[HERE].moves(2)
    world.change()


async def nothing(world: World) -> None:
    pass


def answers(*codes: int) -> Callable[[World], Awaitable[None]]:
    """The leader answers with these codes, one after the other."""

    async def befalls(world: World) -> None:
        world[HERE].errors.extend(codes)
        world.change()

    return befalls


async def leader_hangs_up_after_each_answer(world: World) -> None:
    world.brokers[1].hangs_up.add(FETCH.key)


class Row(NamedTuple):
    """Something that befalls t-0, and what ends it; t-1 is read meanwhile."""

    befalls: Callable[[World], Awaitable[None]]
    ends: Callable[[World], Awaitable[None]] = nothing


ROWS = {
    "no leader": Row(loses_its_leader, gets_a_leader),
    "stands still": Row(leader_stands_still, leader_goes_on),
    "stands still, another leads": Row(leader_stands_still_and_another_leads),
    "dies": Row(leader_dies, gets_a_leader),
    "moves": Row(leader_moves),
    "not leader": Row(answers(NotLeaderOrFollower.code)),
    "unknown partition": Row(answers(UnknownTopicOrPartition.code)),
    "fenced epoch": Row(answers(FencedLeaderEpoch.code)),
    "unknown epoch": Row(answers(UnknownLeaderEpoch.code)),
    "many errors": Row(answers(NotLeaderOrFollower.code, UnknownLeaderEpoch.code, NotLeaderOrFollower.code)),
    "hangs up": Row(leader_hangs_up_after_each_answer),
}
