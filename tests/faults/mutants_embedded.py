"""Brokers inside a program: each promise broken once."""

from tests.faults.mutants import Mutant

_BROKER = "tests/embedded/test_broker.py::"
_CLUSTER = "tests/embedded/test_cluster.py::"
_TREE = "tests/coordination/test_embedded.py::"

MUTANTS = (
    Mutant(
        "embedded.a-kill-is-a-clean-stop",
        "python/ottla/broker/broker.py",
        "        self.logs.leave_unclean()\n",
        "",
        pytest=(f"{_BROKER}test_a_killed_broker_leaves_what_a_killed_process_does",),
    ),
    Mutant(
        "embedded.a-temporary-directory-stays",
        "python/ottla/embedded/broker.py",
        "            shutil.rmtree(directory, ignore_errors=True)\n",
        "            pass\n",
        pytest=(f"{_BROKER}test_a_temporary_directory_is_removed_and_another_one_is_not",),
    ),
    Mutant(
        "embedded.a-fork-has-a-broker",
        "python/ottla/embedded/broker.py",
        "        if self._process != os.getpid():\n            raise",
        "        if False:\n            raise",
        pytest=(f"{_BROKER}test_a_fork_has_no_broker",),
    ),
    Mutant(
        "embedded.a-cancelled-start-runs-on",
        "python/ottla/embedded/waiting.py",
        "task.exception() is None:\n            await asyncio.to_thread(otherwise)\n",
        "task.exception() is None:\n            pass\n",
        pytest=(f"{_BROKER}test_a_start_that_is_cancelled_leaves_nothing",),
    ),
    Mutant(
        "embedded.nobody-stops-it-at-the-end-of-the-program",
        "python/ottla/embedded/thread.py",
        "            thread._cancel()\n            thread._thread.join()\n",
        "            pass\n",
        pytest=(f"{_BROKER}test_a_program_that_ends_stops_it",),
    ),
    Mutant(
        "embedded.a-killed-broker-closes-its-session",
        "python/ottla/embedded/tree.py",
        "        tree.leave()\n",
        "",
        pytest=(f"{_CLUSTER}test_a_session_outlives_a_killed_broker",),
    ),
    Mutant(
        "embedded.a-session-never-ends",
        "python/ottla/embedded/tree.py",
        "            await self._store.end(session_id)\n",
        "",
        pytest=(f"{_CLUSTER}test_a_session_ends_in_time",),
    ),
    Mutant(
        "embedded.watches-are-told-in-the-first-loop",
        "python/ottla/coordination/embedded.py",
        "            self._post(partial(self._deliver, token, *share, state), token)\n",
        "            self._post(partial(self._deliver, token, *share, state), token if share[0] else None)\n",
        pytest=(f"{_TREE}test_sessions_of_two_loops_share_a_tree",),
    ),
    Mutant(
        "embedded.other-loops-do-not-hear-that-the-tree-failed",
        "python/ottla/coordination/embedded.py",
        "        if self._failed is not None or state is not self._told:\n",
        "        if state is not self._told:\n",
        pytest=(f"{_TREE}test_sessions_of_all_loops_hear_that_the_tree_failed",),
    ),
)
