"""`ottla topic` against Apache's broker and ours."""

from .conftest import Ottla


def test_create_describe_alter_delete(ottla: Ottla, bootstrap: str) -> None:
    at = ("-b", bootstrap)
    assert ottla("topic", "create", "orders", "-p", "2", "-s", "retention.ms=1000", *at).out == "created topic orders\n"
    assert "orders" in ottla("topic", "list", *at).out.splitlines()
    (topic,) = ottla("topic", "describe", "orders", "--json", *at).json
    assert topic["settings"] == {"retention.ms": "1000"}  # type: ignore[index]
    assert [p["partition"] for p in topic["partitions"]] == [0, 1]  # type: ignore[index]
    assert all(p["in_sync"] == p["replicas"] == [p["leader"]] for p in topic["partitions"])  # type: ignore[index]

    alter = ottla("topic", "alter", "orders", "-p", "3", "-s", "cleanup.policy=compact", "-u", "retention.ms", *at)
    assert alter.out == "altered topic orders\n"
    (topic,) = ottla("topic", "describe", "orders", "--json", *at).json
    assert topic["settings"] == {"cleanup.policy": "compact"}  # type: ignore[index]
    assert len(topic["partitions"]) == 3  # type: ignore[index]
    text = ottla("topic", "describe", "orders", *at).out.splitlines()
    assert text[:3] == ["orders", "  cleanup.policy=compact", "  partition  leader  replicas  in sync  start  end"]
    (topic,) = ottla("topic", "describe", "orders", "--json", "--all-settings", *at).json
    assert topic["settings"]["segment.bytes"] == "1073741824"  # type: ignore[index]

    assert ottla("topic", "delete", "--yes", "orders", *at).out == "deleted topic orders\n"
    assert "orders" not in ottla("topic", "list", "--json", *at).json[0]  # type: ignore[operator]


def test_offsets_of_partitions(ottla: Ottla, bootstrap: str) -> None:
    at = ("-b", bootstrap)
    ottla("topic", "create", "counted", "-p", "2", *at)
    ottla("produce", "counted", "-p", "1", *at, stdin=b"a\nb\nc\n")
    rows = [line.split() for line in ottla("topic", "describe", "counted", *at).out.splitlines()[-2:]]
    assert [(row[0], *row[-2:]) for row in rows] == [("0", "0", "0"), ("1", "0", "3")]
    (topic,) = ottla("topic", "describe", "counted", "--json", *at).json
    assert [(row["start_offset"], row["end_offset"]) for row in topic["partitions"]] == [(0, 0), (0, 3)]  # type: ignore[index]


def test_nothing_is_deleted_where_nobody_can_be_asked(ottla: Ottla, bootstrap: str) -> None:
    at = ("-b", bootstrap)
    ottla("topic", "create", "kept", "-p", "1", *at)
    ottla("produce", "kept", *at, stdin=b"a\nb\n")
    asked = ottla("topic", "delete", "kept", *at, code=2)
    assert [line.split() for line in asked.out.splitlines()] == [["topic", "partitions", "records"], ["kept", "1", "2"]]
    assert "kept would be deleted, and nobody can be asked here: --yes does it without asking" in asked.err
    assert ottla("topic", "delete", "kept", "--dry-run", "--yes", *at).out == asked.out
    refused = ottla("topic", "delete", "--yes", "kept", "__consumer_offsets", *at, code=2).err
    assert "__consumer_offsets" in refused
    assert "--internal" in refused
    assert "kept" in ottla("topic", "list", "--json", *at).json[0]  # type: ignore[operator]


def test_create_twice(ottla: Ottla, bootstrap: str) -> None:
    ottla("topic", "create", "twice", "-b", bootstrap)
    again = ottla("topic", "create", "twice", "-b", bootstrap, code=1)
    assert again.out == ""
    assert again.err.startswith("Error: cannot create topic 'twice': ")
    assert again.err.endswith("(TOPIC_ALREADY_EXISTS)\n")
    assert len(again.err.splitlines()) == 1
    assert ottla("topic", "create", "twice", "--if-not-exists", "-b", bootstrap).out == "topic twice exists already\n"


def test_bad_input_says_what_and_why(ottla: Ottla, bootstrap: str) -> None:
    at = ("-b", bootstrap)
    assert "retention.mss" in ottla("topic", "create", "bad", "-s", "retention.mss=1", *at, code=1).err
    assert "retention.ms" in ottla("topic", "create", "bad", "-s", "retention.ms=-7", *at, code=1).err
    assert "(INVALID_TOPIC_EXCEPTION)" in ottla("topic", "create", "a/b", *at, code=1).err
    assert "(INVALID_REPLICATION_FACTOR)" in ottla("topic", "create", "bad", "-r", "9", *at, code=1).err
    assert "(UNKNOWN_TOPIC_OR_PARTITION)" in ottla("topic", "describe", "nowhere", *at, code=1).err
    assert "(UNKNOWN_TOPIC_OR_PARTITION)" in ottla("topic", "alter", "nowhere", "-s", "flush.ms=1", *at, code=1).err
    assert "(UNKNOWN_TOPIC_OR_PARTITION)" in ottla("topic", "delete", "--yes", "nowhere", *at, code=1).err
    ottla("topic", "create", "few", "-p", "2", *at)
    ottla("topic", "create", "dot.ted", *at)
    collides = ottla("topic", "create", "dot_ted", *at, code=1).err
    assert "a dot and an underline are the same" in collides
    assert "a topic's name has 1 to 249" not in collides
    assert "(INVALID_PARTITIONS)" in ottla("topic", "alter", "few", "-p", "1", *at, code=1).err
