"""Answers with an error that nobody has met, made of the request, or of the answer that its handler gave.

Where an answer has error codes for single rows and the fault is about some of them, those rows have the error. Where it
has one code for the whole request, or the fault is about no rows, that one is set. All else in such a row or answer is
what brokers send beside an error: names are told back, and numbers that are unknown are -1.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from ottla.broker.faults.names import ANY, Names, Rows, Shape, named, part, shape
from ottla.wire.error_codes import FIELD
from ottla.wire.k03_metadata import METADATA
from ottla.wire.k35_describe_log_dirs import DESCRIBE_LOG_DIRS
from ottla.wire.schema import Api, Message, StructSpec

#: Told back in a row with an error.
TOLD_BACK: Final = frozenset(
    {"group_instance_id", "log_dir", "member_id", "resource_name", "resource_type", "feature", "transactional_id"}
)
#: The names that a field of an answer has in requests.
ALSO: Final = {"user": "name"}
#: Told back in rows; -1 in the answer itself.
OF_ROWS: Final = frozenset({"producer_id"})
#: -1 if they are unknown.
UNKNOWN: Final = frozenset(
    {
        "base_offset",
        "committed_offset",
        "end_offset",
        "generation_id",
        "leader_id",
        "low_watermark",
        "node_id",
        "offset",
        "producer_epoch",
        "producer_id",
        "timestamp",
    }
)
#: Their answers have what no request names: brokers, and the rows of all directories.
ANSWERED_FIRST: Final = frozenset({METADATA.key, DESCRIBE_LOG_DIRS.key})


class Refusal(NamedTuple):
    """An error for what `about` covers in the requests of one API, in one version."""

    api: Api[Any, Any]
    version: int
    code: int
    about: Names

    @property
    def in_rows(self) -> bool:
        """True if rows have the error, instead of the answer as a whole."""
        its = shape(self.api.response)
        if not its.has(FIELD, self.version):
            return True
        roles = {role for role, wanted in zip(Names._fields, self.about, strict=True) if wanted is not None}
        # A group is mostly named by the request as a whole.
        roles &= {"topic", "partition"}
        return bool(roles) and any(roles <= coded for coded in its.coded(self.version))

    def answer(self, message: Message) -> Message:
        """The answer to a request of which nothing is done."""
        its = shape(self.api.response)
        if not self.in_rows:
            failed: Message = self._failed(its, message, is_row=False)
            return failed
        values: dict[str, object] = {}
        for rows in its.rows:
            if rows.inner is not None and self._reaches(rows):
                values[rows.field] = self._rows(rows.inner, message, ANY)
                break
        made: Message = self.api.response(**values)
        return made

    def amend(self, answer: Message, asked: Message) -> Message:
        """The answer of a handler, with the error in it."""
        its = shape(self.api.response)
        if not self.in_rows:
            failed: Message = self._failed(its, answer, is_row=False)
            return failed
        own = shape(self.api.request).own(asked, ANY)
        changed: Message = self._amended(answer, its, own, is_row=False)
        return changed

    def join(self, answer: Message, refused: Message) -> Message:
        """The answer to some rows of a request, and the refusal of the others."""
        joined: Message = _joined(answer, refused, shape(self.api.response))
        return joined

    def _reaches(self, rows: Rows) -> bool:
        first, last = rows.versions
        return first <= self.version <= last and bool(rows.inner is not None and rows.inner.coded(self.version))

    def _amended(self, message: Any, its: Shape, names: Names, *, is_row: bool) -> Any:
        names = its.own(message, names)
        if is_row and its.has(FIELD, self.version) and self.about.covers(names):
            return self._failed(its, message, is_row=True)
        changes = {}
        for rows in its.rows:
            if rows.inner is not None and self._reaches(rows):
                items = getattr(message, rows.field) or ()
                changes[rows.field] = [self._amended(item, rows.inner, names, is_row=True) for item in items]
        return msgspec.structs.replace(message, **changes) if changes else message

    def _rows(self, its: Shape, message: Message, names: Names) -> list[Any]:
        """Rows with the error, for what a request or a row of it names: none for a request without rows."""
        if not its.names:
            return self._rows_by_place(its, message)
        groups: dict[tuple[object, ...], dict[str, Any]] = {}
        inner: dict[tuple[object, ...], list[Names]] = {}
        for one in [each for each in named(message) if self.about.covers(each) and _has_names(each, its)]:
            key = tuple(getattr(one, role) for role, _ in its.names)
            groups.setdefault(key, {field: getattr(one, role) for role, field in its.names})
            inner.setdefault(key, []).append(one)
        return [self._row(its, values, inner[key]) for key, values in groups.items()]

    def _row(self, its: Shape, values: dict[str, Any], names: list[Names]) -> Any:
        if its.has(FIELD, self.version):
            return its.cls(**self._unknown(its), **values, error_code=self.code)
        for rows in its.rows:
            if rows.inner is not None and self._reaches(rows):
                below = rows.inner
                values[rows.field] = [
                    self._row(below, {field: getattr(one, role) for role, field in below.names}, [one])
                    for one in names
                    if _has_names(one, below)
                ]
        return its.cls(**values)

    def _rows_by_place(self, its: Shape, message: Message) -> list[Any]:
        """A row for each item in the arrays of the request."""
        found = []
        for field in shape(type(message)).fields:
            items = getattr(message, field.name) if isinstance(field.type, tuple) else None
            for item in items if isinstance(items, list) else ():
                if not isinstance(item, Message):
                    # A plain value is what the row is about: its first name.
                    told = next(one.name for one in its.fields if one.type == "string" and one.name != "error_message")
                    row = its.cls(**{told: item, FIELD: self.code})
                elif its.has(FIELD, self.version):
                    row = self._failed(its, item, is_row=True)
                else:
                    values: dict[str, Any] = {
                        one.name: getattr(item, one.name) for one in its.fields if one.name in OF_ROWS
                    }
                    for rows in its.rows:
                        if rows.inner is not None:
                            values[rows.field] = self._rows(rows.inner, item, ANY)
                    row = its.cls(**values)
                # A user may be there twice: once to lose a credential, and once to get one.
                if row not in found or not its.has("user", self.version):
                    found.append(row)
        return found

    def _failed(self, its: Shape, source: Message, *, is_row: bool) -> Any:
        """The structure with the error, and what is told back of `source`: a part of the request or of an answer."""
        values = self._unknown(its)
        roles = {field for _, field in its.names}
        for field in its.fields:
            told = field.name in TOLD_BACK or field.name in roles or (is_row and field.name in OF_ROWS)
            name = field.name if hasattr(source, field.name) else ALSO.get(field.name, "")
            if (told or name != field.name) and hasattr(source, name):
                if self._has(its, field.name):
                    values[field.name] = getattr(source, name)
            elif field.name == "entity":
                cls = _item(field.type)
                values["entity"] = [
                    cls(entity_type=one.entity_type, entity_name=one.entity_name)
                    for one in getattr(source, "entity", ())
                ]
        return its.cls(**{**values, FIELD: self.code})

    def _unknown(self, its: Shape) -> dict[str, Any]:
        return {one.name: -1 for one in its.fields if one.name in UNKNOWN and self._has(its, one.name)}

    def _has(self, its: Shape, field: str) -> bool:
        return its.has(field, self.version)


def _has_names(names: Names, its: Shape) -> bool:
    """True if all is there that a row tells of itself."""
    return all(getattr(names, role) is not None for role, _ in its.names)


def refusal(api: Api[Any, Any], version: int, code: int, about: Names) -> Refusal:
    """The error for what `about` covers. Where no row of an answer is about a topic or a partition alone, the whole
    request that names it is refused.
    """
    coded = shape(api.response).coded(version)
    for narrower in (about, about._replace(partition=None)):
        wanted = {role for role in ("topic", "partition") if getattr(narrower, role) is not None}
        if any(wanted <= roles for roles in coded):
            return Refusal(api, version, code, narrower)
    return Refusal(api, version, code, about._replace(topic=None, partition=None))


def split(message: Message, about: Names) -> tuple[Message | None, Message | None]:
    """The rows of a request that a fault is about, and the others; None where there are none."""
    return part(message, about, is_wanted=True), part(message, about, is_wanted=False)


def _item(kind: Any) -> type[Message]:
    item = kind[1]
    assert isinstance(item, StructSpec)
    return item.cls


def _joined(answer: Any, refused: Any, its: Shape) -> Any:
    changes = {}
    for rows in its.rows:
        mine, more = getattr(answer, rows.field), getattr(refused, rows.field)
        if not more:
            continue
        inner = rows.inner
        assert inner is not None
        key = [field for _, field in inner.names] or [one.name for one in inner.fields if one.name in OF_ROWS]
        known = {tuple(getattr(one, field) for field in key): one for one in mine or ()}
        for one in more:
            same = tuple(getattr(one, field) for field in key)
            known[same] = _joined(known[same], one, inner) if same in known else one
        changes[rows.field] = list(known.values())
    return msgspec.structs.replace(answer, **changes) if changes else answer
