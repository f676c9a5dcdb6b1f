"""The promises of `ottla.scan` and of `compact`: ends, columns, a row for a value, and the records that stay."""

from tests.faults.mutants import Mutant

SCAN = "python/ottla/reading/scan.py"
GIVEN = "python/ottla/reading/given.py"
ROWS = "python/ottla/reading/rows.py"
VALUES = "python/ottla/reading/json_values.py"
BROKERS = "python/ottla/reading/brokers.py"
DIRECTORY_TESTS = "tests/reading/test_scan.py"
BROKER_TESTS = "tests/reading/test_scan_brokers.py"
VALUE_TESTS = "tests/reading/test_json_values.py"

COMPACT = "python/ottla/log/compact.py"
COMPACT_TESTS = "tests/log/test_compact.py"

MUTANTS = (
    Mutant(
        "compact.records-that-replicas-may-lose",
        COMPACT,
        "        if not os.path.exists(os.path.join(root, OF_BROKERS)):\n",
        "        if True:\n",
        pytest=(f"{COMPACT_TESTS}::test_a_log_of_a_broker_keeps_what_replicas_may_lose",),
    ),
    Mutant(
        "compact.the-last-segment-is-left-out",
        COMPACT,
        "        log.roll()  # the last segment is never compacted\n",
        "",
        pytest=(f"{COMPACT_TESTS}::test_the_last_record_of_each_key_stays",),
    ),
    Mutant(
        "scan.records-that-consumers-may-not-see",
        SCAN,
        "(up_to is None and not any((Path(each) / OF_BROKERS).exists() for each in paths))",
        "up_to is None",
        pytest=(f"{DIRECTORY_TESTS}::test_as_far_as_consumers_may_see",),
    ),
    Mutant(
        "scan.the-log-of-a-program-is-empty",
        SCAN,
        "(up_to is None and not any((Path(each) / OF_BROKERS).exists() for each in paths))",
        "False",
        pytest=(f"{DIRECTORY_TESTS}::test_as_far_as_consumers_may_see",),
    ),
    Mutant(
        "scan.all-columns-are-decoded",
        ROWS,
        "else name in names)",
        "else True)",
        pytest=(f"{DIRECTORY_TESTS}::test_only_columns_that_are_asked_for_are_decoded",),
    ),
    Mutant(
        "scan.a-time-between-milliseconds-is-the-earlier-one",
        GIVEN,
        "-((EPOCH - when) // timedelta(milliseconds=1))",
        "(when - EPOCH) // timedelta(milliseconds=1)",
        pytest=(f"{DIRECTORY_TESTS}::test_ends",),
    ),
    Mutant(
        "scan.a-reader-that-is-left-keeps-its-connections",
        BROKERS,
        "    finally:\n        fetcher.close()\n",
        "    finally:\n        pass\n",
        pytest=(f"{BROKER_TESTS}::test_connections_end_with_the_reader",),
    ),
    Mutant(
        "scan.an-election-ends-a-read",
        "python/ottla/reading/fetching.py",
        "        except LeaderNotAvailable:\n            pass  #",
        "        except ZeroDivisionError:\n            pass  #",
        pytest=(f"{BROKER_TESTS}::test_an_election_under_a_scan",),
    ),
    Mutant(
        "scan.two-objects-are-two-rows",
        VALUES,
        "    if table.num_rows != len(texts):\n",
        "    if False:\n",
        pytest=(f"{VALUE_TESTS}::test_what_is_no_object_of_the_schema",),
    ),
    Mutant(
        "scan.a-value-lends-its-object-to-another",
        VALUES,
        '    if not all(text[:1] == b"{" and text[-1:] == b"}" for text in texts):\n',
        "    if False:\n",
        pytest=(f"{VALUE_TESTS}::test_as_many_objects_as_values_may_be_none_and_two",),
    ),
    Mutant(
        "scan.text-that-is-none",
        VALUES,
        "    data.decode()  # pyarrow does not look\n",
        "",
        pytest=(f"{VALUE_TESTS}::test_what_is_no_object_of_the_schema",),
    ),
)
