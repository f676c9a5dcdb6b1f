from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from ottla.controller import ProducerIds, prepare
from ottla.coordination import znodes
from ottla.coordination.embedded import EmbeddedStore, EmbeddedTree
from ottla.errors import UnknownServerError


@pytest.mark.trio
async def test_no_id_is_given_twice(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(str(tmp_path / "tree"))
    trees = [await store.session() for _ in range(3)]
    await prepare(trees[0])
    brokers = [ProducerIds(tree, number) for number, tree in enumerate(trees)]
    given: list[int] = []

    async def take(ids: ProducerIds) -> None:
        given.append(await ids.next())

    async with trio.open_nursery() as nursery:
        for _ in range(1500):
            for ids in brokers:
                nursery.start_soon(take, ids)
    assert len(set(given)) == 4500
    # 1500 each: two blocks a broker, none lost while all live.
    assert max(given) < 6000
    block = json.loads((await trees[0].get(znodes.PRODUCER_ID_BLOCK)).data)
    assert (block["version"], block["block_start"], block["block_end"]) == (1, "5000", "5999")
    await store.aclose()


@pytest.mark.trio
async def test_blocks_go_on_after_those_of_kafka(tmp_path: Path) -> None:
    async with await EmbeddedTree.open(str(tmp_path / "tree")) as tree:
        await tree.create(znodes.PRODUCER_ID_BLOCK, b'{"version":1,"broker":7,"block_start":"4000","block_end":"4999"}')
        ids = ProducerIds(tree, 1)
        assert ids.take() is None
        assert [await ids.next(), ids.take(), await ids.next()] == [5000, 5001, 5002]
        last = b'{"version":1,"broker":7,"block_start":"0","block_end":"9223372036854775806"}'
        await tree.set(znodes.PRODUCER_ID_BLOCK, last)
        with pytest.raises(UnknownServerError):
            await ProducerIds(tree, 1).next()


@pytest.mark.trio
async def test_a_block_that_nobody_understands_is_not_guessed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The client is told so, and the log names the node once; "try again later" would keep it waiting for ever."""
    async with await EmbeddedTree.open(str(tmp_path / "tree")) as tree:
        await tree.create(znodes.PRODUCER_ID_BLOCK, b"nonsense")
        ids = ProducerIds(tree, 1)
        for _ in range(3):
            with pytest.raises(UnknownServerError, match=znodes.PRODUCER_ID_BLOCK):
                await ids.next()
        (said,) = [record for record in caplog.records if record.levelname == "ERROR"]
        assert znodes.PRODUCER_ID_BLOCK in said.getMessage()
        await tree.set(znodes.PRODUCER_ID_BLOCK, b"")
        assert await ids.next() == 0


SCRIPT = """
import os, sys, trio
from ottla.controller import ProducerIds, prepare
from ottla.coordination.embedded import EmbeddedTree

async def main():
    tree = await EmbeddedTree.open(sys.argv[1])
    await prepare(tree)
    ids = ProducerIds(tree, 1)
    while True:
        os.write(1, b"%d\\n" % await ids.next())

trio.run(main)
"""


def test_kill_9_between_two_producers(tmp_path: Path) -> None:
    seen: set[int] = set()
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(tmp_path / "tree")], stdout=subprocess.PIPE, env={**os.environ}
        )
        assert process.stdout is not None
        given = [int(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGKILL)
        given += [int(line) for line in process.stdout.read().split(b"\n")[:-1]]
        process.wait()
        process.stdout.close()
        assert not seen & set(given)
        seen |= set(given)
