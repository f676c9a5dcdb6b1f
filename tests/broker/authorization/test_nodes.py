"""Nodes with access rules, as Kafka 2.7 writes and reads them."""

from __future__ import annotations

import pytest

from ottla.broker.authorization.nodes import (
    PERSISTENT_PATHS,
    decode_change,
    decode_entries,
    encode_change,
    encode_entries,
    path_of,
    resource_of,
)
from ottla.coordination.znodes import MalformedNode
from ottla.wire.acls import Entry, Pattern, PatternType, Permission
from ottla.wire.needs import Operation, Resource

BY_KAFKA = (
    b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"},'
    b'{"principal":"User:b:c","permissionType":"Deny","operation":"ClusterAction","host":"10.0.0.1"}]}'
)
ENTRIES = {
    Entry("User:alice", "*", Operation.READ, Permission.ALLOW),
    Entry("User:b:c", "10.0.0.1", Operation.CLUSTER_ACTION, Permission.DENY),
}
LITERAL = Pattern(Resource.TRANSACTIONAL_ID, "a:b")
PREFIXED = Pattern(Resource.GROUP, "billing", PatternType.PREFIXED)


def test_entries() -> None:
    assert decode_entries("/p", BY_KAFKA) == ENTRIES
    assert encode_entries(ENTRIES) == BY_KAFKA
    assert decode_entries("/p", b"") == frozenset()
    assert decode_entries("/p", b'{"version":1,"acls":[],"more":2}') == frozenset()


def test_words_in_other_letters_and_of_later_releases() -> None:
    (found,) = decode_entries(
        "/p",
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"ALLOW","operation":"describeconfigs",'
        b'"host":"h","more":1}]}',
    )
    assert found == Entry("User:a", "h", Operation.DESCRIBE_CONFIGS, Permission.ALLOW)
    (found,) = decode_entries(
        "/p",
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Audit","operation":"CreateTokens","host":"h"}]}',
    )
    assert found == Entry("User:a", "h", Operation.UNKNOWN, Permission.UNKNOWN)
    assert resource_of("TransactionalId") is resource_of("transactionalid") is Resource.TRANSACTIONAL_ID
    assert resource_of("User") is Resource.UNKNOWN


@pytest.mark.parametrize(
    "data",
    [
        b"no JSON",
        b"[]",
        b"{}",
        b'{"acls":[]}',
        b'{"version":2,"acls":[]}',
        b'{"version":true,"acls":[]}',
        b'{"version":1,"acls":{}}',
        b'{"version":1,"acls":[1]}',
        b'{"version":1,"acls":[{"principal":"alice","permissionType":"Allow","operation":"Read","host":"*"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"Read"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":3,"host":"*"}]}',
    ],
)
def test_what_is_no_node_of_entries(data: bytes) -> None:
    with pytest.raises(MalformedNode, match="/p"):
        decode_entries("/p", data)


def test_changes() -> None:
    assert encode_change(LITERAL) == b"TRANSACTIONAL_ID:a:b"
    extended = b'{"version":1,"resourceType":"GROUP","name":"billing","patternType":"PREFIXED"}'
    assert encode_change(PREFIXED) == extended
    for pattern in (LITERAL, PREFIXED):
        assert decode_change("/p", encode_change(pattern), pattern.kind) == pattern
    for data in (b"TOPIC", b"TOPIC:", b"TABLE:a", b"ANY:a", extended):
        with pytest.raises(MalformedNode):
            decode_change("/p", data, PatternType.LITERAL)
    for data in (b"GROUP:billing", extended.replace(b"1", b"2"), extended.replace(b"PREFIXED", b"LITERAL")):
        with pytest.raises(MalformedNode):
            decode_change("/p", data, PatternType.PREFIXED)


def test_paths() -> None:
    assert path_of(LITERAL) == "/kafka-acl/TransactionalId/a:b"
    assert path_of(PREFIXED) == "/kafka-acl-extended/prefixed/Group/billing"
    assert len(PERSISTENT_PATHS) == len(set(PERSISTENT_PATHS)) == 12
    assert {"/kafka-acl/Cluster", "/kafka-acl-extended/prefixed/DelegationToken"} < set(PERSISTENT_PATHS)
    assert {"/kafka-acl-changes", "/kafka-acl-extended-changes"} < set(PERSISTENT_PATHS)
