"""`make cluster`: three brokers, one of which is killed, and what becomes of what was acknowledged.

A producer writes numbered records with acks=all, one after the other, from before the kill until the broker is back.
Each step says what happened and how long it took. In the end everything that was acknowledged is read back and
compared, and nothing is left: no process, no file.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import trio

from ottla.client import EARLIEST, Admin, Cluster, ClusterAdmin, Consumer, Producer
from ottla.errors import KafkaError
from ottla.kafka import TopicPartition
from ottla.local_cluster import LocalClusterError, running
from ottla.local_cluster.ports import is_free
from ottla.local_cluster.state import LocalCluster, load

TOPIC = "numbers"
PARTITIONS = 6
WAIT_S_MAX = 60.0
POLL_S = 0.05
QUIET_S = 1.0
"""How long records come before the kill and after the return."""
PAUSE_S = 0.005
PORTS = range(19_092, 19_292, 10)
TIMEOUT_MS = 20_000


class Stream:
    """A producer for each partition, which sends one number after the other, each when the last one is acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.acknowledged: list[tuple[int, int]] = []
        self.longest_s = 0.0
        self.failed: list[str] = []
        self.ends = False

    async def run(self) -> None:
        """Returns soon after `ends` was set."""
        async with trio.open_nursery() as nursery:
            for partition in range(PARTITIONS):
                nursery.start_soon(self._one, partition)

    async def _one(self, partition: int) -> None:
        number = 0
        try:
            async with Producer(self.cluster, linger_ms=0) as producer:
                while not self.ends:
                    number += 1
                    began = trio.current_time()
                    await producer.send(TOPIC, b"%d" % number, partition=partition)
                    await producer.flush()
                    self.longest_s = max(self.longest_s, trio.current_time() - began)
                    self.acknowledged.append((partition, number))
                    await trio.sleep(PAUSE_S)
        except (KafkaError, OSError) as error:
            self.failed.append(f"{TOPIC}-{partition}: {error}")


def say(text: str) -> None:
    """A step that is done."""
    click.echo(f"{click.style('✓', fg='green')} {text}")


async def until(
    what: str, holds: Callable[[dict[TopicPartition, int], dict[TopicPartition, int]], bool], admin: ClusterAdmin
) -> float:
    """Waits until the leaders and the numbers of replicas in sync are so, and returns how long it took in seconds."""
    began = trio.current_time()
    while trio.current_time() - began < WAIT_S_MAX:
        overview = await admin.overview()
        in_sync = {name: len(ids) for name, ids in overview.in_sync().items()}
        if holds(overview.leaders(), in_sync):
            return trio.current_time() - began
        await trio.sleep(POLL_S)
    raise LocalClusterError(f"{what} did not come true within {WAIT_S_MAX:.0f} s")


async def show(local: LocalCluster) -> bool:
    """Runs the scenes. Returns whether everything that was acknowledged was there in the end."""
    async with Cluster(local.bootstrap, timeout_ms=TIMEOUT_MS) as cluster:
        admin = ClusterAdmin(cluster)
        await Admin(cluster).create_topic(TOPIC, PARTITIONS, 3, {"min.insync.replicas": "2"})
        names = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        overview = await admin.overview()
        victim = next(broker for broker in local.brokers if broker.id == overview.leaders()[names[0]])
        led = sum(leader == victim.id for leader in overview.leaders().values())
        say(f"topic {TOPIC}: {PARTITIONS} partitions with 3 replicas, of which 2 have to have a record (acks=all)")
        stream = Stream(cluster)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.run)
            await trio.sleep(QUIET_S)
            say(f"writes flow: {len(stream.acknowledged):,} records acknowledged in {QUIET_S:g} s")

            stream.longest_s = 0.0
            await trio.to_thread.run_sync(lambda: running.stop(local.directory, [victim.id], kill=True))
            controls = ", and was the controller" if overview.controller == victim.id else ""
            say(f"killed broker {victim.id} (kill -9), which led {led} of the partitions{controls}")
            took = await until(
                "another leader", lambda leaders, _: victim.id not in [leaders[name] for name in names], admin
            )
            others = " and ".join(str(broker.id) for broker in local.brokers if broker is not victim)
            say(f"brokers {others} lead all of them, {took:.1f} s later")
            await until("a smaller ISR", lambda _, in_sync: all(in_sync[name] == 2 for name in names), admin)
            await trio.sleep(QUIET_S)
            say(f"writes went on; the longest wait for an acknowledgement was {stream.longest_s:.2f} s")

            await trio.to_thread.run_sync(lambda: running.start(local.directory))
            took = await until("in sync", lambda _, in_sync: all(in_sync[name] == 3 for name in names), admin)
            say(f"started broker {victim.id} again: all replicas in sync {took:.1f} s after it served")
            stream.ends = True
        moved = await admin.elect(names)
        say(f"leadership is where it was: {sum(problem is None for problem in moved.values())} elections")
        found = await read(cluster, names, len(stream.acknowledged))
    missing = set(stream.acknowledged) - found
    for problem in stream.failed:
        click.echo(f"{click.style('✗', fg='red')} a producer gave up: {problem}")
    if missing:
        click.echo(f"{click.style('✗', fg='red')} {len(missing):,} acknowledged records are missing")
        return False
    say(f"read back: all {len(stream.acknowledged):,} acknowledged records are there")
    return not stream.failed


async def read(cluster: Cluster, names: list[TopicPartition], count: int) -> set[tuple[int, int]]:
    """Everything that the partitions have, at least `count` records if they come in time."""
    consumer = Consumer(cluster)
    await consumer.assign(dict.fromkeys(names, EARLIEST))
    found: set[tuple[int, int]] = set()
    with trio.move_on_after(WAIT_S_MAX):
        while len(found) < count:
            found |= {(record.partition, int(record.value or b"0")) for record in await consumer.poll()}
    return found


@click.command()
@click.option("--zookeeper", metavar="HOST:PORT/chroot", help="Use this one instead of starting one.")
def main(zookeeper: str | None) -> None:
    """Shows three brokers, kills one, and tells what happens."""
    with tempfile.TemporaryDirectory(prefix="ottla-cluster-") as folder:
        directory = Path(folder) / "cluster"
        try:
            began = time.monotonic()
            first = next(port for port in PORTS if all(is_free(each) for each in range(port, port + 3)))
            local = running.start(directory, count=3, given_zookeeper=zookeeper, port=first)
            say(f"three brokers at {local.bootstrap} are a cluster ({time.monotonic() - began:.1f} s)")
            is_well = trio.run(show, local)
        except LocalClusterError as error:
            raise click.ClickException(str(error)) from None
        finally:
            if load(directory) is not None:
                running.stop(directory)
        say("stopped the cluster and removed its files")
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
