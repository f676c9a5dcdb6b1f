"""Brokers inside a program: each promise broken once."""

from tests.faults.mutants import Mutant

_BLOCKS = "tests/embedded/test_blocks.py::"
_BROKER = "tests/embedded/test_broker.py::"
_CLUSTER = "tests/embedded/test_cluster.py::"
_FAULTS = "tests/embedded/test_faults.py::"
_DISK = "tests/embedded/test_disk_faults.py::"
_CLOCK = "tests/embedded/test_clock.py::"
_MOVES = "tests/embedded/test_moves.py::"
_POWER = "tests/embedded/test_power_loss.py::"
_TREE = "tests/coordination/test_embedded.py::"

MUTANTS = (
    Mutant(
        "embedded.the-end-of-a-block-hides-its-error",
        "python/ottla/embedded/block.py",
        "        try:\n            self.close()\n        except Exception as failure:\n            if error is None",
        "        try:\n            self.close()\n        except Exception as failure:\n            if True",
        pytest=(f"{_BLOCKS}test_the_error_of_the_block_goes_on",),
    ),
    Mutant(
        "embedded.a-cancellation-takes-a-failure-with-it",
        "python/ottla/embedded/block.py",
        "isinstance(error, trio.Cancelled | asyncio.CancelledError | GeneratorExit)",
        "False",
        pytest=(f"{_BLOCKS}test_a_cancelled_block_does_not_lose_it",),
    ),
    Mutant(
        "embedded.errors-turn-in-a-circle",
        "python/ottla/embedded/block.py",
        "    _first_of(failure, until=error).__context__ = None\n",
        "",
        pytest=(f"{_BLOCKS}test_the_row_of_errors_before_it_is_kept",),
    ),
    Mutant(
        "embedded.leases-have-another-clock",
        "rust/log/pending.rs",
        "            self.home.at(now_ms),\n",
        "            now_ms,\n",
        pytest=(f"{_CLOCK}test_records_that_come_by_a_lease_get_it_too",),
    ),
    Mutant(
        "embedded.records-do-not-grow-old-by-the-clock",
        "rust/log/directory.rs",
        "        let now_ms = self.home.at(now_ms);\n        let logs: Vec<_> = self.state",
        "        let logs: Vec<_> = self.state",
        pytest=(f"{_CLOCK}test_records_grow_old",),
    ),
    Mutant(
        "embedded.commits-have-another-clock",
        "python/ottla/broker/api/k08_offset_commit.py",
        "now_ms = rooms.groups.wall_ms()",
        "now_ms = __import__('time').time_ns() // 1_000_000",
        pytest=(f"{_CLOCK}test_committed_offsets_grow_old",),
    ),
    Mutant(
        "embedded.transactions-have-another-clock",
        "python/ottla/broker/parts.py",
        "        broker.wall_ms,\n",
        "        lambda: __import__('time').time_ns() // 1_000_000,\n",
        pytest=(f"{_CLOCK}test_transactions_time_out",),
    ),
    Mutant(
        "embedded.who-leads-already-is-the-next",
        "python/ottla/embedded/moves.py",
        "if each != state.leader and runs(each)",
        "if runs(each)",
        pytest=(f"{_MOVES}test_mistakes_are_told",),
    ),
    Mutant(
        "embedded.a-full-disk-takes-all",
        "rust/storage/brittle/mod.rs",
        "            Some(_) => bytes.len() / 2,\n",
        "            Some(_) => return Ok(()),\n",
        cargo=("storage::brittle::tests::a_rule_is_for_the_records_of_a_partition",),
    ),
    Mutant(
        "embedded.a-lost-fsync-is-done",
        "rust/storage/brittle/mod.rs",
        "            if deed.is_lost {\n",
        "            if false {\n",
        cargo=("storage::brittle::tests::an_fsync_fails_or_is_lost",),
    ),
    Mutant(
        "embedded.a-page-in-memory-hides-a-broken-disk",
        "rust/storage/brittle/mod.rs",
        "        if place.is_some_and(|place| self.disk.rules.is_due(Operation::Read, place)) {\n",
        "        if false && place.is_some() {\n",
        cargo=("storage::brittle::tests::a_read_that_is_to_fail_is_no_read_of_memory",),
    ),
    Mutant(
        "embedded.what-was-open-outlives-the-power",
        "rust/storage/brittle/mod.rs",
        "        *life += 1;\n",
        "        *life += 0;\n",
        cargo=("storage::brittle::tests::content_is_as_of_the_last_fsync",),
    ),
    Mutant(
        "embedded.overwritten-bytes-stay-overwritten",
        "rust/storage/brittle/ledger.rs",
        "self.saved.iter().rev()",
        "self.saved.iter()",
        cargo=("storage::brittle::tests::content_is_as_of_the_last_fsync",),
    ),
    Mutant(
        "embedded.folders-move-away-from-what-happened-in-them",
        "rust/storage/brittle/ledger.rs",
        "earlier.moved(&from, &to)",
        "earlier.moved(&to, &from)",
        cargo=("storage::brittle::tests::what_happened_in_a_folder_is_undone_where_the_folder_is_now",),
    ),
    Mutant(
        "embedded.a-lost-power-is-no-new-start-of-the-machine",
        "python/ottla/embedded/disk.py",
        'boot_id=""',
        "boot_id=known.boot_id",
        pytest=(f"{_POWER}test_a_cluster_that_loses_its_power_has_what_a_disk_had",),
    ),
    Mutant(
        "embedded.a-failed-directory-stays-locked",
        "python/ottla/embedded/thread.py",
        "                await directories.close_failed(directory)\n",
        "                pass\n",
        pytest=(f"{_DISK}test_a_disk_that_fails_ends_its_broker",),
    ),
    Mutant(
        "embedded.power-takes-nothing",
        "python/ottla/embedded/broker.py",
        "                self._disk.lose_power(directory, seed)\n",
        "                pass\n",
        pytest=(f"{_POWER}test_what_was_not_flushed_is_gone",),
    ),
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
    Mutant(
        "embedded.leases-stay-with-a-fault",
        "python/ottla/replication/leases.py",
        "        if are_aside:\n            self._end_all()\n",
        "",
        pytest=(f"{_FAULTS}test_leases_end_with_a_fault_and_come_back_after_the_last",),
    ),
    Mutant(
        "embedded.leases-do-not-come-back-after-the-last-hit",
        "python/ottla/broker/faults/dispatch.py",
        "        # It may have been the last one.\n        self.arrange()\n",
        "",
        pytest=(f"{_FAULTS}test_leases_end_with_a_fault_and_come_back_after_the_last",),
    ),
    Mutant(
        "embedded.a-late-error-without-the-work",
        "python/ottla/broker/faults/dispatch.py",
        "            there = rooms if deed.after else Rooms(rooms, deed.about, code)\n",
        "            there = Rooms(rooms, deed.about, code)\n",
        pytest=(f"{_FAULTS}test_nothing_is_done_before_an_error_and_all_before_a_late_one",),
    ),
    Mutant(
        "embedded.what-rests-in-a-session-does-not-fail",
        "python/ottla/broker/faults/dispatch.py",
        "            session.live.setdefault(key, entry)\n",
        "            pass\n",
        pytest=(f"{_FAULTS}test_a_fetch_fails_that_does_not_name_its_partitions",),
    ),
    Mutant(
        "embedded.other-rows-fail-too",
        "python/ottla/broker/faults/partitions.py",
        "        if self._about.covers(Names(*key)):\n",
        "        if True:\n",
        pytest=(f"{_FAULTS}test_other_rows_of_a_request_are_served",),
    ),
    Mutant(
        "embedded.clients-share-a-count",
        "python/ottla/embedded/random_faults.py",
        "        client = asked.client_id, asked.api.name\n",
        '        client = "", asked.api.name\n',
        pytest=("tests/embedded/test_random_faults.py::test_a_seed_has_the_same_requests_fail_again",),
    ),
    Mutant(
        "embedded.faults-outlive-their-test",
        "python/pytest_ottla/__init__.py",
        "        broker.faults.clear()\n",
        "        pass\n",
        pytest=("tests/embedded/test_fixtures.py::test_faults_end_with_their_test",),
    ),
)
