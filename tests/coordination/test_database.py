"""The embedded tree's file: transactions against a model, and what is found when it is opened again."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordination.database import LAYOUT, TreeDatabase, read_nodes
from ottla.coordination.tree import (
    BadVersion,
    Check,
    Create,
    Delete,
    EphemeralParent,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Set,
    Stat,
    Unavailable,
    parent_of,
)

PATHS = ["/a", "/b", "/a/a", "/a/b", "/a/a/a"]
REFUSALS = (BadVersion, EphemeralParent, NodeExists, NoNode, NotEmpty)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "tree")


@pytest.fixture
def database(path: str) -> Iterator[TreeDatabase]:
    opened = TreeDatabase(path)
    yield opened
    opened.close()


class Model:
    """A tree in the simplest words: path to (data, version, owner, czxid)."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[bytes, int, int, int]] = {"/": (b"", 0, 0, 0)}
        self.creations: dict[str, int] = {"/": 0}
        self.zxid = 0

    def children(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        return sorted(
            node[len(prefix) :]
            for node in self.nodes
            if node.startswith(prefix) and node != "/" and "/" not in node[len(prefix) :]
        )

    def multi(self, operations: list[Operation], session: int) -> bool:
        before = dict(self.nodes), dict(self.creations)
        for operation in operations:
            if not self._apply(operation, session):
                self.nodes, self.creations = before
                return False
        if any(not isinstance(operation, Check) for operation in operations):
            self.zxid += 1
        return True

    def _apply(self, operation: Operation, session: int) -> bool:
        path = operation.path
        if isinstance(operation, Create):
            parent = self.nodes.get(parent_of(path))
            if parent is None or parent[2]:
                return False
            if operation.sequential:
                path += f"{self.creations[parent_of(path)]:010d}"
            if path in self.nodes:
                return False
            self.creations[parent_of(path)] += 1
            self.creations[path] = 0
            self.nodes[path] = (operation.data, 0, session if operation.ephemeral else 0, self.zxid + 1)
            return True
        node = self.nodes.get(path)
        if node is None or operation.version not in (-1, node[1]):
            return False
        if isinstance(operation, Set):
            self.nodes[path] = (operation.data, node[1] + 1, *node[2:])
        elif isinstance(operation, Delete):
            if self.children(path):
                return False
            del self.nodes[path], self.creations[path]
        return True

    def end_session(self, session: int) -> None:
        gone = [path for path, node in self.nodes.items() if node[2] == session]
        for path in gone:
            del self.nodes[path], self.creations[path]
        self.zxid += bool(gone)


paths = st.sampled_from(PATHS)
versions = st.sampled_from([-1, -1, 0, 1])
data = st.binary(max_size=3)
operations = st.one_of(
    st.builds(Create, paths, data, st.booleans(), st.sampled_from([False, False, True])),
    st.builds(Create, paths, data),
    st.builds(Set, paths, data, versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)
steps = st.one_of(
    st.tuples(st.just("multi"), st.lists(operations, min_size=1, max_size=4), st.sampled_from([1, 2])),
    st.tuples(st.just("multi"), st.lists(operations, min_size=1, max_size=1), st.sampled_from([1, 2])),
    st.tuples(st.just("multi"), st.lists(st.builds(Create, paths), min_size=1, max_size=1), st.just(1)),
    st.tuples(st.just("commit")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("rollback")),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("end"), st.sampled_from([1, 2])),
    st.tuples(st.just("children"), paths),
)


@settings(max_examples=60, deadline=None)
@given(script=st.lists(steps, min_size=10, max_size=40))
def test_any_history_gives_what_the_model_gives(tmp_path_factory: pytest.TempPathFactory, script: list[Any]) -> None:
    file = str(tmp_path_factory.mktemp("model") / "tree")
    database, model = TreeDatabase(file), Model()
    committed = Model()
    for step, *arguments in script:
        match step:
            case "multi":
                wanted, session = arguments
                expected = model.multi(wanted, session)
                try:
                    database.multi(wanted, session)
                    done = True
                except REFUSALS:
                    done = False
                assert done == expected
            case "commit":
                database.commit()
                committed = copy_of(model)
            case "rollback":
                database.rollback()
                model = copy_of(committed)
            case "reopen":
                database.commit()
                database.close()
                for session in (1, 2):
                    model.end_session(session)
                database = TreeDatabase(file)
                model.zxid = database.multi([Set("/", b"")], 0)[0][0].mzxid
                database.commit()
                model.nodes["/"] = (b"", model.nodes["/"][1] + 1, 0, 0)
                committed = copy_of(model)
            case "end":
                database.end_session(arguments[0])
                model.end_session(arguments[0])
            case "children":
                if arguments[0] in model.nodes:
                    assert database.children(arguments[0]) == model.children(arguments[0])
        compare(database, model)
    database.close()


def copy_of(model: Model) -> Model:
    copy = Model()
    copy.nodes, copy.creations, copy.zxid = dict(model.nodes), dict(model.creations), model.zxid
    return copy


def compare(database: TreeDatabase, model: Model) -> None:
    for path in [*PATHS, *model.nodes]:
        node = database.get_or_none(path)
        expected = model.nodes.get(path)
        if expected is None:
            assert node is None, path
            continue
        assert node is not None, path
        stat = node.stat
        children = model.children(path)
        assert (node.data, stat.version, stat.ephemeral_owner) == expected[:3]
        assert stat.children_count == len(children)
        assert stat.cversion == model.creations[path] * 2 - len(children)


@pytest.mark.parametrize("committed", [False, True])
def test_a_refused_multi_changes_nothing_of_what_another_did(database: TreeDatabase, committed: bool) -> None:
    database.multi([Create("/a", b"1"), Create("/a/b")], 0)
    if committed:
        database.commit()
    before = database.get("/a")
    with pytest.raises(BadVersion):
        database.multi([Set("/a", b"2"), Create("/a/c"), Delete("/a/b"), Check("/a", 99)], 0)
    assert database.get("/a") == before
    assert database.children("/a") == ["b"]
    with pytest.raises(NodeExists):
        database.multi([Create("/a")], 0)


def test_what_was_committed_is_there_after_opening_again(path: str) -> None:
    database = TreeDatabase(path)
    database.multi([Create("/a", b"1")], 1)
    database.commit()
    first = database.get("/a").stat
    database.multi([Create("/b", b"not committed")], 1)
    database.close()
    database = TreeDatabase(path)
    assert database.get("/a").stat == first
    assert database.get_or_none("/b") is None
    database.multi([Create("/c")], 1)
    assert database.get("/c").stat.czxid > first.czxid
    database.close()


def test_ephemerals_of_a_process_that_is_gone_are_deleted_at_open(path: str) -> None:
    database = TreeDatabase(path)
    session = database.new_session()
    database.multi([Create("/brokers"), Create("/brokers/1", b"", ephemeral=True), Create("/kept")], session)
    database.commit()
    database.close()
    database = TreeDatabase(path)
    assert database.children("/") == ["brokers", "kept"]
    assert database.children("/brokers") == []
    stat = database.get("/brokers").stat
    assert (stat.children_count, stat.cversion) == (0, 2)
    assert database.new_session() > session
    database.close()


def test_a_czxid_is_never_given_twice(path: str) -> None:
    """The broker epoch: also not when the node and all others are gone."""
    seen = []
    for _ in range(3):
        database = TreeDatabase(path)
        database.multi([Create("/a", ephemeral=True)], database.new_session())
        database.commit()
        seen.append(database.get("/a").stat.czxid)
        database.close()
    assert seen == sorted(set(seen))


def test_a_second_owner_is_refused(path: str, database: TreeDatabase) -> None:
    with pytest.raises(Unavailable, match="in use by another process"):
        TreeDatabase(path)


def test_a_failed_opening_leaves_the_lock_free(path: str) -> None:
    Path(path).write_bytes(b"this is no database, but it is long enough to look like one" * 20)
    for _ in range(2):
        with pytest.raises(Unavailable, match="not a database"):
            TreeDatabase(path)


def test_another_sqlite_file_is_refused_and_not_changed(path: str) -> None:
    sql = sqlite3.connect(path)
    sql.execute("CREATE TABLE something (x)")
    sql.commit()
    sql.close()
    before = Path(path).read_bytes()
    with pytest.raises(Unavailable, match="not a coordination tree"):
        TreeDatabase(path)
    assert Path(path).read_bytes() == before


def test_a_layout_of_the_future_is_refused(path: str) -> None:
    TreeDatabase(path).close()
    sql = sqlite3.connect(path)
    sql.execute("PRAGMA user_version=99")
    sql.commit()
    sql.close()
    with pytest.raises(Unavailable, match="layout 99"):
        TreeDatabase(path)


def test_durability_settings(database: TreeDatabase) -> None:
    assert database._sql.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert database._sql.execute("PRAGMA synchronous").fetchone()[0] == 2


def test_odd_characters_in_the_path_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a?b#c%20d e"
    TreeDatabase(str(file)).close()
    assert file.exists()


def filled(path: str) -> list[tuple[str, bytes, Stat]]:
    """A tree of some sixty nodes; what is in it."""
    database = TreeDatabase(path)
    for number in range(20):
        parent = f"/topic-{number}"
        database.multi([Create(parent, b"%d" % number * 50), Create(f"{parent}/state", b'{"leader":1}')], 0)
        database.multi([Create(f"{parent}/gone"), Delete(f"{parent}/gone"), Set(parent, b"again" * number)], 0)
    database.commit()
    database.close()
    return contents(path)


def contents(path: str) -> list[tuple[str, bytes, Stat]]:
    return [(where, node.data, node.stat) for where, node in read_nodes(path)]


def test_a_flipped_bit_is_noticed_or_changes_nothing(path: str) -> None:
    """Anywhere in the file: what opens is what was written."""
    expected = filled(path)
    good = Path(path).read_bytes()
    noticed = 0
    for seed in range(400):
        chance = random.Random(seed)
        bad = bytearray(good)
        bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        Path(path).write_bytes(bad)
        try:
            TreeDatabase(path).close()
            assert contents(path) == expected, f"seed {seed}"
        except Unavailable:
            noticed += 1
        for name in ("-wal", "-shm"):
            Path(path + name).unlink(missing_ok=True)
    assert noticed > 50


def test_a_lost_node_is_noticed(path: str) -> None:
    filled(path)
    sql = sqlite3.connect(path)
    sql.execute("DELETE FROM node WHERE name = 'topic-3'")
    sql.commit()
    sql.close()
    with pytest.raises(Unavailable, match=r"is damaged: /.* children instead of"):
        TreeDatabase(path)


def test_a_file_without_checksums_gets_them(path: str) -> None:
    expected = filled(path)
    sql = sqlite3.connect(path)
    sql.execute("ALTER TABLE node DROP COLUMN checksum")
    sql.execute("PRAGMA user_version=1")
    sql.commit()
    sql.close()
    assert contents(path) == expected
    TreeDatabase(path).close()
    assert contents(path) == expected
    sql = sqlite3.connect(path)
    assert sql.execute("PRAGMA user_version").fetchone()[0] == LAYOUT
    sql.close()
    TreeDatabase(path).close()
