"""Options that the sink takes and refuses, without Spark's JVM."""

import itertools
import re
from typing import Any

import pyarrow as pa
import pytest

from ottla.errors import KafkaError
from ottla.spark.sink.options import parse
from ottla.spark.sink.task import write
from tests.spark.topics import Topics

pytestmark = pytest.mark.spark

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
_topics = (f"sink-rows-{number}" for number in itertools.count())


def make(columns: dict[str, str], options: dict[str, str], *, overwrite: bool = False, stream: bool = False) -> Any:
    """A writer for columns with these Spark types."""
    from pyspark.sql.types import ArrayType, BinaryType, DataType, StringType, StructType

    from ottla.spark.sink.writer import batch_writer, stream_writer

    schema = StructType()
    for name, kind in columns.items():
        headers = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))
        found: DataType | str = headers if kind == "headers" else {"int": "integer", "bigint": "long"}.get(kind, kind)
        schema = schema.add(name, found)
    if stream:
        return stream_writer({**SERVERS, **options}, schema)
    return batch_writer({**SERVERS, **options}, schema, overwrite)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("value", {}, "topic option required when no 'topic' attribute is present. Use the topic option"),
        ("key", {"topic": "t"}, "Required attribute 'value' not found"),
        ("value:int", {"topic": "t"}, "value attribute unsupported type int. value must be a string or binary"),
        ("value topic:int", {}, "topic attribute unsupported type int. topic must be a string"),
        ("value partition:bigint", {"topic": "t"}, "partition attribute unsupported type bigint"),
        ("value headers", {"topic": "t"}, "headers attribute unsupported type string"),
        ("value key:double", {"topic": "t"}, "key must be a string or binary"),
        ("value", {"topic": "t", "includeTimestamp": "true"}, "needs the column timestamp"),
        ("value", {"topic": ""}, "the option topic is empty"),
        ("value", {"topic": "t", "kafka.bootstrap.servers": ""}, "'kafka.bootstrap.servers' must be specified"),
        ("value", {"topic": "t", "kafka.key.serializer": "x"}, "'key.serializer' is not supported"),
        ("value", {"topic": "t", "kafka.value.serializer": "x"}, "'value.serializer' is not supported"),
        ("value", {"topic": "t", "kafka.transactional.id": "x"}, "transactionalIdPrefix"),
        ("value", {"topic": "t", "deliverey": "x"}, "did you mean 'delivery'"),
        ("value", {"topic": "t", "delivery": "exactly"}, "it is one of exactly-once, at-least-once"),
        ("value", {"topic": "t", "asyncProgressTrackingEnabled": "true"}, "asyncProgressTrackingEnabled=true"),
        ("value", {"topic": "t", "kafka.acks": "1"}, "needs kafka.acks=all"),
        ("value", {"topic": "t", "kafka.acks": "2"}, "kafka.acks is '2'"),
        ("value", {"topic": "t", "kafka.retries": "0"}, "kafka.retries=0"),
        ("value", {"topic": "t", "kafka.batch.size": "-1"}, "kafka.batch.size is '-1'"),
        ("value", {"topic": "t", "kafka.compression.type": "br"}, "none, gzip, snappy, lz4, zstd"),
        (
            "value",
            {"topic": "t", "kafka.compression.type": "gzip", "kafka.compression.gzip.level": "10"},
            "levels are from 1 to 9",
        ),
        ("value", {"topic": "t", "txnAppId": "a"}, "txnAppId and txnVersion go together"),
        ("value", {"topic": "t", "txnVersion": "1"}, "txnAppId and txnVersion go together"),
        ("value", {"topic": "t", "txnAppId": "a", "txnVersion": "-1"}, "txnVersion is '-1'"),
        (
            "value",
            {"topic": "t", "txnAppId": "a", "txnVersion": "1", "delivery": "at-least-once"},
            "need delivery=exactly-once",
        ),
        (
            "value",
            {"topic": "t", "kafka.security.protocol": "SASL"},
            "security.protocol is 'SASL'; it is one",
        ),
    ],
)
def test_mistakes_are_named(columns: str, options: dict[str, str], message: str, stream: bool) -> None:
    kinds = {name: kind or "string" for name, _, kind in (each.partition(":") for each in columns.split())}
    with pytest.raises(ValueError, match=re.escape(message)):
        make(kinds, options, stream=stream)


def test_what_spark_takes_is_taken() -> None:
    columns = {"value": "binary", "key": "string", "topic": "string", "partition": "int", "other": "double"}
    columns["headers"] = "headers"
    taken = {"kafka.linger.ms": "5", "kafka.acks": "-1", "kafka.retries": "7", "checkpointLocation": "/tmp/x"}
    make(columns, taken)
    make(columns, {**taken, "includeHeaders": "true"})
    make(columns, {**taken, "asyncProgressTrackingEnabled": "true", "delivery": "at-least-once"}, stream=True)
    make({"value": "string", "topic": "int"}, {"topic": "the option wins"})
    once = {"txnAppId": "a", "txnVersion": str(2**40)}
    make(columns, once)
    with pytest.raises(ValueError, match=r"are for df\.write"):
        make(columns, once, stream=True)
    with pytest.raises(ValueError, match="Save mode Overwrite not allowed"):
        make(columns, {}, overwrite=True)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"topic": [None, "x"]}, {}, "null topic present in the data. Use the topic option"),
        ({"partition": pa.array([0, 1], pa.int32())}, {"topic": "here"}, "'{topic}' has 1 partitions"),
        ({"value": ["x" * 3_000, ""]}, {"topic": "here", "kafka.max.request.size": "2000"}, "is 3086 bytes"),
        ({"topic": ["in valid", "x"]}, {"kafka.max.block.ms": "2000"}, "topic 'in valid' is not there to write to"),
    ],
)
@pytest.mark.parametrize("transactional_id", [None, "test-sink-rows"])
def test_bad_rows_are_named(
    topics: Topics, columns: dict[str, Any], options: dict[str, str], message: str, transactional_id: str | None
) -> None:
    topic = next(_topics)
    if "topic" in options:
        options = {**options, "topic": topic}
    batch = pa.record_batch({"value": pa.array(["a", "b"]), **columns})
    parsed = parse({**SERVERS, "kafka.bootstrap.servers": topics.bootstrap, **options})
    with pytest.raises((ValueError, KafkaError)) as failed:
        write(parsed, iter([batch]), transactional_id)
    assert message.format(topic=topic) in str(failed.value)
