"""What a broker promises to clients, groups and transactions: each promise broken once."""

from tests.faults.mutants import Mutant

PARTITION = "tests/replication/test_partition.py"
INTERNAL = "tests/replication/test_internal_topic.py"
LEASES = "tests/broker/test_leases.py"
DELAYS = "tests/faults/broker/test_delays.py"
KILLS = "tests/faults/broker/test_kills.py"

MUTANTS = (
    Mutant(
        "broker.ack-before-high-watermark",
        "python/ottla/replication/partition.py",
        "return last_offset < self.log.high_watermark and (not",
        "return (not",
        pytest=(f"{PARTITION}::test_with_followers_the_high_watermark_waits_for_them", PARTITION),
    ),
    Mutant(
        "broker.ack-before-the-disk",
        "python/ottla/replication/partition.py",
        "return self.flush_on_acks_all and self.state is not None and len(self.state.replicas) == 1",
        "return False",
        pytest=(f"{PARTITION}::test_acks_all_on_one_replica_waits_for_the_disk",),
    ),
    Mutant(
        "broker.ack-though-the-write-failed",
        "python/ottla/replication/turn.py",
        "            if lost:\n",
        "            if False:\n",
        pytest=("tests/broker/test_turns.py::test_what_cannot_be_written_is_not_acknowledged",),
    ),
    Mutant(
        "broker.commit-answered-at-local-append",
        "python/ottla/replication/internal_topic.py",
        "        if self._is_safe_at_once:\n",
        "        if True:\n",
        pytest=(
            f"{INTERNAL}::test_an_append_waits_for_the_other_replicas",
            "tests/group/test_coordinator.py::test_a_commit_is_not_answered_while_another_replica_lacks_it",
        ),
    ),
    Mutant(
        "broker.coordinator-loads-all-but-the-last-batch",
        "python/ottla/replication/internal_topic.py",
        "        self._end = partition.log.end_offset\n",
        "        self._end = partition.log.end_offset - 1\n",
        pytest=(f"{INTERNAL}::test_what_is_appended_is_on_disk_and_loads_as_it_was",),
    ),
    Mutant(
        "broker.aborted-commits-count-after-a-restart",
        "python/ottla/group/loading.py",
        "        if not is_commit:\n            return\n",
        "",
        pytest=("tests/group/test_loading.py::test_a_transaction_counts_when_it_commits",),
    ),
    Mutant(
        "broker.fetch-forgets-the-epoch",
        "python/ottla/replication/partition.py",
        "        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:\n",
        "        if False:\n",
        pytest=("tests/broker/test_produce_fetch.py::test_unknown_partitions_and_stale_epochs",),
    ),
    Mutant(
        "broker.stop-cuts-off-who-waits",
        "python/ottla/broker/broker.py",
        "                self.metadata.stop()\n",
        "",
        pytest=("tests/broker/test_stopping.py",),
    ),
    Mutant(
        "broker.late-mark-deletes-a-later-topic",
        "python/ottla/controller/admin.py",
        "        if found is None or found.czxid != born:\n",
        "        if found is None:\n",
        pytest=("tests/controller/test_admin.py::test_a_lost_answer_deletes_no_later_topic_of_the_name",),
    ),
    Mutant(
        "broker.controller-deletes-a-later-topic",
        "python/ottla/controller/store.py",
        "                        if stat is None or stat.czxid != czxid:\n",
        "                        if stat is None:\n",
        pytest=(
            "tests/controller/test_admin.py::test_a_lost_answer_to_the_controller_deletes_no_later_topic_of_the_name",
        ),
    ),
    Mutant(
        "broker.lease-outlives-the-epoch",
        "python/ottla/replication/partition.py",
        "            return False\n        self.end_lease()\n        self.state = state\n",
        "            return False\n        self.state = state\n",
        pytest=(f"{LEASES}::test_whatever_happens_to_the_partition_ends_its_lease",),
    ),
    Mutant(
        "broker.lease-outlives-the-leader",
        "python/ottla/replication/partition.py",
        "        self.end_lease()\n        self.is_leader = False\n",
        "        self.is_leader = False\n",
        pytest=(f"{LEASES}::test_whatever_happens_to_the_partition_ends_its_lease",),
    ),
    Mutant(
        "broker.lease-answers-what-was-lost",
        "rust/py/net/lease.rs",
        ".map_or(0, |(.., code)| *code)",
        ".map_or(0, |_| 0)",
        pytest=("tests/broker/test_turns.py::test_what_cannot_be_written_is_not_acknowledged",),
    ),
    Mutant(
        "broker.lease-for-acks-all",
        "rust/py/net/lease.rs",
        "request.acks == ALL && !lease.acknowledges_all",
        "request.acks > 1",
        pytest=(f"{LEASES}::test_what_is_not_plain_comes_to_python",),
    ),
    Mutant(
        "broker.lease-moves-the-high-watermark-of-others",
        "rust/py/net/lease.rs",
        "            lease.is_alone && !flush_due",
        "            !flush_due",
        pytest=(f"{LEASES}::test_with_another_replica_in_sync_the_high_watermark_waits",),
    ),
    Mutant(
        "broker.lease-forgets-who-waits-in-python",
        "rust/py/net/lease.rs",
        " && lease.fetches.bind(py).is_empty()",
        "",
        pytest=(f"{LEASES}::test_who_waits_in_python_is_woken_too",),
    ),
    Mutant(
        "broker.lease-forgets-who-waits-in-the-hub",
        "python/ottla/replication/partition.py",
        "            if self.lease is not None:\n                self.lease.advanced(self)\n",
        "",
        pytest=(f"{LEASES}::test_records_that_python_appends_wake_them_too",),
    ),
    Mutant(
        "broker.lease-ends-and-fetches-wait-on",
        "rust/py/net/lease.rs",
        "            self.release(hub, &ended);\n",
        "            drop(ended);\n",
        pytest=(f"{LEASES}::test_the_end_of_a_lease_is_the_end_of_waiting",),
    ),
    Mutant(
        "broker.lease-outlives-settings",
        "python/ottla/replication/replicas.py",
        "        partition.end_lease()\n        partition.min_insync_replicas",
        "        partition.min_insync_replicas",
        pytest=(f"{LEASES}::test_other_settings_end_a_lease",),
    ),
    Mutant(
        "broker.replaced-producer-may-commit",
        "python/ottla/transaction/transaction.py",
        "        if epoch != self.epoch:\n            raise ProducerFenced\n",
        "",
        pytest=(f"{DELAYS}::test_the_commit_of_a_replaced_producer_arrives_in_the_next_transaction",),
    ),
    Mutant(
        "broker.newer-producer-does-not-raise-the-epoch",
        "python/ottla/transaction/transaction.py",
        "            self.epoch += 1\n",
        "",
        pytest=("tests/transaction/test_transaction.py::test_a_newer_producer_aborts_and_fences",),
    ),
    Mutant(
        "broker.verification-forgets-the-epoch",
        "python/ottla/transaction/transaction.py",
        "        elif epoch != self.epoch:\n            # Not",
        "        elif False:\n            # Not",
        pytest=("tests/transaction/test_transaction.py::test_verification",),
    ),
    Mutant(
        "broker.stable-offset-ignores-open-transactions",
        "python/ottla/replication/partition.py",
        "        return self.log.last_stable_offset\n",
        "        return self.log.high_watermark\n",
        pytest=(f"{DELAYS}::test_the_commit_of_a_replaced_producer_arrives_in_the_next_transaction",),
    ),
    Mutant(
        "broker.transaction-completes-before-its-markers",
        "python/ottla/transaction/outbox.py",
        "        ending.transaction.markers_written(list(partitions))\n",
        "        ending.transaction.markers_written(list(ending.transaction.partitions))\n",
        pytest=("tests/transaction/test_model.py::test_any_order_of_events",),
    ),
    Mutant(
        "broker.protocol-named-twice-counts-twice",
        "python/ottla/group/roster.py",
        "        self._supported.update({name for name, _ in member.protocols})\n",
        "        self._supported.update(name for name, _ in member.protocols)\n",
        pytest=("tests/faults/broker/test_found.py::test_a_protocol_that_is_named_twice",),
    ),
    Mutant(
        "broker.tree-without-checksums",
        "python/ottla/coordination/database.py",
        " or _checksum(parent, name, values) != checksum:\n",
        ":\n",
        pytest=("tests/coordination/test_database.py::test_a_flipped_bit_is_noticed_or_changes_nothing",),
    ),
    Mutant(
        "broker.fetch-below-zero-is-an-internal-error",
        "python/ottla/broker/api/k01_fetch.py",
        "        except OverflowError:",
        "        except ZeroDivisionError:",
        pytest=("tests/faults/broker/test_found.py::test_a_fetch_of_less_than_nothing",),
    ),
    Mutant(
        "broker.fetch-answered-before-its-cold-place-is-found",
        "python/ottla/broker/api/k01_fetch.py",
        "    rows, read, is_due = _read_cached(broker, request, fetch, asked, cold)\n    if not cold.missing:\n",
        "    rows, read, is_due = _read_cached(broker, request, fetch, asked, cold)\n    if True:\n",
        pytest=("tests/broker/test_cold_fetches.py",),
    ),
    Mutant(
        "broker.cold-partitions-take-no-room",
        "python/ottla/broker/api/k01_fetch.py",
        "                    left -= size\n",
        "",
        pytest=("tests/broker/test_cold_fetches.py",),
    ),
    Mutant(
        "broker.what-is-wrong-with-a-cold-place-is-not-told",
        "python/ottla/broker/api/k01_fetch.py",
        "                raise known\n",
        "                continue\n",
        pytest=("tests/broker/test_cold_fetches.py",),
    ),
    Mutant(
        "broker.large-readers-go-first",
        "rust/net/hub/turns.rs",
        "        self.resumed.extend(self.unfinished.drain(..));\n",
        """        for id in mem::take(&mut self.unfinished) {
            if let Some(connection) = self.connections.get(id) {
                connection.in_unfinished = false;
            }
            self.mark_dirty(id);
        }
""",
        cargo=("net::tests::who_has_more_to_send_goes_on_after_the_others",),
    ),
    Mutant(
        "broker.partitions-without-end",
        "python/ottla/controller/admin.py",
        "    if new_partitions > NEW_PARTITIONS_MAX:\n",
        "    if False:\n",
        pytest=("tests/faults/broker/test_found.py::test_partitions_without_end",),
    ),
    Mutant(
        "broker.stable-offset-ignores-open-transactions-under-kills",
        "python/ottla/replication/partition.py",
        "        return self.log.last_stable_offset\n",
        "        return self.log.high_watermark\n",
        pytest=(f"{KILLS}::test_nothing_is_lost_or_twice",),
        env=("OTTLA_FAULT_SECONDS=15",),
    ),
    Mutant(
        "broker.coordinator-loads-all-but-the-last-batch-under-kills",
        "python/ottla/replication/internal_topic.py",
        # Of however many records: a commit of two partitions is one batch of two.
        "            if batch.info.base_offset < self._end:\n",
        "            if batch.info.last_offset + 1 < self._end:\n",
        pytest=(f"{KILLS}::test_commits_never_go_back", f"{KILLS}::test_every_record_was_copied_once"),
        env=("OTTLA_FAULT_SECONDS=15",),
    ),
    Mutant(
        "broker.metadata-before-the-controller-has-spoken",
        "python/ottla/broker/api/k03_metadata.py",
        "    if not cache.is_known:\n",
        "    if False:\n",
        pytest=("tests/broker/test_starting.py",),
    ),
    Mutant(
        "broker.deletion-believes-the-brokers-own-metadata",
        "python/ottla/broker/api/k20_delete_topics.py",
        "                if name not in in_tree:\n",
        "                if True:\n",
        pytest=("tests/broker/test_starting.py::test_a_topic_that_was_not_told_of_yet_is_deleted",),
    ),
    Mutant(
        "broker.deleted-records-are-back-after-a-move",
        "python/ottla/replication/log_manager.py",
        "        targets = [self._future_homes.get(key) for key in keys]\n",
        "        targets = [None for key in keys]\n",
        pytest=("tests/replication/test_moves.py::test_a_deletion_of_records_during_a_move_survives_a_crash",),
    ),
    Mutant(
        "broker.the-log-that-has-deleted-records-is-kept",
        "python/ottla/replication/log_manager.py",
        "            if log.end_offset == other.end_offset and (is_left_over or goes_on):\n",
        "            if False:\n",
        pytest=("tests/replication/test_moves.py::test_records_that_were_deleted_in_the_new_one_alone_stay_deleted",),
    ),
)
