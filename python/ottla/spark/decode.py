"""Values as columns: JSON, Avro, and the frame that schema registries put around both.

    from ottla.spark import decode
    events = frame.select("key", decode.json("value", "member bigint, page string").alias("event"))
    events = frame.select(decode.avro("value", "event.avsc").alias("event"))
    events = frame.select(decode.confluent_avro("value", {7: "event-1.avsc", 9: "event-2.avsc"}, "event-2.avsc"))

JSON and the frame are Spark's own expressions: no Python sees a record. Avro is Spark's own where its jar is in the
session (`org.apache.spark.avro`), and otherwise fastavro in Python workers, which is slower by far.
"""

from __future__ import annotations

import json as json_text
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession, functions

from ottla.spark.avro import spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import ArrayType, DataType, MapType, StructType

SPARK_AVRO = "org.apache.spark.sql.avro.AvroDataToCatalyst"
MAGIC_BYTES = 1
FRAME_BYTES = 5
MODES = ("FAILFAST", "PERMISSIVE")


def json(column: str | Column, schema: str | StructType | ArrayType | MapType, mode: str = "PERMISSIVE") -> Column:
    """A struct from JSON text in bytes. What is no such JSON is null, or with FAILFAST an error."""
    return functions.from_json(_column(column).cast("string"), schema, {"mode": _mode(mode)})


def confluent(column: str | Column) -> Column:
    """A struct `schema_id int, payload binary` from the wire format of schema registries: a zero byte, the schema's
    number in four bytes, big-endian, and the value. Null where the bytes have no such frame.
    """
    value = _column(column)
    number = functions.conv(functions.hex(functions.substring(value, MAGIC_BYTES + 1, 4)), 16, 10)
    framed = (functions.length(value) >= FRAME_BYTES) & (functions.hex(functions.substring(value, 1, 1)) == "00")
    parts = functions.struct(
        number.cast("int").alias("schema_id"),
        functions.substring(value, FRAME_BYTES + 1, 2**31 - 1).alias("payload"),
    )
    return functions.when(framed, parts)


def avro(column: str | Column, schema: str | Path, mode: str = "FAILFAST") -> Column:
    """Values from Avro without a frame. `schema` is a file (.avsc).

    Raises:
        ValueError: the schema is none. ImportError: neither Spark's jar nor fastavro is there.
    """
    text = Path(schema).read_text()
    if _spark_reads_avro():
        from pyspark.sql.avro.functions import from_avro

        return from_avro(_column(column), text, {"mode": _mode(mode)})
    known = _parsed(text, schema)
    return _decoded(_column(column), lambda value: _read(value, known, known), spark_type(known), _mode(mode))


def confluent_avro(
    column: str | Column, schemas: Mapping[int, str | Path], schema: str | Path, mode: str = "FAILFAST"
) -> Column:
    """Values from framed Avro. `schemas` has the file for each number, with which values were written, and `schema` is
    the one that they are read as (Avro's schema resolution). A number that is not in it is an error that names it.
    """
    writers = {number: _parsed(Path(path).read_text(), path) for number, path in schemas.items()}
    reader = _parsed(Path(schema).read_text(), schema)

    def decode(value: bytes) -> Any:
        if len(value) < FRAME_BYTES or value[0] != 0:
            raise ValueError("the value has no frame of a schema registry: a zero byte and four bytes of a number")
        number = int.from_bytes(value[MAGIC_BYTES:FRAME_BYTES], "big")
        if number not in writers:
            raise ValueError(f"the value was written with schema {number}, of which there is no file")
        return _read(value[FRAME_BYTES:], writers[number], reader)

    return _decoded(_column(column), decode, spark_type(reader), _mode(mode))


def _decoded(column: Column, decode: Callable[[bytes], Any], kind: DataType, mode: str) -> Column:
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.pandas.types import to_arrow_type

    arrow = to_arrow_type(kind, timezone="UTC")

    def values(found: Any) -> Any:
        import pyarrow as pa

        def one(value: bytes | None) -> Any:
            if value is None:
                return None
            try:
                return decode(value)
            except Exception:
                if mode == "PERMISSIVE":
                    return None
                raise

        return pa.array([one(value) for value in found.to_pylist()], arrow)

    # Spark looks at annotations to know what kind of function it is.
    import pyarrow as pa

    values.__annotations__ = {"found": pa.Array, "return": pa.Array}
    make: Any = arrow_udf  # its annotations know no structs
    result: Column = make(values, kind)(column)
    return result


def _read(value: bytes, writer: Any, reader: Any) -> Any:
    import fastavro

    return fastavro.schemaless_reader(BytesIO(value), writer, reader)


def _parsed(text: str, path: str | Path) -> Any:
    try:
        import fastavro
    except ImportError:
        raise ImportError(
            "Avro needs the package fastavro, which is not installed (pip install 'ottla[schema]'), or Spark's own "
            "package spark-avro"
        ) from None
    try:
        return fastavro.parse_schema(json_text.loads(text))
    except Exception as problem:
        raise ValueError(f"{path} is no Avro schema: {problem}") from None


def _spark_reads_avro() -> bool:
    jvm: Any = getattr(SparkSession.getActiveSession(), "_jvm", None)
    if jvm is None:
        return False
    try:
        jvm.java.lang.Class.forName(SPARK_AVRO, False, jvm.java.lang.Thread.currentThread().getContextClassLoader())
    except Exception:
        return False
    return True


def _column(column: str | Column) -> Column:
    return functions.col(column) if isinstance(column, str) else column


def _mode(mode: str) -> str:
    if mode not in MODES:
        raise ValueError(f"the mode is '{mode}'; it is one of {', '.join(MODES)}")
    return mode
