"""Members of a group that commit offsets while its coordinator comes and goes, and what they were told in one book."""

import itertools
import random
import threading
import time
from collections import defaultdict
from collections.abc import Sequence

from ottla.errors import MemberIdRequired, UnknownMemberId
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from tests.cluster import asking
from tests.cluster.stand import Cluster
from tests.support import group_client
from tests.support.client import Client

PARTITIONS = 6
SESSION_S = 10.0
HEARTBEAT_S = 0.2


class Book:
    """The record of what members were told, all of them together."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owners: dict[tuple[int, int], str] = {}
        self.acknowledged: dict[int, int] = defaultdict(lambda: -1)
        self.commits = 0
        self.wrong: list[str] = []

    def owns(self, generation: int, partition: int, member: str) -> None:
        with self.lock:
            other = self.owners.setdefault((generation, partition), member)
            if other != member:
                self.wrong.append(f"{partition} has two owners in generation {generation}: {other} and {member}")

    def floor(self, partition: int) -> int:
        with self.lock:
            return self.acknowledged[partition]

    def told(self, partition: int, floor: int, offset: int) -> None:
        """A member asked after `floor` was acknowledged, and was told `offset`."""
        if offset < floor:
            with self.lock:
                self.wrong.append(f"the offset of {partition} went from {floor} to {offset}")

    def committed(self, partition: int, offset: int) -> None:
        with self.lock:
            self.commits += 1
            self.acknowledged[partition] = max(offset, self.acknowledged[partition])


class Worker(threading.Thread):
    """A member that joins, commits the next offset of each partition that it was given, and joins again when it is told
    to, or when its coordinator is gone.
    """

    def __init__(self, name: str, cluster: Cluster, book: Book, seed: int, group: str, topic: str) -> None:
        super().__init__(name=name, daemon=True)
        self.group, self.topic = group, topic
        self.cluster, self.book = cluster, book
        self.chance = random.Random(f"{seed} {name}")
        self.member_id = ""
        self.joining = False
        #: The generation of its last good commit or heartbeat, and when that was.
        self.well = (-1, 0.0)
        self.ending = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.ending.is_set():
                try:
                    with self.connect() as client:
                        self.live(client)
                except OSError:
                    self.joining = False
        except BaseException as error:
            self.failure = error

    def connect(self) -> Client:
        """To the coordinator."""
        anyone = self.chance.choice([member for member in self.cluster.brokers if member.running])
        with asking.client(self.cluster, anyone, 3000) as client:
            found = client.call(FIND_COORDINATOR, FindCoordinatorRequest(key=self.group))
        if found.error_code:
            raise ConnectionError(asking.name_of(found.error_code))
        return asking.client(self.cluster, self.cluster.broker(found.node_id), 30_000)

    def live(self, client: Client) -> None:
        member = group_client.Member(client, self.group)
        member.id = self.member_id
        while not self.ending.is_set():
            self.joining = True
            member.send_join(session_timeout_ms=int(SESSION_S * 1000))
            error = member.receive_join()
            self.joining = False
            if error in (0, MemberIdRequired.code):
                self.member_id = member.id
            elif error == UnknownMemberId.code:
                member.id = self.member_id = ""
            else:
                raise ConnectionError(asking.name_of(error))
            if error == 0:
                self.stay(member)
        member.leave()
        self.member_id = ""

    def stay(self, member: group_client.Member) -> None:
        """Until another generation begins."""
        answer = member.sync(self.shares(member) if member.leads else None)
        if answer.error_code:
            self.ending.wait(HEARTBEAT_S)
            return
        mine = [*answer.assignment]
        offsets: dict[int, int] = {}
        for partition in mine:
            self.book.owns(member.generation, partition, member.id)
            floor = self.book.floor(partition)
            offsets[partition], error = member.committed(self.topic, partition=partition)
            if error:
                return
            self.book.told(partition, floor, offsets[partition])
        while not self.ending.wait(HEARTBEAT_S):
            if member.heartbeat():
                return
            self.well = (member.generation, time.monotonic())
            for partition in mine:
                offsets[partition] += 1
                if member.commit(self.topic, offsets[partition], partition=partition):
                    return
                self.book.committed(partition, offsets[partition])

    @staticmethod
    def shares(member: group_client.Member) -> dict[str, bytes]:
        names = sorted(row.member_id for row in member.joined.members)
        shares: dict[str, list[int]] = {name: [] for name in names}
        for partition, name in zip(range(PARTITIONS), itertools.cycle(names), strict=False):
            shares[name].append(partition)
        return {name: bytes(share) for name, share in shares.items()}


def whole(workers: Sequence[Worker], since: float) -> bool:
    """True if all of them were in one generation after that time."""
    for worker in workers:
        assert worker.failure is None, worker.failure
    generations = {worker.well[0] for worker in workers}
    return len(generations) == 1 and all(worker.well[1] > since for worker in workers)


def facts(workers: Sequence[Worker]) -> object:
    """For a failure: generation, seconds since it was well, whether it joins and lives."""
    now = time.monotonic()
    return [(worker.well[0], now - worker.well[1], worker.joining, worker.is_alive()) for worker in workers]
