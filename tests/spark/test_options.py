# ruff: noqa: E501 - tables read better in one line a row
"""The options of the Spark source: Spark's own forms and refusals, and refusals of what Spark silently ignores."""

from collections.abc import Callable

import pytest

from ottla.client import TopicPartition
from ottla.kafka import EARLIEST, LATEST
from ottla.reading.limits import Everywhere, Offsets, Timestamp, Timestamps
from ottla.reading.topics import Topics
from ottla.spark.given import SINK_TOPIC
from ottla.spark.limits import Use
from ottla.spark.options import UNWANTED_TOPICS, parse
from ottla.spark.schema import COLUMNS, HEADERS_TYPE, names, struct
from ottla.spark.sink.options import parse as parse_write

BROKERS = {"kafka.bootstrap.servers": "host:9092"}
SMALLEST = {**BROKERS, "subscribe": "t"}


def test_defaults() -> None:
    options = parse(SMALLEST)
    assert options.topics == Topics(names=("t",))
    assert (options.starting, options.ending) == (Everywhere(EARLIEST), Everywhere(LATEST))
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert not options.read_committed
    assert options.paths == ()


@pytest.mark.parametrize(
    ("given", "topics"),
    [
        ({"subscribe": " a , b,,a"}, Topics(names=("a", "b"))),
        ({"subscribePattern": r"web-\d+"}, Topics(pattern=r"web-\d+", unwanted=UNWANTED_TOPICS)),
        (
            {"assign": '{"a":[0,2],"b":[1]}'},
            Topics(partitions=frozenset({TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)})),
        ),
    ],
)
def test_topics(given: dict[str, str], topics: Topics) -> None:
    assert parse({**BROKERS, **given}).topics == topics


def test_a_pattern_matches_whole_names() -> None:
    topics = Topics(pattern="web")
    assert [name for name in ("web", "webs", "aweb") if topics.matches(name)] == ["web"]


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", SINK_TOPIC])
def test_internal_topics_are_meant_by_name_only(name: str) -> None:
    assert parse({**BROKERS, "subscribe": name}).topics.matches(name)
    pattern = parse({**BROKERS, "subscribePattern": ".*"}).topics
    assert not pattern.matches(name)
    assert pattern.matches("__other")


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({"startingOffsets": "earliest"}, Everywhere(EARLIEST)),
        ({"startingOffsets": ' {"t":{"0":23,"1":-2}} '}, Offsets({TopicPartition("t", 0): 23, TopicPartition("t", 1): -2})),
        ({"startingOffsetsByTimestamp": '{"t":{"0":5}}'}, Timestamps({TopicPartition("t", 0): 5})),
        ({"startingTimestamp": "1700000000000"}, Timestamp(1700000000000)),
        # The earlier form of the table wins.
        ({"startingTimestamp": "5", "startingOffsetsByTimestamp": '{"t":{"0":6}}', "startingOffsets": "earliest"}, Timestamp(5)),
        ({"startingOffsetsByTimestamp": '{"t":{"0":6}}', "startingOffsets": '{"t":{"0":1}}'}, Timestamps({TopicPartition("t", 0): 6})),
    ],
)  # fmt: skip
def test_where_to_start(given: dict[str, str], limit: object) -> None:
    assert parse({**SMALLEST, **given}).starting == limit
    ending = {key.replace("starting", "ending"): value for key, value in given.items()}
    if limit != Everywhere(EARLIEST) and "-2" not in str(given):
        assert parse({**SMALLEST, **ending}).ending == limit


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Option 'kafka.bootstrap.servers' must be specified"),
        ({**SMALLEST, "path": "/data"}, "not both"),
        (BROKERS, "One of the following options must be specified: assign, subscribe, subscribePattern"),
        ({**SMALLEST, "assign": '{"t":[0]}'}, "Only one of the following options can be specified"),
        ({**BROKERS, "subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ' , '"),
        ({**BROKERS, "subscribePattern": " "}, "Pattern to subscribe is empty"),
        ({**BROKERS, "subscribePattern": "a*+"}, "possessive quantifier"),
        ({**BROKERS, "subscribePattern": r"\p{Lu}+"}, "property class"),
        ({**BROKERS, "subscribePattern": "[a-z&&[^b]]"}, "class intersection"),
        ({**BROKERS, "subscribePattern": "("}, "missing"),
        ({**BROKERS, "assign": "t"}, "No topicpartitions to assign as specified value for option 'assign' is 't'"),
        ({**BROKERS, "assign": '{"t":["0"]}'}, "assign: Expected e.g."),
        ({**BROKERS, "assign": "{}"}, "assign: Expected e.g."),
        ({**SMALLEST, "startingOffsets": "latest"}, "startingOffsets: starting offset can't be latest for batch queries"),
        ({**SMALLEST, "startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 can't be latest for batch queries"),
        ({**SMALLEST, "endingOffsets": "earliest"}, "endingOffsets: ending offset can't be earliest for batch queries"),
        ({**SMALLEST, "endingOffsets": '{"t":{"0":-2}}'}, "endingOffsets for t-0 can't be earliest for batch queries"),
        ({**SMALLEST, "startingOffsets": '{"t":{"0":-3}}'}, "startingOffsets of t-0 is -3"),
        ({**SMALLEST, "startingOffsets": '{"t":{"zero":1}}'}, "Expected e.g. startingOffsets earliest"),
        ({**SMALLEST, "startingOffsets": "12"}, "Expected e.g. startingOffsets earliest"),
        ({**SMALLEST, "startingTimestamp": "yesterday"}, "startingTimestamp: Expected a single long value.*got yesterday"),
        ({**SMALLEST, "endingTimestamp": "-1"}, "endingTimestamp: Expected a single long value.*got -1"),
        ({**SMALLEST, "failOnDataLoss": "perhaps"}, "failOnDataLoss is 'perhaps'; it is one of true, false"),
        ({**SMALLEST, "splitPartitions": "false", "minPartitions": "9"}, "minPartitions splits topic partitions"),
        ({**SMALLEST, "minPartitions": "0"}, "minPartitions is '0'.*must be positive"),
        ({**SMALLEST, "startingOfsets": "earliest"}, "unknown option 'startingofsets'; did you mean 'startingOffsets'"),
        ({**SMALLEST, "upTo": "logEnd"}, "upTo belongs to reads from a data directory"),
        ({**SMALLEST, "kafka.auto.offset.reset": "earliest"}, "'auto.offset.reset' is not supported: set the option startingOffsets"),
        ({**SMALLEST, "kafka.value.deserializer": "x"}, "'value.deserializer' is not supported: values are deserialized as byte arrays"),
        ({**SMALLEST, "kafka.security.protocol": "TLS"}, "Kafka option security.protocol is 'TLS'; it is one of PLAINTEXT, SSL"),
        ({**SMALLEST, "kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "GSSAPI"}, "Kafka option sasl.mechanism is 'GSSAPI'; here"),
        ({**SMALLEST, "kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "x"}, "Kafka option ssl.truststore.type is 'x'"),
        ({**SMALLEST, "kafka.key.deserializer": "x"}, "keys are deserialized as byte arrays"),
        ({**SMALLEST, "kafka.enable.auto.commit": "true"}, "'enable.auto.commit' is not supported"),
        ({**SMALLEST, "kafka.interceptor.classes": "x"}, "'interceptor.classes' is not supported"),
        ({**SMALLEST, "maxRecordsPerPartition": "0"}, "maxRecordsPerPartition is '0'.*must be positive"),
        ({**SMALLEST, "startingOffsetsByTimestampStrategy": "nearest"}, "startingOffsetsByTimestampStrategy is 'nearest'; it is one of error, latest"),
        ({**SMALLEST, "includeHeaders": "maybe"}, "includeHeaders is 'maybe'"),
        ({**SMALLEST, "fetchOffset.numRetries": "few"}, "fetchOffset.numRetries is 'few'"),
        ({**SMALLEST, "corruptBatches": "ignore"}, "corruptBatches is 'ignore'; it is one of fail, skip"),
        ({**SMALLEST, "corruptReport": "/tmp"}, "it needs corruptBatches=skip"),
        ({"path": "/data", "subscribe": "t", "commitGroup": "g"}, "commitGroup needs brokers"),
        ({**SMALLEST, "isolation.level": "read_committed", "kafka.isolation.level": "read_uncommitted"}, "contradict each other"),
        ({**SMALLEST, "kafka.isolation.level": "serializable"}, "one of read_uncommitted, read_committed"),
    ],
)  # fmt: skip
def test_refusals(given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets: ending offset not valid in streaming queries"),
        ({"endingOffsetsByTimestamp": '{"t":{"0":5}}'}, "endingOffsetsByTimestamp: ending timestamp not valid in streaming queries"),
        ({"endingTimestamp": "5"}, "endingTimestamp: ending timestamp not valid in streaming queries"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is '0'"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, r"minOffsetsPerTrigger\(9\) is higher than the maxOffsetsPerTrigger\(8\)"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is 'soon'"),
        ({"maxTriggerDelay": "5weeks"}, "maxTriggerDelay is '5weeks'"),
    ],
)  # fmt: skip
def test_refusals_of_streams(given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse({**SMALLEST, **given}, Use.STREAM)


def test_where_streams_start() -> None:
    assert parse(SMALLEST, Use.STREAM).starting == Everywhere(LATEST)
    assert parse({**SMALLEST, "startingOffsets": '{"t":{"0":-1}}'}, Use.STREAM).starting == Offsets(
        {TopicPartition("t", 0): -1}
    )
    # When a DataFrame is loaded it is not known yet which of the two it is.
    parse({**SMALLEST, "startingOffsets": "latest", "endingOffsets": "latest"}, Use.EITHER)


@pytest.mark.parametrize(
    ("text", "delay_ms"), [("15m", 900_000), ("90", 90), ("100ms", 100), ("3s", 3000), ("1h", 3_600_000)]
)
def test_times(text: str, delay_ms: int) -> None:
    assert parse({**SMALLEST, "maxTriggerDelay": text}).trigger_delay_ms == delay_ms


def test_columns_by_name() -> None:
    kinds = {field.name: field.dataType.simpleString() for field in struct(names(True)).fields}
    assert kinds == {**COLUMNS, "headers": HEADERS_TYPE}
    assert names(False) == names(True)[:-1] == tuple(COLUMNS)
    assert names(False, "offset, Value") == ("offset", "value")
    assert struct(("offset", "value")).simpleString() == "struct<offset:bigint,value:binary>"
    for chosen, message in (("size", "no column 'size'"), ("headers", "includeHeaders=true"), ("key,KEY", "twice")):
        with pytest.raises(ValueError, match=message):
            names(False, chosen)


def test_isolation() -> None:
    assert parse({**SMALLEST, "isolation.level": "read_committed"}).read_committed
    assert parse({**SMALLEST, "kafka.isolation.level": "READ_COMMITTED"}).read_committed


def test_settings_of_the_java_client_are_accepted() -> None:
    parse({**SMALLEST, "kafka.session.timeout.ms": "1000", "kafka.group.id": "g", "kafka.client.id": "c"})


def test_what_a_table_adds_to_its_options_is_not_a_mistake() -> None:
    """As Spark's catalog gives them."""
    table = {"provider": "ottla", "owner": "root", "location": "file:/a%20b/data", "path": "file:/a%20b/data"}
    options = parse({**table, "subscribe": "t", "option.subscribe": "t"})
    assert options.paths == ("/a b/data",)


@pytest.mark.parametrize("parse_them", [parse, parse_write], ids=["source", "sink"])
def test_what_sparks_kafka_source_and_sink_ignore_is_a_warning(
    parse_them: Callable[[dict[str, str]], object], caplog: pytest.LogCaptureFixture
) -> None:
    """Scripts give both the same options. A name that is near one of ours is most likely misspelt."""
    both = {**SMALLEST, "topic": "t", "checkpointLocation": "/c", "failOnDataLoss": "false", "zzz": "1"}
    parse_them(both)
    ignored = {record.getMessage() for record in caplog.records}
    here = "subscribe failondataloss" if parse_them is parse_write else "topic checkpointlocation"
    assert ignored == {f"the option {name} has no effect here" for name in (*here.split(), "zzz")}
    for wrong in ("includeHeader", "kafkaConsumer.pollTimeout" if parse_them is parse else "transactionalIdPrefixes"):
        with pytest.raises(ValueError, match=f"unknown option '{wrong.lower()}'; did you mean"):
            parse_them({**both, wrong: "true"})
