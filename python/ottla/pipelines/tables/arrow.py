"""Arrow schemas: made plain, and merged."""

from collections.abc import Iterable

import pyarrow as pa

PLAIN = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


def plain(schema: pa.Schema) -> pa.Schema:
    """The same columns in the types that files are written with, whatever a library likes to show them as."""
    return pa.schema([pa.field(each.name, _plain(each.type), each.nullable) for each in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _plain(each.type)) for each in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(_plain(kind.value_type))
    return PLAIN.get(kind, kind)


def merged(known: pa.Schema | None, found: Iterable[pa.Schema]) -> pa.Schema:
    """The columns of a table (`known`, which keep their types) and those of new files.

    A new column that some files have as whole numbers and some as others is double; one that differs otherwise is
    text. Columns of which only null was seen are left out until there is something in them.
    """
    types: dict[str, pa.DataType] = {} if known is None else {each.name: each.type for each in known}
    fixed = set(types)
    for schema in found:
        for each in schema:
            if each.name in fixed or pa.types.is_null(each.type):
                continue
            before = types.get(each.name, each.type)
            types[each.name] = _wider(before, each.type)
    return pa.schema(list(types.items()))


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one == other:
        return one
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    return pa.string()
