"""Every need that an API declares is asked for: at the gate, or by its handler."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.broker.authorization.authorizer import ERRORS
from ottla.broker.authorization.gate import BY_HANDLERS, needs_of
from ottla.broker.faults.names import shape
from ottla.broker.requests import MODULES, SUPPORTED
from ottla.wire.needs import Need, Operation, Resource
from tests.broker.authorization.ruled import Ruled

BROKER = Path(MODULES[0].__file__ or "").parents[1]
#: Files beside a handler that ask for it.
BESIDE = {
    0: ("verification.py",),
    1: ("fetch/context.py",),
    33: ("alterations.py",),
    44: ("alterations.py",),
    60: ("api/k03_metadata.py",),
}
#: Brokers come to another listener than clients here.
BETWEEN = {key for key, api in SUPPORTED.items() if api.is_between_brokers}
#: The API has no such thing yet.
ABSENT = {41: "there are no delegation tokens"}
#: Kinds of resources that a handler takes from a row.
OF_ROWS = {10: "resource", 32: "*resource_of(resource)", 33: "*resource_of(resource)", 44: "*resource_of(resource)"}


def source(key: int) -> str:
    files = [Path(MODULES[key].__file__ or ""), *(BROKER / name for name in BESIDE.get(key, ()))]
    return "\n".join(file.read_text() for file in files)


@pytest.mark.parametrize("key", [key for key in SUPPORTED if SUPPORTED[key].needs and key not in ABSENT])
def test_every_need_is_asked_for(key: int) -> None:
    at_the_gate = {whole.need for whole in needs_of(SUPPORTED[key])}
    text = source(key)
    for need in (need for any_of in SUPPORTED[key].needs for need in any_of):
        if need in at_the_gate:
            continue
        kind = f"Resource.{need.resource.name}"
        kinds = f"({re.escape(kind)}|{re.escape(OF_ROWS.get(key, kind))})"
        asked = re.escape(f"Operation.{need.operation.name}, ") + kinds
        assert re.search(asked, text), f"{need} is declared, and nobody asks for it"


def test_needs_of_the_request_as_a_whole() -> None:
    assert [(*whole.need, whole.field) for whole in needs_of(SUPPORTED[28])] == [
        (Operation.WRITE, Resource.TRANSACTIONAL_ID, "transactional_id"),
        (Operation.READ, Resource.GROUP, "group_id"),
    ]
    assert [whole.need for whole in needs_of(SUPPORTED[45])] == [Need(Operation.ALTER, Resource.CLUSTER)]
    # Each group is a row; and of these needs one is enough.
    assert needs_of(SUPPORTED[15]) == needs_of(SUPPORTED[22]) == needs_of(SUPPORTED[16]) == []
    assert all(needs_of(SUPPORTED[key]) == [] for key in BY_HANDLERS)


@pytest.mark.parametrize("ruled", ["ottla"], indirect=True)
@pytest.mark.parametrize("key", [key for key in SUPPORTED if needs_of(SUPPORTED[key]) and key not in BETWEEN])
def test_a_refusal_has_a_form_in_every_version(ruled: Ruled, key: int) -> None:
    """The error of the first need is in the answer, or would be in its rows."""
    api = SUPPORTED[key]
    code = ERRORS[needs_of(api)[0].need.resource].code
    with ruled.enter("carol") as connection:
        for version in api.versions:
            answer = connection.call(api, api.request(), version)
            has_own = any(
                field.name == "error_code" and field.versions[0] <= version <= field.versions[1]
                for field in shape(api.response).fields
            )
            assert getattr(answer, "error_code", 0) == (code if has_own else 0)


def test_what_needs_nothing_declares_nothing() -> None:
    for key, api in SUPPORTED.items():
        if not api.needs and key != 60:
            assert "rights" not in source(key)
