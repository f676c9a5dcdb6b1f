"""The time in which a controller that starts reads its nodes, from both kinds of tree: `python benches/tree.py [--nodes
100000]`.

Topics of a hundred partitions, each of which has two nodes (itself and its state). Read are the topics' assignments and
settings and every partition's state, decoded, by a process that has just opened the tree.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import trio

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from ottla.controller.model import TopicPartition  # noqa: E402
from ottla.controller.store import FencedTree  # noqa: E402
from ottla.coordination import znodes  # noqa: E402
from ottla.coordination.embedded import EmbeddedTree  # noqa: E402
from ottla.coordination.tree import Create, Tree, in_batches  # noqa: E402
from ottla.coordination.znodes import PartitionState, TopicAssignment  # noqa: E402
from ottla.coordination.zookeeper import ZooKeeperTree  # noqa: E402

PARTITIONS = 100


async def opened(where: str) -> Tree:
    return await (EmbeddedTree.open(where) if where.startswith("/") else ZooKeeperTree.connect(where))


async def fill(where: str, topics: int, brokers: tuple[int, ...] = (1,)) -> int:
    """Topics with settings; partitions that all these brokers have, who lead them in turns. The number of nodes."""
    tree = await opened(where)
    replicas = [brokers[at:] + brokers[:at] for at in range(len(brokers))]
    of_each = [replicas[number % len(brokers)] for number in range(PARTITIONS)]
    assignment = TopicAssignment(dict(enumerate(of_each))).encode()
    states = [PartitionState(leader=isr[0], leader_epoch=0, isr=isr, controller_epoch=1).encode() for isr in of_each]
    operations = [Create(path, b"") for path in ("/brokers", znodes.TOPICS, "/config", znodes.CONFIG_TOPICS)]
    for number in range(topics):
        topic = f"topic-{number}"
        operations += [Create(znodes.topic_path(topic), assignment), Create(znodes.partitions_path(topic), b"")]
        operations.append(Create(znodes.config_path("topics", topic), znodes.encode_config({"retention.ms": "1000"})))
        for partition in range(PARTITIONS):
            operations.append(Create(znodes.partition_path(topic, partition), b""))
            operations.append(Create(znodes.state_path(topic, partition), states[partition]))
    for batch in in_batches(operations):
        await tree.multi(batch)
    await tree.aclose()
    return len(operations)


async def read(where: str) -> None:
    begin, cpu_begin = time.perf_counter(), time.process_time()
    tree = await opened(where)
    topics = await tree.children(znodes.TOPICS)
    paths = [znodes.topic_path(topic) for topic in topics]
    names = []
    for topic, path, node in zip(topics, paths, await tree.get_many(paths), strict=True):
        assert node is not None
        names += [TopicPartition(topic, number) for number in TopicAssignment.decode(path, node.data).partitions]
    configs = [znodes.config_path("topics", topic) for topic in topics]
    for path, node in zip(configs, await tree.get_many(configs), strict=True):
        assert node is not None
        znodes.decode_config(path, node.data)
    states = await FencedTree(tree, 1, 0).read_states(names)
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu_begin
    print(f"{len(states):,} partitions read in {seconds:.2f} s, of which {cpu_seconds:.2f} s are CPU of this process")
    await tree.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--zookeeper", default="3.9.2")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        return trio.run(read, options.read)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        from tests.peers.apache import Apache

        apache = stack.enter_context(Apache(Path(folder)))
        for kind in ("embedded", "ZooKeeper"):
            where = f"{folder}/tree.sqlite" if kind == "embedded" else apache.zookeeper(options.zookeeper)
            print(f"{trio.run(fill, where, options.nodes // (2 * PARTITIONS)):,} nodes", file=sys.stderr)
            for _ in range(3):
                print(f"{kind}: ", end="", flush=True)
                subprocess.run([sys.executable, __file__, "--read", where], check=True)
    return None


if __name__ == "__main__":
    main()
