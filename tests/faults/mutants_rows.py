"""The cost of requests with many rows to others: each promise broken once."""

from tests.faults.mutants import Mutant

TOPIC_CHANGES = "tests/controller/test_topic_changes.py"
FREEING = "tests/broker/loop/test_freeing.py"

MUTANTS = (
    Mutant(
        "broker.fetch-of-many-partitions-holds-up-others",
        "python/ottla/slices.py",
        "            await slices.row(1 if count is None else count)\n",
        "            pass\n",
        pytest=("tests/broker/loop/test_many_partitions.py::test_others_run_between_pieces",),
    ),
    Mutant(
        "broker.a-controllers-request-waits-for-clients",
        "python/ottla/broker/call.py",
        "        return Slices(own=self.api.is_between_brokers)\n",
        "        return Slices()\n",
        pytest=("tests/broker/loop/test_lines.py",),
    ),
    Mutant(
        "broker.a-controllers-request-is-decoded-behind-clients",
        "python/ottla/broker/request_memory.py",
        "    slices = Slices(own=api.is_between_brokers)\n",
        "    slices = Slices()\n",
        pytest=("tests/broker/loop/test_lines.py",),
    ),
    Mutant(
        "broker.memory-of-controllers-is-given-back-behind-clients",
        "python/ottla/broker/request_memory.py",
        "Sum(bound, own=True)",
        "Sum(bound)",
        pytest=("tests/broker/loop/test_lines.py",),
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
        "broker.what-a-handler-made-goes-at-once",
        "python/ottla/broker/freeing.py",
        "    def __del__(self) -> None:\n        free_soon(self._lists)\n",
        "",
        pytest=(f"{FREEING}::test_what_a_handler_has_made_goes_slice_by_slice_however_it_ends",),
    ),
    Mutant(
        "broker.what-others-have-is-freed-too",
        "python/ottla/broker/freeing.py",
        "        if getrefcount(rows) > ALONE:\n            continue\n",
        "",
        pytest=(f"{FREEING}::test_what_somebody_else_has_of_it_stays", FREEING),
    ),
    Mutant(
        "broker.a-large-answer-goes-at-once",
        "python/ottla/broker/call.py",
        "[] if pieces < PIECES_FREED_AT_ONCE else lists_of(answer)",
        "[]",
        pytest=(f"{FREEING}::test_a_large_answer_goes_slice_by_slice_when_it_is_given",),
    ),
    Mutant(
        "broker.long-lists-in-short-ones-go-at-once",
        "python/ottla/broker/freeing.py",
        "                found += _long_lists(row)\n",
        "                pass\n",
        pytest=(f"{FREEING}::test_a_long_list_goes_slice_by_slice_however_deep_it_is",),
    ),
    Mutant(
        "broker.all-topics-are-read-for-each",
        "python/ottla/controller/topic_changes.py",
        "                self._names = names\n",
        "",
        pytest=(f"{TOPIC_CHANGES}::test_a_request_for_many_topics_reads_what_is_there_once",),
    ),
    Mutant(
        "broker.a-message-of-any-length",
        "python/ottla/errors.py",
        "        if len(message) > MESSAGE_MAX:\n",
        "        if False:\n",
        pytest=("tests/broker/loop/test_longest_names.py",),
    ),
    Mutant(
        "broker.the-controllers-events-in-one-go",
        "python/ottla/controller/controller.py",
        "            # Thousands of topics that are gone are as many events, of which each has little to do.\n"
        "            await slices.row()\n",
        "",
        pytest=("tests/controller/test_many.py::test_events_with_little_to_do_are_not_all_in_one_slice",),
    ),
    Mutant(
        "broker.rows-in-transactions-of-their-own",
        "python/ottla/controller/writes.py",
        "at - begin == ROWS_AT_ONCE",
        "True",
        pytest=("tests/controller/test_writes.py", "tests/broker/loop/test_costs_of_rows.py"),
    ),
    Mutant(
        "broker.a-row-fails-with-its-neighbour",
        "python/ottla/controller/writes.py",
        "        except (BadVersion, NodeExists, NoNode):\n            pass\n",
        "        except (BadVersion, NodeExists, NoNode):\n            raise\n",
        pytest=("tests/controller/test_writes.py",),
    ),
    Mutant(
        "broker.a-request-for-any-number-of-partitions",
        "python/ottla/controller/topic_changes.py",
        "        if self.made + more > REQUEST_PARTITIONS_MAX:\n",
        "        if False:\n",
        pytest=(
            f"{TOPIC_CHANGES}::test_all_topics_of_a_request_together_have_no_more_partitions_than_a_cluster",
            "tests/broker/admin/test_new_partitions.py",
        ),
    ),
)
