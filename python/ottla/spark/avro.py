"""Avro schemas as types of Spark, by the table of Spark's own package (`SchemaConverters`).

| Avro                                             | Spark                                    |
|--------------------------------------------------|------------------------------------------|
| boolean, int, long, float, double, string, bytes | boolean, int, bigint, float, double, ... |
| date, timestamp-millis, timestamp-micros         | date, timestamp                          |
| decimal                                          | decimal                                  |
| record, array, map                               | struct, array, map of string             |
| enum, uuid                                       | string                                   |
| fixed                                            | binary                                   |
| union with null                                  | the other, nullable                      |
| union of int and long, of float and double       | bigint, double                           |

Other unions are refused: Spark's own package makes structs of them, `member0` and so on.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

PRECISION_MAX = 38


def spark_type(schema: Any, named: dict[str, Any] | None = None) -> "DataType":
    """The type of values of a schema that was parsed.

    Raises:
        ValueError: Spark has none for it; the message names the part.
    """
    from pyspark.sql import types

    simple: dict[str, DataType] = {
        "boolean": types.BooleanType(),
        "int": types.IntegerType(),
        "long": types.LongType(),
        "float": types.FloatType(),
        "double": types.DoubleType(),
        "string": types.StringType(),
        "enum": types.StringType(),
        "bytes": types.BinaryType(),
        "fixed": types.BinaryType(),
        "null": types.NullType(),
    }
    logical: dict[str, DataType] = {
        "date": types.DateType(),
        "timestamp-millis": types.TimestampType(),
        "timestamp-micros": types.TimestampType(),
        "uuid": types.StringType(),
    }
    named = {} if named is None else named
    if isinstance(schema, list):
        return _union(schema, named)
    if isinstance(schema, str):
        if schema in simple:
            return simple[schema]
        if schema not in named:
            raise ValueError(f"the Avro type {schema} is not defined, or contains itself")
        return spark_type(named[schema], {name: of for name, of in named.items() if name != schema})
    kind = schema["type"]
    if "name" in schema and kind in ("record", "enum", "fixed"):
        named[schema["name"]] = schema
    if schema.get("logicalType") == "decimal":
        return types.DecimalType(min(schema["precision"], PRECISION_MAX), schema.get("scale", 0))
    if (found := logical.get(schema.get("logicalType", ""))) is not None:
        return found
    match kind:
        case "record":
            inside = {name: of for name, of in named.items() if name != schema["name"]}
            fields = [types.StructField(field["name"], spark_type(field["type"], inside)) for field in schema["fields"]]
            named.update({name: of for name, of in inside.items() if name not in named})
            return types.StructType(fields)
        case "array":
            return types.ArrayType(spark_type(schema["items"], named))
        case "map":
            return types.MapType(types.StringType(), spark_type(schema["values"], named))
        case _:
            return spark_type(kind, named)


def _union(schema: list[Any], named: dict[str, Any]) -> "DataType":
    from pyspark.sql import types

    members = [member for member in schema if member != "null"]
    if len(members) == 1:
        return spark_type(members[0], named)
    if set(map(str, members)) == {"int", "long"}:
        return types.LongType()
    if set(map(str, members)) == {"float", "double"}:
        return types.DoubleType()
    raise ValueError(f"a union of {members} has no type in Spark; unions may have null and one other")
