"""Settings of topics and brokers, log directories, elections, reassignments, quotas, credentials."""

from __future__ import annotations

from tests.compat.conversations.common import (
    ALTER_CONFIGS,
    ALTER_QUOTAS,
    ALTER_REASSIGNMENTS,
    ALTER_REPLICA_LOG_DIRS,
    ALTER_SCRAM,
    API_VERSIONS,
    CREATE_ACLS,
    CREATE_TOKEN,
    DELETE_ACLS,
    DESCRIBE_ACLS,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_QUOTAS,
    DESCRIBE_SCRAM,
    DESCRIBE_TOKEN,
    ELECT_LEADERS,
    EXPIRE_TOKEN,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_REASSIGNMENTS,
    RENEW_TOKEN,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    UPDATE_FEATURES,
)
from tests.compat.talk import Talk


def describe_configs(talk: Talk) -> None:
    talk.topic("dc", retention_ms="77")
    for version in range(1, 4):
        for kind, name in (
            (2, "dc"),
            (2, "none"),
            (2, "a b"),
            (2, ""),
            (4, "1"),
            (4, "x"),
            (8, "1"),
            (0, "dc"),
            (9, "dc"),
            (3, "x"),
            (5, "x"),
        ):
            keys = (
                ["retention.ms", "cleanup.policy", "no.such"]
                if kind == 2
                else ["log.retention.hours", "num.partitions"]
            )
            talk.ask(
                DESCRIBE_CONFIGS,
                version,
                resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
            )
        for keys in ([], ["retention.ms", "retention.ms"]):
            talk.ask(
                DESCRIBE_CONFIGS,
                version,
                resources=[{"resource_type": 2, "resource_name": "dc", "configuration_keys": keys}],
            )
        row = {"resource_type": 2, "resource_name": "dc", "configuration_keys": ["retention.ms"]}
        talk.ask(DESCRIBE_CONFIGS, version, resources=[row, row])
        talk.ask(DESCRIBE_CONFIGS, version, resources=[])
    every = [{"resource_type": 2, "resource_name": "dc", "configuration_keys": None}]
    for synonyms in (False, True):
        talk.ask(DESCRIBE_CONFIGS, 3, resources=every, include_synonyms=synonyms, include_documentation=synonyms)
    talk.ask(DESCRIBE_CONFIGS, 1, resources=every, include_synonyms=True)


def show(talk: Talk, topic: str) -> None:
    """The settings of a topic that conversations change."""
    keys = ["retention.ms", "cleanup.policy", "segment.bytes"]
    row = {"resource_type": 2, "resource_name": topic, "configuration_keys": keys}
    talk.ask(DESCRIBE_CONFIGS, 1, resources=[row])


def incremental_alter_configs(talk: Talk) -> None:
    talk.topic("ic", retention_ms="77")

    def incremental(*changes: tuple, kind: int = 2, name: str = "ic", only: bool = False) -> None:
        configs = [
            {"name": setting, "config_operation": operation, "value": value} for setting, operation, value in changes
        ]
        talk.ask(
            INCREMENTAL_ALTER_CONFIGS,
            1,
            resources=[{"resource_type": kind, "resource_name": name, "configs": configs}],
            validate_only=only,
        )
        show(talk, "ic")

    incremental(("retention.ms", 0, "88"))
    incremental(("retention.ms", 0, "99"), only=True)
    incremental(("retention.ms", 0, None))
    incremental(("retention.ms", 0, "x"))
    incremental(("retention.ms", 0, "-2"))
    incremental(("retention.ms", 2, "1"))
    incremental(("retention.ms", 3, "1"))
    incremental(("retention.ms", 0, "1"), ("retention.ms", 0, "2"))
    incremental(("no.such", 0, "1"))
    incremental(("no.such", 1, None))
    incremental(("", 0, "1"))
    incremental(("cleanup.policy", 2, "compact"))
    incremental(("cleanup.policy", 2, "compact"))
    incremental(("cleanup.policy", 2, "x"))
    incremental(("cleanup.policy", 3, "delete"))
    incremental(("cleanup.policy", 3, "delete"))
    incremental(("cleanup.policy", 3, "compact"))
    incremental(("cleanup.policy", 3, "x,y"))
    incremental(("cleanup.policy", 1, "whatever"))
    incremental(("cleanup.policy", 1, None))
    incremental(("retention.ms", 1, None), ("segment.bytes", 0, "2000"))
    incremental()
    incremental(("retention.ms", 0, "1"), name="none")
    incremental(("retention.ms", 0, "1"), name="a b")
    incremental(("retention.ms", 0, "1"), name="")
    incremental(("retention.ms", 0, "1"), kind=0)
    incremental(("retention.ms", 0, "1"), kind=9)
    incremental(("retention.ms", 0, "1"), kind=3)
    incremental(("log.retention.hours", 0, "1"), kind=4, name="1")
    incremental(("log.retention.hours", 0, "1"), kind=4, name="x")
    incremental(("broker.id", 0, "1"), kind=4, name="")
    incremental(("log.retention.ms", 0, "100000"), kind=4, name="", only=True)
    incremental(("log.retention.ms", 0, "x"), kind=4, name="", only=True)
    for name in ("", "1"):
        incremental(("my.own.thing", 0, "5"), kind=4, name=name)
        incremental(("my.own.thing", 1, None), kind=4, name=name)
        incremental(("my.ssl.key.password", 0, "5"), kind=4, name=name)
        incremental(("listener.name.plaintext.my.own", 0, "5"), kind=4, name=name, only=True)
    incremental(("kafka.no.such", 0, "INFO"), kind=8, name="1")
    incremental(("kafka", 0, "INFO"), kind=8, name="x")
    incremental(("kafka", 0, "INFO"), kind=8, name="")
    row = {
        "resource_type": 2,
        "resource_name": "ic",
        "configs": [{"name": "retention.ms", "config_operation": 0, "value": "5"}],
    }
    talk.ask(INCREMENTAL_ALTER_CONFIGS, 0, resources=[row])
    talk.ask(INCREMENTAL_ALTER_CONFIGS, 0, resources=[])
    show(talk, "ic")


def alter_configs(talk: Talk) -> None:
    """Settings that are not named have their defaults again."""
    talk.topic("ac", retention_ms="77", cleanup_policy="compact")

    def alter(*changes: tuple, kind: int = 2, name: str = "ac", only: bool = False) -> None:
        configs = [{"name": setting, "value": value} for setting, value in changes]
        talk.ask(
            ALTER_CONFIGS,
            1,
            resources=[{"resource_type": kind, "resource_name": name, "configs": configs}],
            validate_only=only,
        )
        show(talk, "ac")

    alter(("retention.ms", "5"))
    alter(("retention.ms", "x"))
    alter(("no.such", "x"))
    alter(("segment.bytes", "3000"), only=True)
    alter(("segment.bytes", "3000"))
    alter()
    alter(("retention.ms", "5"), name="none")
    alter(("retention.ms", "5"), name="")
    alter(("retention.ms", "5"), kind=0)
    alter(("kafka", "INFO"), kind=8, name="1")
    alter(("log.retention.ms", "x"), kind=4, name="1")
    alter(("broker.id", "8"), kind=4, name="1")


def log_dirs(talk: Talk) -> None:
    talk.topic("ld", 2)
    for version in range(3):
        for topics in (
            [],
            [{"topic": "none", "partition_index": [0]}],
            [{"topic": "ld", "partition_index": [7]}],
            [{"topic": "ld", "partition_index": []}],
            [{"topic": "ld", "partition_index": [0, 0]}, {"topic": "ld", "partition_index": [1]}],
        ):
            talk.ask(DESCRIBE_LOG_DIRS, version, topics=topics)
    for version in range(2):
        for name, index in (("ld", 0), ("ld", 7), ("none", 0), ("", 0)):
            for path in ("/nowhere", "", "relative"):
                talk.ask(
                    ALTER_REPLICA_LOG_DIRS,
                    version,
                    dirs=[{"path": path, "topics": [{"name": name, "partitions": [index]}]}],
                )
        talk.ask(ALTER_REPLICA_LOG_DIRS, version, dirs=[])


def elections(talk: Talk) -> None:
    talk.topic("el", 2)
    for version in range(3):
        for kind in (0, 1) if version else (0,):
            for topics in (
                [],
                [{"topic": "el", "partition_id": [0, 1]}],
                [{"topic": "el", "partition_id": [7]}],
                [{"topic": "none", "partition_id": [0]}],
                [{"topic": "el", "partition_id": []}],
            ):
                talk.ask(
                    ELECT_LEADERS,
                    version,
                    topic_partitions=topics,
                    timeout_ms=60_000,
                    **({"election_type": kind} if version else {}),
                )


def reassignments(talk: Talk) -> None:
    talk.topic("ra", 2)
    for name, index, replicas in (
        ("ra", 0, [1]),
        ("ra", 0, []),
        ("ra", 0, [9]),
        ("ra", 0, [7, 7]),
        ("ra", 0, [-1]),
        ("ra", 0, None),
        ("ra", 9, [7]),
        ("none", 0, [7]),
        ("", 0, [7]),
        ("none", 0, None),
        ("ra", 0, [7]),
    ):
        rows = [{"partition_index": index, "replicas": replicas}]
        talk.ask(ALTER_REASSIGNMENTS, 0, topics=[{"name": name, "partitions": rows}], timeout_ms=60_000)
    talk.ask(ALTER_REASSIGNMENTS, 0, topics=[], timeout_ms=60_000)
    talk.ask(ALTER_REASSIGNMENTS, 0, topics=[{"name": "ra", "partitions": []}], timeout_ms=60_000)
    for topics in (None, [], [{"name": "ra", "partition_indexes": [0]}], [{"name": "none", "partition_indexes": [0]}]):
        talk.ask(LIST_REASSIGNMENTS, 0, topics=topics, timeout_ms=60_000)


def quotas(talk: Talk) -> None:
    def alter(entity: list[tuple], *ops: tuple, only: bool = False) -> None:
        names = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
        rows = [{"key": key, "value": value, "remove": remove} for key, value, remove in ops]
        talk.ask(ALTER_QUOTAS, 0, entries=[{"entity": names, "ops": rows}], validate_only=only)

    rate = ("producer_byte_rate", 1000.0, False)
    alter([("user", "u")], rate, only=True)
    alter([("user", "u")], rate)
    alter([("user", None)], rate)
    alter([("client-id", "c")], rate, ("consumer_byte_rate", 2.5, False))
    alter([("user", "u"), ("client-id", "c")], rate)
    alter([("user", "u"), ("client-id", None)], rate)
    alter([("ip", "127.0.0.1")], ("connection_creation_rate", 5.0, False))
    alter([("ip", "127.0.0.1")], rate)
    alter([("ip", "not an ip")], ("connection_creation_rate", 5.0, False))
    alter([("ip", None), ("user", "u")], ("connection_creation_rate", 5.0, False))
    alter([("nonsense", "x")], rate)
    alter([("", "x")], rate)
    alter([], rate)
    alter([("user", "")], rate)
    alter([("client-id", "")], rate)
    alter([("user", "u")], ("no_such", 1.0, False))
    alter([("user", "u")], ("request_percentage", 0.0, False))
    alter([("user", "u")], ("request_percentage", -1.0, False))
    alter([("user", "u")], ("producer_byte_rate", 0.5, False))
    alter([("user", "u")], ("controller_mutation_rate", 1.5, False))
    alter([("user", "u")], ("producer_byte_rate", 0.0, True))
    alter([("user", "u")], ("producer_byte_rate", 0.0, True))
    alter([("user", "u")])
    talk.ask(ALTER_QUOTAS, 0, entries=[])

    def describe(*components: tuple, strict: bool = False) -> None:
        rows = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
        talk.ask(DESCRIBE_QUOTAS, 0, components=rows, strict=strict)

    for strict in (False, True):
        describe(strict=strict)
        for kind in ("user", "client-id"):
            for how, name in ((0, "u"), (0, "c"), (1, None), (2, None)):
                describe((kind, how, name), strict=strict)
        describe(("user", 0, "u"), ("client-id", 0, "c"), strict=strict)
        describe(("user", 0, "u"), ("client-id", 1, None), strict=strict)
        describe(("user", 2, None), ("client-id", 2, None), strict=strict)


def scram(talk: Talk) -> None:
    def alter(*upserts: tuple, delete: tuple = ()) -> None:
        rows = [
            {"name": name, "mechanism": kind, "iterations": count, "salt": b"salt", "salted_password": b"pw"}
            for name, kind, count in upserts
        ]
        talk.ask(
            ALTER_SCRAM, 0, upsertions=rows, deletions=[{"name": name, "mechanism": kind} for name, kind in delete]
        )

    alter(("u", 1, 4096))
    alter(("u", 2, 8192))
    alter(("u", 1, 4095))
    alter(("u", 1, 16385))
    alter(("u", 1, 16384), ("v", 1, 4096))
    alter(("u", 0, 4096))
    alter(("u", 3, 4096))
    alter(("", 1, 4096))
    alter(("u", 1, 4096), ("u", 1, 4096))
    alter(("u", 1, 4096), ("u", 2, 4096))
    alter(("u", 1, 4096), delete=(("u", 1),))
    alter(delete=(("nobody", 1),))
    alter(delete=(("v", 2),))
    alter(delete=(("v", 1),))
    alter(delete=(("v", 1),))
    alter()
    for users in (None, [], ["u"], ["v"], ["u", "u"], ["nobody", "u"], [""]):
        talk.ask(DESCRIBE_SCRAM, 0, users=users if users is None else [{"name": name} for name in users])
    alter(delete=(("u", 1), ("u", 2)))


def features(talk: Talk) -> None:
    talk.ask(UPDATE_FEATURES, 0, timeout_ms=60_000, feature_updates=[])
    talk.ask(UPDATE_FEATURES, 0, timeout_ms=60_000, feature_updates=[{"feature": "x", "max_version_level": 1}])
    talk.ask(UPDATE_FEATURES, 0, timeout_ms=60_000, feature_updates=[{"feature": "x", "max_version_level": 0}])
    talk.ask(
        UPDATE_FEATURES,
        0,
        timeout_ms=60_000,
        feature_updates=[{"feature": "x", "max_version_level": 0, "allow_downgrade": True}],
    )
    for name, version in (("client", "1.0"), ("", ""), ("a b", "1"), ("-", "1"), ("x", "1 0")):
        talk.ask(
            API_VERSIONS, 3, by=f"hello {name} {version}", client_software_name=name, client_software_version=version
        )


def security(talk: Talk) -> None:
    """Where none is set up."""
    rule = {
        "resource_type": 2,
        "resource_name": "t",
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    which = {"resource_type_filter": 1, "operation": 1, "permission_type": 1}
    for version in range(3):
        talk.ask(DESCRIBE_ACLS, version, **which, principal_filter=None, host_filter=None, resource_name_filter=None)
        talk.ask(CREATE_ACLS, version, creations=[rule, rule])
        talk.ask(CREATE_ACLS, version, creations=[])
        talk.ask(DELETE_ACLS, version, filters=[which])
        talk.ask(DELETE_ACLS, version, filters=[])
        talk.ask(SASL_AUTHENTICATE, version, auth_bytes=b"x")
        somebody = {"principal_type": "User", "principal_name": "a"}
        talk.ask(CREATE_TOKEN, version, renewers=[somebody], max_lifetime_ms=-1)
        talk.ask(RENEW_TOKEN, version, hmac=b"x", renew_period_ms=1000)
        talk.ask(EXPIRE_TOKEN, version, hmac=b"x", expiry_time_period_ms=-1)
        for owners in (None, [], [somebody]):
            talk.ask(DESCRIBE_TOKEN, version, owners=owners)
    for mechanism in ("PLAIN", ""):
        talk.ask(SASL_HANDSHAKE, 0, mechanism=mechanism)
        talk.ask(SASL_HANDSHAKE, 1, mechanism=mechanism)
