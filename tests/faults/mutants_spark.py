"""What a Spark query promises: it begins once, loses nothing for an early restart, and drops no rows for done."""

from tests.faults.mutants import Mutant

STREAM = "python/ottla/spark/stream.py"
BOUNDS = "python/ottla/reading/bounds.py"
BROKERS = "python/ottla/reading/brokers.py"
PROTOCOL = "python/ottla/spark/sink/protocol.py"
COMMIT = "python/ottla/spark/sink/commit.py"
COLUMNS = "rust/records/columns.rs"
READER = "tests/spark/test_stream_reader.py"
ONCE = "tests/spark/test_exactly_once.py"

MUTANTS = (
    Mutant(
        "spark.the-end-of-a-connection-is-a-task",
        "python/ottla/spark/early/daemon.py",
        " if begins else 1\n",
        "\n",
        pytest=("tests/spark/test_local.py::test_an_idle_worker_whose_connection_ends_says_nothing",),
    ),
    Mutant(
        "spark.a-stream-begins-twice",
        STREAM,
        "        if self._beginning is None:\n            self._beginning = place",
        "        if True:\n            self._beginning = place",
        pytest=(f"{READER}::test_where_a_stream_starts_is_decided_once",),
    ),
    Mutant(
        "spark.the-first-batch-has-rows-from-latest",
        STREAM,
        "begin[each] if each in self._beginning.at_end else end for",
        "end for",
        pytest=(f"{READER}::test_where_a_stream_starts_is_decided_once",),
    ),
    Mutant(
        "spark.a-repeated-first-batch-begins-later",
        STREAM,
        "            each: min(offset, until[each]) if each in moves else offset\n",
        "            each: offset\n",
        pytest=(f"{READER}::test_a_first_batch_that_failed_is_repeated",),
    ),
    Mutant(
        "spark.what-was-found-by-time-stays-there",
        BOUNDS,
        "frozenset(found) if by_time else frozenset(at_end)",
        "frozenset(at_end)",
        pytest=(f"{READER}::test_a_first_batch_that_failed_is_repeated",),
    ),
    Mutant(
        "spark.a-deleted-topic-ends-a-lenient-query",
        BROKERS,
        "    may_lack = begun and not options.fail_on_data_loss\n",
        "    may_lack = False\n",
        pytest=(f"{READER}::test_a_named_topic_that_is_deleted_under_a_stream",),
    ),
    Mutant(
        "sink.another-batch-of-the-same-number-is-done",
        COMMIT,
        "        check_same(previous, contents, options.topic)\n",
        "        pass\n",
        pytest=(f"{ONCE}::test_a_checkpoint_is_rolled_back_by_one_batch",),
    ),
    Mutant(
        "sink.as-many-rows-are-the-same-rows",
        PROTOCOL,
        "    planned = known.plan is not None and found.plan is not None\n",
        "    planned = False\n",
        pytest=(f"{ONCE}::test_a_plan_tells_batches_apart_that_have_as_many_rows",),
    ),
    Mutant(
        "sink.the-rows-of-another-topic-are-done",
        PROTOCOL,
        "    is_elsewhere = topic is not None and not set(known.rows) <= {topic}\n",
        "    is_elsewhere = False\n",
        pytest=(f"{ONCE}::test_a_checkpoint_is_copied_to_write_to_another_topic",),
    ),
    Mutant(
        "records.a-timestamp-becomes-another",
        COLUMNS,
        "                let timestamp = timestamp_ms.checked_mul(scale);\n",
        "                let timestamp = Some(timestamp_ms.saturating_mul(scale));\n",
        cargo=("records::tests::columns::timestamps_that_microseconds_cannot_hold",),
    ),
)
