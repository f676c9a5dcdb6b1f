"""The common part of conversations of several subjects: the keys of the requests, and writing and reading records."""

from __future__ import annotations

from ottla import _core
from tests.compat.talk import Talk

(PRODUCE, FETCH, LIST_OFFSETS, METADATA) = range(4)
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE_GROUPS, LIST_GROUPS = range(8, 17)
API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH = range(18, 24)
ADD_PARTITIONS, ADD_OFFSETS, END_TXN, WRITE_TXN_MARKERS, TXN_OFFSET_COMMIT = range(24, 29)
DESCRIBE_CONFIGS, ALTER_CONFIGS, ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS = range(32, 36)
CREATE_PARTITIONS, DELETE_GROUPS, ELECT_LEADERS, INCREMENTAL_ALTER_CONFIGS = 37, 42, 43, 44
ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS, OFFSET_DELETE, DESCRIBE_QUOTAS, ALTER_QUOTAS = range(45, 50)
SASL_HANDSHAKE, DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS, SASL_AUTHENTICATE = 17, 29, 30, 31, 36
CREATE_TOKEN, RENEW_TOKEN, EXPIRE_TOKEN, DESCRIBE_TOKEN = range(38, 42)
DESCRIBE_SCRAM, ALTER_SCRAM, UPDATE_FEATURES = 50, 51, 57

TIME = 1_700_000_000_000


def batch(*values: bytes, key: bytes | None = None, **options: object) -> bytes:
    builder = _core.BatchBuilder(**options)  # type: ignore[arg-type]
    for value in values:
        builder.append(TIME, key, value)
    return builder.finish()


def produce(talk: Talk, topic: str, records: bytes | None, version: int = 8, **fields: object) -> None:
    row = {"name": topic, "partitions": [{"partition_index": fields.pop("partition", 0), "records": records}]}
    talk.ask(
        PRODUCE, version, **{"acks": -1, "timeout_ms": 60_000, "transactional_id": None, "topics": [row], **fields}
    )


def fetch(
    talk: Talk,
    topic: str,
    version: int = 11,
    *,
    offset: int = 0,
    partition: int = 0,
    row: dict | None = None,
    **fields: object,
) -> None:
    part = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **(row or {})}
    asked = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, **fields}
    talk.ask(FETCH, version, topics=[{"topic": topic, "partitions": [part]}], **asked)
