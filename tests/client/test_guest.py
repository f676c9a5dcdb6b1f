"""Trio's run beside a loop of asyncio: who shares it, who may use it, and how it ends."""

import asyncio
import signal
import subprocess
import sys
import threading

import pytest
import trio

from ottla.client import TopicPartition
from ottla.client.aio import Admin, Cluster, Consumer
from tests.client.asyncio_runs import descriptors, filled, run, taken
from tests.peers.ottla import Broker
from tests.support.waiting import PATIENCE_S, eventually


def test_the_clients_of_a_loop_share_a_run_and_the_last_ends_it(prompt_broker: Broker) -> None:
    async def main() -> None:
        first, second = Cluster(prompt_broker.bootstrap), Cluster(prompt_broker.bootstrap)
        async with first:
            async with second:
                guest = first._home.guest
                assert guest is not None
                assert guest is second._home.guest
            assert not guest.is_over
            assert await Admin(first).list_topics() is not None
        assert guest.is_over
        async with Cluster(prompt_broker.bootstrap) as third:
            assert third._home.guest is not guest

    run(main)


def test_a_cluster_that_is_closed_first_ends_what_is_open(prompt_broker: Broker) -> None:
    async def main() -> None:
        cluster = Cluster(prompt_broker.bootstrap)
        await cluster.__aenter__()
        async with Consumer(cluster, group="aio-first", wait_ms=60_000) as consumer:
            await filled(cluster, "aio-first", 1)
            consumer.subscribe(["aio-first"])
            while not consumer.assignment():
                await consumer.poll(10)
            task = asyncio.create_task(consumer.poll())
            await asyncio.sleep(0)
            await cluster.aclose()
            with pytest.raises(RuntimeError, match="closed meanwhile"):
                await task
            with pytest.raises(RuntimeError, match="not open"):
                await consumer.poll()
        async with Cluster(prompt_broker.bootstrap) as cluster:
            assert (await Admin(cluster).groups.describe("aio-first")).members == ()

    run(main)


def test_objects_belong_to_the_loop_of_their_cluster(prompt_broker: Broker) -> None:
    cluster = Cluster(prompt_broker.bootstrap)
    consumer = Consumer(cluster)
    with pytest.raises(RuntimeError, match="running asyncio loop"):
        consumer.pause([])

    async def too_early() -> None:
        with pytest.raises(RuntimeError, match="not open"):
            await consumer.poll()

    run(too_early)
    problems: list[BaseException] = []

    async def elsewhere() -> None:
        try:
            await consumer.poll()
        except RuntimeError as problem:
            problems.append(problem)

    async def main() -> None:
        async with cluster:
            await consumer.assign({TopicPartition("aio-loops", 0): 0})
            thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
            thread.start()
            thread.join()
            with pytest.raises(RuntimeError, match="open already"):
                await cluster.__aenter__()
        with pytest.raises(RuntimeError, match="not open"):
            await consumer.poll()

    run(main)
    (problem,) = problems
    assert "another event loop" in str(problem)


def test_each_thread_has_a_run_of_its_own(prompt_broker: Broker) -> None:
    found: list[list[str]] = []

    async def main() -> None:
        async with Cluster(prompt_broker.bootstrap) as cluster:
            found.append(await Admin(cluster).list_topics())

    async def beside() -> None:
        async with Cluster(prompt_broker.bootstrap):
            thread = threading.Thread(target=lambda: asyncio.run(main()))
            thread.start()
            await asyncio.to_thread(thread.join)

    run(beside)
    assert len(found) == 1


def test_a_loop_that_is_closed_early_leaves_nothing_to_the_next(prompt_broker: Broker) -> None:
    async def main() -> Consumer:
        cluster = await Cluster(prompt_broker.bootstrap).__aenter__()
        consumer = await Consumer(cluster, group="aio-early", start="earliest", wait_ms=60_000).__aenter__()
        consumer.subscribe(["aio-early"])
        await filled(cluster, "aio-early", 3)
        await taken(consumer, 3)
        task = loop.create_task(consumer.poll())
        await asyncio.sleep(0)
        task.add_done_callback(lambda _: None)
        return consumer

    before = descriptors()
    loop = asyncio.new_event_loop()
    consumer = loop.run_until_complete(main())
    guest = consumer._home.guest
    assert guest is not None
    other = asyncio.new_event_loop()
    with pytest.raises(RuntimeError, match="close it first"):
        other.run_until_complete(Cluster(prompt_broker.bootstrap).__aenter__())
    other.close()
    loop.close()

    async def again() -> list[str]:
        async with Cluster(prompt_broker.bootstrap) as cluster:
            assert guest.is_over
            topics = await Admin(cluster).list_topics()
        owner = getattr(sys.get_asyncgen_hooks().firstiter, "__self__", None)
        assert owner is asyncio.get_running_loop()
        return topics

    assert "aio-early" in run(again)
    eventually("every descriptor is closed", lambda: descriptors() <= before)

    async def used() -> None:
        with pytest.raises(RuntimeError, match="another event loop"):
            await consumer.poll()

    run(used)


def test_trio_in_the_same_thread_is_told() -> None:
    async def main() -> None:
        async def beside() -> None:
            async with Cluster("127.0.0.1:1"):
                raise AssertionError

        loop = asyncio.new_event_loop()
        task = loop.create_task(beside())
        task.add_done_callback(lambda _: loop.stop())
        loop.run_forever()
        loop.close()
        with pytest.raises(RuntimeError, match="trio runs in this thread"):
            task.result()

    trio.run(main)


LEFT = """
import asyncio, sys
from ottla.client.aio import Admin, Cluster

async def main():
    cluster = await Cluster(sys.argv[1]).__aenter__()
    await Admin(cluster=cluster).list_topics()

asyncio.run(main())
"""


def test_the_interpreters_end_finishes_a_run_that_was_left(prompt_broker: Broker) -> None:
    command = [sys.executable, "-X", "dev", "-c", LEFT, prompt_broker.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")


INTERRUPTED = """
import asyncio, os, signal, sys
from ottla.client import TopicPartition
from ottla.client.aio import Admin, Cluster, Consumer
from ottla.client.guest import Guest

async def main():
    async with Cluster(sys.argv[1]) as cluster:
        await Admin(cluster).create_topic(sys.argv[2], 1)
        async with Consumer(cluster, group=sys.argv[2], wait_ms=60_000) as consumer:
            consumer.subscribe([sys.argv[2]])
            await consumer.poll(0)
            while not consumer.assignment():
                await consumer.poll(100)
            asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGINT)
            async for record in consumer:
                pass
"""


@pytest.mark.parametrize(
    ("topic", "how"),
    [
        ("aio-int", "asyncio.run(main())"),
        ("aio-int-loop", "loop = asyncio.new_event_loop()\nloop.run_until_complete(main())"),
    ],
)
def test_ctrl_c(prompt_broker: Broker, topic: str, how: str) -> None:
    """It ends the program, whether asyncio handles the signal (`asyncio.run`) or trio would; under asyncio.run, which
    cancels the main task, the member leaves its group at once.
    """
    command = [sys.executable, "-c", INTERRUPTED + how, prompt_broker.bootstrap, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == -signal.SIGINT, done.stderr
    assert done.stderr.rstrip().endswith("KeyboardInterrupt"), done.stderr

    async def main() -> None:
        async with Cluster(prompt_broker.bootstrap) as cluster:
            if "loop" not in how:
                assert (await Admin(cluster).groups.describe(topic)).members == ()

    run(main)
