"""Tables of Spark's catalog: `CREATE TABLE requests USING ottla OPTIONS (...)`.

Spark gives the options of a table to the source once, when the table is created, and only asks for a schema. A query
of the table gives the source that schema, and the options of its own `WITH (...)`, but not those of the table. So the
table's options stand in its schema, as metadata of its first column.

A schema is shown, and written into files with the rows: options with passwords or keys are refused here. A temporary
view keeps its options to itself and takes all of them.
"""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.spark.given import lower
from ottla.spark.schema import struct

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

METADATA = "ottla.options"

_SECRET = re.compile(r"password|jaas|\.key$|secret|token")


def is_table(options: Mapping[str, str]) -> bool:
    """True if these are the options of a table that is being created: their provider is `ottla`."""
    return options.get("provider", "").lower() == "ottla"


def schema(options: Mapping[str, str], names: tuple[str, ...]) -> "StructType":
    """The schema of a table with these columns, which remembers its options.

    Raises:
        ValueError: an option is a secret.
    """
    kept = lower(options)
    for name in kept:
        if _SECRET.search(name):
            raise ValueError(
                f"the option {name} is a secret, and a table's options can be seen: "
                "use CREATE TEMPORARY VIEW, or give it with each query: SELECT ... FROM table WITH ('name'='value')"
            )
    found = struct(names)
    found.fields[0].metadata = {METADATA: json.dumps(kept)}
    return found


def options_of(schema: "StructType", given: Mapping[str, str]) -> dict[str, str]:
    """The options of a query: those of the table whose schema this is, if it is one, and those `given`, which win."""
    for field in schema.fields:
        if METADATA in (field.metadata or {}):
            return {**json.loads(field.metadata[METADATA]), **{key.lower(): value for key, value in given.items()}}
    return dict(given)
