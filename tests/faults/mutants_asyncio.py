"""The promises of the client under asyncio: turns, and nothing half done where a task is cancelled."""

from tests.faults.mutants import Mutant

AIO = "python/ottla/client/aio.py"
GUEST = "python/ottla/client/guest.py"
FACADE = "python/ottla/client/aio_facade.py"
CONSUMER = "python/ottla/client/consumer.py"
TESTS = "tests/client/test_aio.py"
RUNS = "tests/client/test_guest.py"
PRODUCING = "tests/client/test_aio_producing.py"

MUTANTS = (
    Mutant(
        "asyncio.records-that-come-late-are-lost",
        AIO,
        "return await self._home.call(partial(inner.poll, wait_ms), late=inner._hand.take)",
        "return await self._home.call(partial(inner.poll, wait_ms))",
        pytest=(f"{TESTS}::test_records_that_come_as_their_task_is_cancelled_are_given_next",),
    ),
    Mutant(
        "asyncio.records-in-hand-keep-the-loop",
        AIO,
        "            await asyncio.sleep(0)\n        hand",
        "        hand",
        pytest=(f"{TESTS}::test_others_have_their_turn_while_records_are_there",),
    ),
    Mutant(
        "asyncio.records-are-taken-outside-of-a-block",
        AIO,
        "        if self._block is None or not self._block.is_open:\n",
        "        if self._block is None:\n",
        pytest=(f"{PRODUCING}::test_a_producer_takes_records_in_its_block",),
    ),
    Mutant(
        "asyncio.records-are-taken-outside-of-a-transaction",
        AIO,
        "        self._inner._check_open()\n",
        "",
        pytest=(f"{PRODUCING}::test_what_a_transaction_does_not_cover_is_refused",),
    ),
    Mutant(
        "asyncio.records-that-find-no-room-are-dropped",
        AIO,
        "            await self._home.call(partial(inner._put_soon, topic, value, key, headers, time_ms, partition))\n",
        "            pass\n",
        pytest=(f"{PRODUCING}::test_records_wait_for_room_and_keep_their_order",),
    ),
    Mutant(
        "asyncio.a-cancelled-call-goes-on",
        GUEST,
        "                cancelled = problem\n                self.scope.cancel()\n",
        "                cancelled = problem\n                break\n",
        pytest=(f"{TESTS}::test_a_listener_is_cancelled_with_its_poll",),
    ),
    Mutant(
        "asyncio.a-listener-outlives-its-poll",
        GUEST,
        "            task.cancel()\n"
        "            with trio.CancelScope(shield=True):\n"
        "                await over.wait()\n"
        "            raise\n",
        "            raise\n",
        pytest=(f"{TESTS}::test_a_listener_is_cancelled_with_its_poll",),
    ),
    Mutant(
        "asyncio.the-first-cluster-that-closes-ends-the-run",
        GUEST,
        "        if self.holders or self.is_over:\n",
        "        if self.is_over:\n",
        pytest=(f"{RUNS}::test_the_clients_of_a_loop_share_a_run_and_the_last_ends_it",),
    ),
    Mutant(
        "asyncio.any-loop-may-call",
        GUEST,
        "        if running_loop() is not self.loop:\n",
        "        if running_loop() is None:\n",
        pytest=(f"{RUNS}::test_objects_belong_to_the_loop_of_their_cluster",),
    ),
    Mutant(
        "asyncio.a-closed-loop-keeps-its-run",
        GUEST,
        "        with suppress(Empty):\n            while not self.is_over:\n",
        "        with suppress(Empty):\n            while False:\n",
        pytest=(f"{RUNS}::test_a_loop_that_is_closed_early_leaves_nothing_to_the_next",),
    ),
    Mutant(
        "asyncio.ctrl-c-ends-trios-main-task-alone",
        GUEST,
        "                self.loop.call_soon(_interrupt)\n",
        "                pass\n",
        pytest=(f"{RUNS}::test_ctrl_c",),
    ),
    Mutant(
        "asyncio.an-error-of-the-block-commits",
        FACADE,
        "            await self._block.close(problem)\n",
        "            await self._block.close(None)\n",
        pytest=(f"{TESTS}::test_a_block_that_is_cancelled_leaves_its_group_and_commits_nothing",),
    ),
    Mutant(
        "clients.an-answer-is-unpacked-in-one-go",
        CONSUMER,
        "                await trio.lowlevel.cancel_shielded_checkpoint()\n",
        "                pass\n",
        pytest=(f"{TESTS}::test_others_have_their_turn_between_the_partitions_of_an_answer",),
    ),
    Mutant(
        "clients.a-poll-forgets-what-a-loop-left",
        CONSUMER,
        "        records = self._hand.rest()\n",
        "        records: list[Record] = []\n",
        pytest=(f"{TESTS}::test_a_loop_that_is_left_goes_on_where_it_was",),
    ),
    Mutant(
        "clients.a-seek-keeps-what-is-in-hand",
        CONSUMER,
        "        self._hand.put_down({partition})\n",
        "",
        pytest=(f"{TESTS}::test_a_loop_that_is_left_goes_on_where_it_was",),
    ),
)
