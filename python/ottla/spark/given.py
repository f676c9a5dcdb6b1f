"""Checks of the options that a user gave, for the source and for the sink. Keys are lower case, as Spark gives them."""

import difflib
import logging
from collections.abc import Iterable, Mapping
from typing import overload
from urllib.parse import unquote, urlsplit

from ottla.client import Security

log = logging.getLogger(__name__)

SINK_TOPIC = "__ottla_sink"
"""Where the sink keeps its decisions; brokers know nothing of it."""


#: The options that Spark's catalog adds to those of `CREATE TABLE ... USING ottla`.
OF_TABLES = frozenset({"provider", "location", "owner", "external", "comment", "is_managed_location", "table_type"})


#: Options that mean something on the other side, or to Spark itself, in lower case.
ELSEWHERE = frozenset(
    name.lower()
    for name in (
        "subscribe", "subscribePattern", "assign", "topic", "path", "checkpointLocation", "queryName", "includeHeaders",
        "startingOffsets", "endingOffsets", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp",
        "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestampStrategy", "failOnDataLoss", "groupIdPrefix",
        "minPartitions", "maxRecordsPerPartition", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
        "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
        "delivery", "transactionalIdPrefix", "txnAppId", "txnVersion", "includeTimestamp",
    )
)  # fmt: skip


def lower(given: Mapping[str, str]) -> dict[str, str]:
    """The options that the user gave, by their names in lower case. Of a table, Spark adds properties of its own, each
    option a second time, and makes a URI of the path.
    """
    options = {key.lower(): value for key, value in given.items()}
    if options.get("provider", "").lower() == "ottla":
        options = {
            key: value
            for key, value in options.items()
            if key not in OF_TABLES and not (key.startswith("option.") and key.removeprefix("option.") in options)
        }
    path = urlsplit(options.get("path", ""))
    if path.scheme == "file" and path.netloc == "":
        options["path"] = unquote(path.path)
    return options


def refuse_unknown(
    options: Mapping[str, str], names: Iterable[str], refused: Mapping[str, str], *, warn: bool = True
) -> None:
    """Lets pass the options of these `names`, and Kafka's settings but those of `refused`, which says why not.

    Spark's Kafka source and sink ignore all others, and scripts that were written for them have such options. Here they
    are a warning, unless their name is near one of `names`: then it is most likely misspelt.

    Raises:
        ValueError: it names the option.
    """
    known = {name.lower(): name for name in names}
    for key in options:
        if key.startswith("kafka."):
            setting = key.removeprefix("kafka.")
            if setting in refused:
                raise ValueError(f"Kafka option '{setting}' is not supported: {refused[setting]}")
        elif key not in known:
            near = () if key in ELSEWHERE else difflib.get_close_matches(key, known, 1)
            if near:
                raise ValueError(f"unknown option '{key}'; did you mean '{known[near[0]]}'?")
            if warn:
                log.warning("the option %s has no effect here", key)


def security(options: Mapping[str, str]) -> Security | None:
    """The security settings of connections to brokers, None without any, from kafka.security.protocol, kafka.ssl.* and
    kafka.sasl.*.

    Raises:
        ValueError: it names the setting.
    """
    kafka = {key.removeprefix("kafka."): value for key, value in options.items() if key.startswith("kafka.")}
    try:
        return Security.of(kafka)
    except ValueError as problem:
        raise ValueError(f"Kafka option {problem}") from None


def choice(options: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """One of the choices; the first is the default. Raises ValueError: it is another word."""
    value = options.get(name.lower(), choices[0])
    for each in choices:
        if value.strip().lower() == each.lower():
            return each
    raise ValueError(f"{name} is '{value}'; it is one of {', '.join(choices)}")


def flag(options: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """True or false. Raises ValueError: it is another word."""
    return choice(options, name, ("true", "false") if default else ("false", "true")) == "true"


@overload
def number(options: Mapping[str, str], name: str, default: int, lowest: int, highest: int | None = None) -> int: ...


@overload
def number(
    options: Mapping[str, str], name: str, default: None, lowest: int, highest: int | None = None
) -> int | None: ...


def number(
    options: Mapping[str, str], name: str, default: int | None, lowest: int, highest: int | None = None
) -> int | None:
    """A whole number. Raises ValueError: it is something else, or not between these two."""
    value = options.get(name.lower())
    if value is None:
        return default
    if not value.strip().isdecimal() or int(value) < lowest or (highest is not None and int(value) > highest):
        must = " and must be positive" if lowest == 1 else ""
        upto = "up" if highest is None else f"to {highest}"
        raise ValueError(f"{name} is '{value}'; it is a whole number from {lowest} {upto}{must}")
    return int(value)
