"""Writes `compatibility.md` beside it: every API of Kafka 2.7, served or absent. `make docs` runs it, a test compares.

What is served is asked of the broker itself, so the page cannot claim what is not there.
"""

from collections.abc import Iterator

from ottla.broker.requests import SUPPORTED
from ottla.wire import api
from ottla.wire.schema import describe

# Kafka 2.7's APIs: key -> name, highest version (the lowest is 0 everywhere).
KAFKA = {
    0: ("Produce", 8),
    1: ("Fetch", 12),
    2: ("ListOffsets", 5),
    3: ("Metadata", 9),
    4: ("LeaderAndIsr", 4),
    5: ("StopReplica", 3),
    6: ("UpdateMetadata", 6),
    7: ("ControlledShutdown", 3),
    8: ("OffsetCommit", 8),
    9: ("OffsetFetch", 7),
    10: ("FindCoordinator", 3),
    11: ("JoinGroup", 7),
    12: ("Heartbeat", 4),
    13: ("LeaveGroup", 4),
    14: ("SyncGroup", 5),
    15: ("DescribeGroups", 5),
    16: ("ListGroups", 4),
    17: ("SaslHandshake", 1),
    18: ("ApiVersions", 3),
    19: ("CreateTopics", 6),
    20: ("DeleteTopics", 5),
    21: ("DeleteRecords", 2),
    22: ("InitProducerId", 4),
    23: ("OffsetForLeaderEpoch", 3),
    24: ("AddPartitionsToTxn", 2),
    25: ("AddOffsetsToTxn", 2),
    26: ("EndTxn", 2),
    27: ("WriteTxnMarkers", 0),
    28: ("TxnOffsetCommit", 3),
    29: ("DescribeAcls", 2),
    30: ("CreateAcls", 2),
    31: ("DeleteAcls", 2),
    32: ("DescribeConfigs", 3),
    33: ("AlterConfigs", 1),
    34: ("AlterReplicaLogDirs", 1),
    35: ("DescribeLogDirs", 2),
    36: ("SaslAuthenticate", 2),
    37: ("CreatePartitions", 3),
    38: ("CreateDelegationToken", 2),
    39: ("RenewDelegationToken", 2),
    40: ("ExpireDelegationToken", 2),
    41: ("DescribeDelegationToken", 2),
    42: ("DeleteGroups", 2),
    43: ("ElectLeaders", 2),
    44: ("IncrementalAlterConfigs", 1),
    45: ("AlterPartitionReassignments", 0),
    46: ("ListPartitionReassignments", 0),
    47: ("OffsetDelete", 0),
    48: ("DescribeClientQuotas", 0),
    49: ("AlterClientQuotas", 0),
    50: ("DescribeUserScramCredentials", 0),
    51: ("AlterUserScramCredentials", 0),
    56: ("AlterIsr", 0),
    57: ("UpdateFeatures", 0),
}

# Served although 2.7 does not have them: for tools; no client infers a release from them.
LATER = {
    60: ("DescribeCluster", "2.8"),
    61: ("DescribeProducers", "2.8"),
    65: ("DescribeTransactions", "3.0"),
    66: ("ListTransactions", "3.0"),
}

BETWEEN_BROKERS = "Between brokers only: taken on the listeners that brokers use."
NO_TOKENS = "Answers DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as Kafka where nobody is authenticated."
NO_AUTHORIZER = "Without an authorizer it answers SECURITY_DISABLED. [acls.md](acls.md) says what rules do."
NOTES = {
    17: "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. Answers ILLEGAL_SASL_STATE on listeners without SASL.",
    29: NO_AUTHORIZER,
    30: f"{NO_AUTHORIZER} A rule for a prefix is refused while inter.broker.protocol.version is older than 2.0.",
    31: NO_AUTHORIZER,
    36: "Answers ILLEGAL_SASL_STATE on listeners without SASL.",
    38: NO_TOKENS,
    39: NO_TOKENS,
    40: NO_TOKENS,
    41: NO_TOKENS,
    37: "Refuses `__consumer_offsets` and `__transaction_state` with INVALID_PARTITIONS. Kafka 2.7 adds partitions to "
    "them, and loses what groups and transactions have stored when their coordinators are next loaded.",
    45: "Where a move gets another target on its way, replicas that alone could lead stay until it is in sync. Kafka "
    "leaves them out at once, and with them what only they have.",
    57: "There are no features, as in Kafka 2.7.",
    0: "All message formats; versions 0 to 2 carry formats 0 and 1.",
    1: (
        "Versions 0 to 3 are answered in formats 0 and 1, converted where the log has newer ones. A partition that is "
        "named twice is answered once, as in Kafka; more than 200,000 partitions in one request close the connection."
    ),
    2: "Version 0 answers segment boundaries, as it always did.",
    18: "An unknown version is answered in version 0's form with error 35, as clients expect.",
}


def render() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Compatibility\n"
    yield "This page is written by `make docs` from what the broker serves; a test compares the two."
    yield "Which client was tested with what is in [clients.md](clients.md).\n"
    yield "## Served\n"
    yield "| key | API | versions | Kafka 2.7 | |"
    yield "|---|---|---|---|---|"
    for key, served in SUPPORTED.items():
        if key in KAFKA:
            name, kafka = KAFKA[key][0], f"0-{KAFKA[key][1]}"
        else:
            name, kafka = LATER[key][0], f"from {LATER[key][1]}"
        note = BETWEEN_BROKERS if served.is_between_brokers else NOTES.get(key, "")
        yield f"| {key} | {name} | {served.lowest}-{served.highest} | {kafka} | {note} |"
    yield "\nAll other requests close the connection, with one line in the log that names key, version and client."
    yield from _rows()
    yield "\n## Knowingly absent"
    yield BESIDES


def _rows() -> Iterator[str]:
    yield TWICE
    by_bound: dict[int, list[str]] = {}
    for key in sorted(SUPPORTED.keys() - NATIVE):
        if any(isinstance(field.type, tuple) for field in describe(api(key).request).fields):
            by_bound.setdefault(api(key).items_max, []).append(api(key).name)
    for bound, names in sorted(by_bound.items()):
        yield f"- {bound:,}: {', '.join(names)}"


#: Produce and Fetch bound their rows by themselves.
NATIVE = {0, 1}

TWICE = """
## Requests of many rows

What is named twice in a request is answered as Kafka 2.7 answers it (`tests/compat/conversations/twice.py` compares the
two): once, twice or with an error, by API. Two differ:

- Produce answers each row. Kafka drops the first of two batches for one partition, and acknowledges both.
- AlterConfigs refuses a resource that is named twice and alters those beside it, as Kafka does since 3.2. Kafka 2.7
  refuses the whole request with UNKNOWN_SERVER_ERROR.

An answer that would have more bytes than `socket.request.max.bytes` closes the connection. (DescribeConfigs and
DescribeGroups describe a resource or a group as often as it is named.)

A request with too many items in all of its arrays together closes the connection, too. The bound is what a cluster of
200,000 partitions needs to name each partition in a topic of its own, with its replicas where an API names them.
Of members, users, tokens and the like there are fewer. The bounds:
"""

BESIDES = """
SASL by GSSAPI (Kerberos) and delegation tokens; authorizers that are Java classes of others, and a tree for access
rules alone (`authorizer.zookeeper.*`); logins at ZooKeeper by Kerberos.

## Settings without a meaning here

Taken, kept and shown, like all of Kafka's settings ([settings.md](settings.md) marks in bold what has an effect):

- Passwords of TLS and SASL among the settings that change while brokers run are decoded, encoded and encoded anew with
  `password.encoder.*` as in Kafka (with the package `cryptography`), so that either
  broker takes over what the other stored. Those that cannot be decoded are left out with an
  error in the log and stay where they are. (Kafka drops them with the next change of any setting.)
- `max.connection.creation.rate` holds for the broker and for each listener, as in 2.7.0; the rate for each address came
  with 2.8.
- `listeners` opens and closes by name. Another address for a name that is open is refused.

## Files and tree

Segments, indexes, checkpoints, `meta.properties`, `.lock` and the clean-shutdown marker are Kafka's. The coordination
tree is in ZooKeeper (`--zookeeper`) with Kafka 2.7's paths and JSON, or the same tree in one SQLite file in the data
directory; `ottla tree export` and `ottla tree import` copy between them. A file `ottla-tree.sqlite.moved` beside
it says that its topics are in ZooKeeper now. `.ottla_boot`, `.ottla_topic` in the folders of partitions, and files that
begin with `.ottla-aside` are told of in [A cluster](cluster.md). Kafka ignores all of them."""


if __name__ == "__main__":
    print(render(), end="")
