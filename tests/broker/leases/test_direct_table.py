"""The table of checks in `rust/direct/mod.rs` and what the handlers ask are the same.

A request under a lease does not come to its handler. So a check that is added to a handler would be left out as soon
as a partition has a lease. These tests fail then: decide where the check is made under a lease, add it to the table,
and name here what the handler asks.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.broker import requests
from ottla.broker.api import k00_produce
from ottla.broker.requests import Requests

ROOT = Path(__file__).parents[3]
TABLE = ROOT / "rust" / "direct" / "mod.rs"
PLACES = {"hub", "here", "terms", "broker", "log"}
#: Python files that serve a Fetch.
FETCH_FILES = ("broker/api/k01_fetch.py", "broker/fetch/*.py")

MAY_WRITE = "everyone may write; or it is known that this client may, and with producer ids"
MAY_READ = "everyone may read; or it is known that this client may read, or follow"

#: What serves a Produce.
PRODUCE_FUNCTIONS = (k00_produce.handle, k00_produce._serve)

#: What these ask in their conditions, and the row of the table that it belongs to. None: it decides
#: nothing about who may do what, but how a Produce that passed goes on.
PRODUCE_ASKS = {
    "acks": "acks is 0 or 1; or all, where no flush is waited for",
    "needs_flush": "acks is 0 or 1; or all, where no flush is waited for",
    "ACKS_ALL": "acks is 0 or 1; or all, where no flush is waited for",
    "version": "version is 3 or later",
    "BATCHES_SINCE": "version is 3 or later",
    "len": "one partition",
    "ROWS": "one partition",
    "partition": "partition is known, this broker leads it, its directory is in use",
    "is_leader": "partition is known, this broker leads it, its directory is in use",
    "is_internal": "topic is not internal",
    "call": "topic is not internal",
    "client_id": "topic is not internal",
    "ADMIN_CLIENT": "topic is not internal",
    "has_records": "records are there",
    "has_enough_replicas": "enough replicas in sync, for acks=all",
    "produce": "outside of transactions (transactional id, transactional batch)",
    "is_transactional": "outside of transactions (transactional id, transactional batch)",
    "verified": "outside of transactions (transactional id, transactional batch)",
    "error": "outside of transactions (transactional id, transactional batch)",
    "errors": "outside of transactions (transactional id, transactional batch)",
    "get": "outside of transactions (transactional id, transactional batch)",
    "refused": "outside of transactions (transactional id, transactional batch)",
    "index": "outside of transactions (transactional id, transactional batch)",
    **dict.fromkeys(("rights", "may", "lacking", "Operation", "WRITE", "Resource", "TOPIC", "topic"), MAY_WRITE),
    "is_plain": None,
    "lease": None,
    "info": None,
}

#: What they call. A check may stand in a call that raises, without a condition around it: a new name
#: here needs a row of the table like a new condition.
PRODUCE_CALLS = {
    "produce": "version is 3 or later",
    "get": "partition is known, this broker leads it, its directory is in use",
    "leader_error": "partition is known, this broker leads it, its directory is in use",
    "error_where_absent": "partition is known, this broker leads it, its directory is in use",
    "may_write": "outside of transactions (transactional id, transactional batch)",
    "verify": "outside of transactions (transactional id, transactional batch)",
    "append": "length, checksum, every field of every record, one batch, no control batch",
    "grant": "no quotas",
    "lacking": MAY_WRITE,
    "may": MAY_WRITE,
    "tell_writer": None,
    "ProduceRow": None,
    "DelayedProduce": None,
    "_serve": None,
    "appended": None,
    "answer": None,
    "append_later": None,
    "enumerate": None,
    "in_background": None,
    "len": None,
    "named": None,
    "partial": None,
    "refuse": None,
    "settle": None,
    "token": None,
}

#: The errors that files which serve a Fetch know, and the row that they belong to. None: no check of theirs.
FETCH_ERRORS = {
    "KafkaError": None,
    "NotLeaderOrFollower": "partition is known, this broker leads it, its directory is in use",
    "StorageError": "partition is known, this broker leads it, its directory is in use",
    "UnknownTopicOrPartition": "partition is known, this broker leads it, its directory is in use",
    "UnsupportedVersion": "version is 4 or later (batches are read as they are stored)",
    "UnsupportedCompressionType": "version is 10 or later, where the topic is compressed with zstd",
    "OffsetOutOfRange": "leader epoch is not told or the same; no epoch of a consumer's last record",
    "TopicAuthorizationFailed": MAY_READ,
    "FetchSessionIdNotFound": "no session, or one that Python has lent, in its epoch, with nothing of it waiting",
    "InvalidFetchSessionEpoch": "no session, or one that Python has lent, in its epoch, with nothing of it waiting",
}

#: What `Requests` asks before a handler is called.
DISPATCH_ASKS: dict[str, str | None] = {
    "quotas": "no quotas",
    "_serving": "no quotas",
    "_has_quotas": "no quotas",
    "has_quotas": "no quotas",
    "is_task": None,
}
#: Where it is found.
DISPATCH_ASKS |= dict.fromkeys(("self", "call", "way", "api", "done"))
#: A log that is told of all requests is told of those without a lease.
DISPATCH_ASKS |= dict.fromkeys(("_is_logged",))
DISPATCH_ASKS |= dict.fromkeys(("request", "awaits_principal"), "it is known whom the client's certificate stands for")
#: Produce and Fetch are not among those that brokers alone send.
DISPATCH_ASKS |= dict.fromkeys(("is_between_brokers", "session", "may_be_broker"))
DISPATCH_ASKS |= dict.fromkeys(("rights", "might", "Operation", "CLUSTER_ACTION", "Resource", "CLUSTER"))
#: Large requests but Produce and Fetch are decoded in pieces.
DISPATCH_ASKS |= dict.fromkeys(("is_large", "key", "DECODED_BY_HANDLERS"))
#: What `Requests` consists of.
DISPATCH = (Requests.handle, Requests._serve, Requests._serve_measured, Requests._serve_large, requests._has_quotas)


def rows() -> dict[tuple[str, str], set[str]]:
    """Places by request and check."""
    checks = TABLE.read_text().partition("# The table of checks")[2]
    lines = [line.strip("|").split("|") for line in re.findall(r"^//! (\|.*\|)$", checks, re.MULTILINE)]
    table = {(cells[0].strip(), cells[1].strip()): set(cells[2].strip().split(", ")) for cells in lines[2:]}
    assert len(table) == len(lines) - 2, "a check stands there twice"
    return table


def asked(function: Callable[..., Any]) -> set[str]:
    """All names and attributes in the conditions of a function, and in what conditions are kept in (`is_plain`)."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    names: set[str] = set()
    for node in ast.walk(tree):
        tests = [node.test] if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert) else []
        tests += [node] if isinstance(node, ast.BoolOp | ast.Compare) else []
        for part in (part for test in tests for part in ast.walk(test)):
            if isinstance(part, ast.Name):
                names.add(part.id)
            elif isinstance(part, ast.Attribute):
                names.add(part.attr)
    return names


def called(function: Callable[..., Any]) -> set[str]:
    """The names of all that a function calls."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    functions = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {part.attr if isinstance(part, ast.Attribute) else part.id for part in functions}


def test_every_check_has_a_place() -> None:
    for check, places in rows().items():
        assert places <= PLACES, check


def test_what_produce_asks_is_in_the_table() -> None:
    assert set().union(*map(asked, PRODUCE_FUNCTIONS)) - {"rooms"} == set(PRODUCE_ASKS)
    table = {check for request, check in rows() if request == "Produce"}
    named = {check for check in PRODUCE_ASKS.values() if check is not None}
    assert named <= table
    for request, check in rows():
        if request == "Produce" and check not in named:
            # The hub, the log and the dispatcher ask; or everyone may do it, and no handler asks yet.
            assert rows()[request, check] & {"hub", "log", "broker"} or check in (
                "everyone may write",
                "format 2; zstd from version 7 on",
                "it is known whom the client's certificate stands for",
            )


def test_what_produce_calls_is_in_the_table() -> None:
    assert set().union(*map(called, PRODUCE_FUNCTIONS)) == set(PRODUCE_CALLS)
    table = {check for request, check in rows() if request == "Produce"}
    assert {check for check in PRODUCE_CALLS.values() if check is not None} <= table


def test_errors_of_a_fetch_are_in_the_table() -> None:
    found: set[str] = set()
    for file in {path for pattern in FETCH_FILES for path in (ROOT / "python" / "ottla").glob(pattern)}:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "ottla.errors":
                found |= {name.name for name in node.names}
    assert found == set(FETCH_ERRORS)
    table = {check for request, check in rows() if request == "Fetch"}
    assert {check for check in FETCH_ERRORS.values() if check is not None} <= table


def test_nothing_else_is_asked_before_a_handler_is_called() -> None:
    assert set().union(*map(asked, DISPATCH)) == set(DISPATCH_ASKS)
    table = {check for _, check in rows()}
    assert {check for check in DISPATCH_ASKS.values() if check is not None} <= table
