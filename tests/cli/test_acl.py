"""`ottla acl`, with Ottla and with Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.errors import TopicAuthorizationFailed
from ottla.wire.acls import ANY_NAME, CLUSTER_NAME, Binding, PatternType, Permission
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic
from ottla.wire.needs import Operation, Resource
from tests.broker.authorization.ruled import ANYTHING, PLAIN, Ruled, flat, rule, settings
from tests.cli.conftest import Ottla
from tests.peers.apache import Apache, tool
from tests.peers.ottla import Brokers
from tests.peers.ports import CONTROLLER, free_port
from tests.support.waiting import eventually

TOPIC, GROUP, ID = Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID
USERS = ("root", "alice")


@pytest.fixture(
    scope="module",
    params=["ottla", *(pytest.param(each, marks=[pytest.mark.java, pytest.mark.judge]) for each in ("2.7.2", "3.9.2"))],
)
def ruled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ruled]:
    """A broker with an authorizer: Ottla's, and Kafka's with ZooKeeper."""
    folder = tmp_path_factory.mktemp(f"acl-{request.param}")
    ports = free_port(), free_port()
    found = Ruled(*ports)
    given = settings(*ports, USERS)
    if request.param == "ottla":
        with Brokers(folder) as brokers:
            brokers(port=ports[0], settings=given)
            yield found
    else:
        with Apache(folder) as apache:
            apache.broker(request.param, zookeeper=apache.zookeeper("2.7.2"), port=ports[0], settings=given)
            found.settle()
            yield found


@pytest.fixture
def at(ruled: Ruled, ottla: Ottla) -> Iterator[tuple[str, ...]]:
    """Every test begins without rules."""
    server = ("-b", f"127.0.0.1:{ruled.plaintext}")
    yield server
    for user in ("User:alice", "User:bob", "User:*"):
        if ottla("acl", "list", "--principal", user, "--json", *server).out:
            ottla("acl", "remove", "--principal", user, "-y", *server)
    assert ruled.found(ANYTHING) == set()


def seen(*rules: Binding) -> set[tuple[object, ...]]:
    return {flat(one) for one in rules}


def test_rules_come_and_go(ottla: Ottla, ruled: Ruled, at: tuple[str, ...]) -> None:
    who = ("--allow", "User:alice", "--deny", "User:bob", "--host", "10.0.0.1")
    done = ottla("acl", "add", *who, "--operation", "read", "--operation", "DescribeConfigs", "--topic", "orders", *at)
    assert done.out.splitlines() == [
        "User:alice may read topic orders from 10.0.0.1",
        "User:bob may not read topic orders from 10.0.0.1",
        "User:alice may describe-configs topic orders from 10.0.0.1",
        "User:bob may not describe-configs topic orders from 10.0.0.1",
    ]
    ottla(
        "acl", "add", "--allow", "User:alice", "--operation", "all", "--group", "b", "--group", "c", "--prefixed", *at
    )
    ottla("acl", "add", "--allow", "User:*", "--operation", "alter", "--cluster", "--host", "::1", *at)
    mine = [
        rule("alice", Operation.READ, TOPIC, "orders", host="10.0.0.1"),
        rule("alice", Operation.DESCRIBE_CONFIGS, TOPIC, "orders", host="10.0.0.1"),
        rule("bob", Operation.READ, TOPIC, "orders", Permission.DENY, host="10.0.0.1"),
        rule("bob", Operation.DESCRIBE_CONFIGS, TOPIC, "orders", Permission.DENY, host="10.0.0.1"),
        rule("alice", Operation.ALL, GROUP, "b", kind=PatternType.PREFIXED),
        rule("alice", Operation.ALL, GROUP, "c", kind=PatternType.PREFIXED),
        rule("*", Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME, host="0:0:0:0:0:0:0:1"),
    ]
    assert ruled.found(ANYTHING) == seen(*mine)
    shown = ottla("acl", "remove", "--deny", "User:bob", "--operation", "read", "--dry-run", *at)
    assert shown.out == "to remove: User:bob may not read topic orders from 10.0.0.1\n"
    assert ruled.found(ANYTHING) == seen(*mine)
    asked = ottla("acl", "remove", "--topic", "orders", *at, code=2)
    assert "4 access rules would be removed, and nobody can be asked here: --yes" in asked.err
    assert ottla("acl", "remove", "--topic", "orders", "--yes", *at).out.endswith("removed 4 access rules\n")
    assert ruled.found(ANYTHING) == seen(*mine[4:])
    again = ottla("acl", "remove", "--topic", "orders", "--yes", *at, code=1)
    assert again.err == "Error: cannot remove access rules: there is none of that kind\n"
    # A literal name is not a beginning.
    ottla("acl", "remove", "--group", "b", "--yes", *at, code=1)
    ottla("acl", "remove", "--group", "b", "--prefixed", "--yes", *at)
    ottla("acl", "remove", "--cluster", "--host", "0:0:0:0:0:0:0:1", "--yes", *at)
    assert ruled.found(ANYTHING) == seen(mine[5])


def test_rules_are_listed(ottla: Ottla, at: tuple[str, ...]) -> None:
    read = ("--operation", "read")
    ottla("acl", "add", "--allow", "User:alice", *read, "--topic", "orders", *at)
    ottla("acl", "add", "--allow", "User:alice", *read, "--topic", "or", "--prefixed", *at)
    ottla("acl", "add", "--deny", "User:bob", *read, "--topic", "*", "--group", "orders", *at)
    listed = [line.split() for line in ottla("acl", "list", *at).out.splitlines()]
    assert listed == [
        ["resource", "name", "pattern", "principal", "permission", "operation", "host"],
        ["topic", "*", "literal", "User:bob", "deny", "read", "*"],
        ["topic", "or", "prefixed", "User:alice", "allow", "read", "*"],
        ["topic", "orders", "literal", "User:alice", "allow", "read", "*"],
        ["group", "orders", "literal", "User:bob", "deny", "read", "*"],
    ]

    def names(*options: str) -> list[tuple[str, str]]:
        rows = ottla("acl", "list", "--json", *options, *at).json
        return [(row["resource"], row["name"]) for row in rows if isinstance(row, dict)]

    assert names("--topic", "orders") == [("topic", "*"), ("topic", "or"), ("topic", "orders")]
    assert names("--topic", "orb") == [("topic", "*"), ("topic", "or")]
    assert names("--topic", "or", "--prefixed") == names("--prefixed") == [("topic", "or")]
    assert names("--principal", "User:bob", "--topic", "orders") == [("topic", "*")]
    assert names("--group", "orders", "--topic", "a") == [("topic", "*"), ("group", "orders")]
    (one,) = ottla("acl", "list", "--json", "--group", "orders", *at).json
    assert one == {
        "resource": "group",
        "name": "orders",
        "pattern": "literal",
        "principal": "User:bob",
        "permission": "deny",
        "operation": "read",
        "host": "*",
    }


def test_the_roles_of_kafkas_tool(ottla: Ottla, ruled: Ruled, at: tuple[str, ...]) -> None:
    alice = ("--allow", "User:alice")
    both = (*alice, "--producer", "--idempotent", "--transactional-id", "x", "--topic", "orders")
    ottla("acl", "add", *both, *at)
    producer = [
        rule("alice", each, TOPIC, "orders") for each in (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
    ]
    producer += [rule("alice", each, ID, "x") for each in (Operation.WRITE, Operation.DESCRIBE)]
    producer += [rule("alice", Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME)]
    assert ruled.found(ANYTHING) == seen(*producer)
    other = rule("alice", Operation.READ, TOPIC, "orders", host="10.0.0.1")
    ruled.create(other)
    ottla("acl", "remove", *both, "-y", *at)
    assert ruled.found(ANYTHING) == seen(other)
    ruled.delete(other)
    consumer = (*alice, "--consumer", "--topic", "or", "--group", "b", "--prefixed")
    ottla("acl", "add", *consumer, *at)
    wanted = [
        rule("alice", each, TOPIC, "or", kind=PatternType.PREFIXED) for each in (Operation.READ, Operation.DESCRIBE)
    ]
    wanted += [rule("alice", Operation.READ, GROUP, "b", kind=PatternType.PREFIXED)]
    assert ruled.found(ANYTHING) == seen(*wanted)
    ottla("acl", "remove", *consumer[2:], "-y", *at)
    assert ruled.found(ANYTHING) == set()


def test_why(ottla: Ottla, ruled: Ruled, at: tuple[str, ...]) -> None:
    def said(*asked: str) -> list[str]:
        *lines, last = ottla("acl", "why", *asked, *at).out.splitlines()
        assert last == "not seen: super.users of the brokers' files, who may do everything"
        return lines

    read = ("User:alice", "read", "topic", "orders")
    assert said(*read) == [
        "denied: User:alice may not read topic orders",
        "because: no rule is about topic orders; allow.everyone.if.no.acl.found=true in brokers' files allows it",
    ]
    ruled.create(rule("bob", Operation.READ, TOPIC, "orders"))
    assert said(*read)[1] == "because: 1 rule about topic orders, and none allows it"
    ruled.create(rule("*", Operation.ALL, TOPIC, "or", kind=PatternType.PREFIXED))
    because = "because: everybody may do everything with topics that begin with or"
    assert said(*read) == ["allowed: User:alice may read topic orders", because]
    ruled.create(rule("alice", Operation.READ, TOPIC, ANY_NAME, Permission.DENY, host="10.0.0.1"))
    assert said(*read)[1:] == [because, "left out: 1 rule for single addresses, which --host looks at"]
    assert said(*read, "--host", "10.0.0.1") == [
        "denied: User:alice may not read topic orders from 10.0.0.1",
        "because: User:alice may not read any topic from 10.0.0.1",
    ]
    ruled.create(rule("alice", Operation.WRITE, ID, "x"))
    implied = "because: User:alice may write transactional-id x, and write implies describe"
    assert said("User:alice", "describe", "transactional-id", "x")[1] == implied
    assert said("User:alice", "alter", "cluster")[0] == "denied: User:alice may not alter the cluster"
    (found,) = ottla("acl", "why", *read, "--host", "10.0.0.1", "--json", *at).json
    assert isinstance(found, dict)
    assert (found["allowed"], found["rule"]["name"], found["host"], found["rules"]) == (False, "*", "10.0.0.1", 3)


def test_a_command_that_is_denied_something(
    ottla: Ottla, ruled: Ruled, at: tuple[str, ...], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    ottla("topic", "create", "orders", *at)
    file = tmp_path / "alice.properties"
    login = f'{PLAIN} required username="alice" password="p";'
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
    alice = ("-b", f"127.0.0.1:{ruled.sasl}", "--command-config", str(file))
    ottla("acl", "add", *ALICE, "--producer", "--topic", "orders", *at)
    if request.node.callspec.params["ruled"] != "3.9.2":  # since 2.8 nobody asks for that right
        refused = ottla("produce", "orders", *alice, stdin=b"v\n", code=1)
        assert "producers need idempotent-write (CLUSTER_AUTHORIZATION_FAILED)" in refused.err
    ottla("acl", "add", *ALICE, "--producer", "--idempotent", "--topic", "orders", *at)
    ottla("produce", "orders", *alice, stdin=b"v\n")
    refused = ottla("consume", "orders", "--from-beginning", "-n", "1", *alice, code=1)
    assert "`ottla acl why User:NAME OPERATION topic TOPIC` says why (TOPIC_AUTHORIZATION_FAILED)" in refused.err
    ottla("acl", "add", *ALICE, *READ, "--topic", "orders", *at)
    assert ottla("consume", "orders", "--from-beginning", "-n", "1", *alice).out == "v\n"
    ottla("topic", "delete", "orders", "-y", *at)


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_brokers_decide_as_it_says(ottla: Ottla, ruled: Ruled, at: tuple[str, ...], user: str) -> None:
    ruled.create(
        rule("*", Operation.READ, TOPIC, "or", kind=PatternType.PREFIXED),
        rule("alice", Operation.DESCRIBE, TOPIC, ANY_NAME, Permission.DENY),
    )
    (found,) = ottla("acl", "why", f"User:{user}", "describe", "topic", "orders", "--json", *at).json
    assert isinstance(found, dict)
    assert found["allowed"] == (user == "bob")
    if user in USERS:
        answer = ruled.ask(user, METADATA, MetadataRequest([MetadataRequestTopic("orders")]), 4)
        assert answer.topics[0].error_code == TopicAuthorizationFailed.code


@pytest.mark.java
@pytest.mark.judge
def test_kafka_in_kraft_mode(ottla: Ottla, tmp_path: Path) -> None:
    """Its brokers hear of rules a moment after the answer."""
    port = free_port()
    given = {
        **settings(port, free_port(), USERS),
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + CONTROLLER}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }
    with Apache(tmp_path) as apache:
        at = ("-b", apache.broker("4.3.1", port=port, settings=given).bootstrap)
        ottla("acl", "add", *ALICE, "--consumer", "--topic", "or", "--group", "b", "--prefixed", *at)
        eventually("they are heard of", lambda: len(ottla("acl", "list", "--json", *at).json) == 3)
        asked = ("acl", "why", "User:alice", "read", "topic", "orders", *at)
        assert ottla(*asked).out.startswith("allowed: User:alice may read topic orders\n")
        ottla("acl", "remove", "--topic", "or", "--prefixed", "-y", *at)
        eventually("they are gone", lambda: ottla(*asked).out.startswith("denied: "))


READ = ("--operation", "read")
ALICE = ("--allow", "User:alice")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "--allow", "alice", *READ, "--topic", "t"), "'alice' is no TYPE:NAME, such as User:alice"),
        (("add", "--allow", "User:", *READ, "--topic", "t"), "'User:' is no TYPE:NAME"),
        (("add", "--deny", "user:bob", *READ, "--topic", "t"), "'user:bob' would be nobody: write User:bob"),
        (("add", *ALICE, "--operation", "raed", "--topic", "t"), "'raed' is no operation; did you mean read?"),
        (("add", *ALICE, "--operation", "any", "--topic", "t"), "'any' is no operation"),
        (("add", *ALICE, "--operation", "write", "--group", "g"), "write is no operation on a group; there are read,"),
        (("add", *ALICE, *READ, "--cluster"), "read is no operation on a cluster"),
        (("add", *ALICE, *READ, "--topic", "*", "--prefixed"), "leave --prefixed out for all"),
        (("add", *ALICE, "--operation", "alter", "--cluster", "--prefixed"), "there is one cluster"),
        (("add", *ALICE, *READ, "--topic", ""), "it is empty"),
        (("add", *ALICE, *READ, "--topic", "t", "--host", "localhost"), "'localhost' is no IP address"),
        (("add", *ALICE, *READ, "--topic", "t", "--host", "10.0.0.0/8"), "'10.0.0.0/8' is no IP address"),
        (("add", *READ, "--topic", "t"), "to whom? Give --allow or --deny"),
        (("add", *ALICE, *READ), "for which resource?"),
        (("add", *ALICE, "--topic", "t"), "which operation?"),
        (("add", *ALICE, "--producer", *READ, "--topic", "t"), "--operation and --producer contradict each other"),
        (("add", "--deny", "User:a", "--consumer", "--topic", "t", "--group", "g"), "--deny and --consumer contradict"),
        (("add", *ALICE, "--producer"), "--producer needs --topic"),
        (("add", *ALICE, "--consumer", "--topic", "t"), "--consumer needs --topic and --group"),
        (("add", *ALICE, "--producer", "--topic", "t", "--group", "g"), "--group is for --consumer"),
        (("add", *ALICE, "--consumer", "--topic", "t", "--group", "g", "--transactional-id", "x"), "is for --producer"),
        (("add", *ALICE, "--producer", "--topic", "t", "--cluster"), "--producer is about no cluster"),
        (("add", *ALICE, "--idempotent", *READ, "--topic", "t"), "--idempotent needs --producer"),
        (("add", *ALICE, *READ, "--topic", "t", "--data-dir", "d", "--zookeeper", "h:1"), "--data-dir and --zookeeper"),
        (("remove", "--yes"), "which rules? Give --principal"),
        (("list", "--principal", "alice"), "'alice' is no TYPE:NAME"),
        (("why", "Group:a", "read", "topic", "t"), "brokers know their clients as User:NAME"),
        (("why", "User:a", "read", "topic"), "which topic? Its name is missing"),
        (("why", "User:a", "all", "topic", "t"), "one operation at a time"),
        (("why", "User:a", "write", "group", "g"), "write is no operation on a group"),
        (("why", "User:a", "alter", "cluster", "mine"), "there is one cluster"),
    ],
)
def test_mistakes(ottla: Ottla, arguments: tuple[str, ...], said: str) -> None:
    assert said in ottla("acl", *arguments, code=2).err.replace("\n", " ")


def test_a_cluster_without_an_authorizer(ottla: Ottla, bootstrap: str) -> None:
    for arguments in (("list",), ("add", *ALICE, *READ, "--topic", "t"), ("why", "User:a", "read", "topic", "t")):
        done = ottla("acl", *arguments, "-b", bootstrap, code=1)
        assert done.err.startswith("Error: cannot ")
        assert "authorizer.class.name in the brokers' files turns access rules on (SECURITY_DISABLED)" in done.err


def test_rules_from_the_first_start_on(ottla: Ottla, brokers: Brokers, tmp_path: Path) -> None:
    data = tmp_path / "data"
    given = ("acl", "add", *ALICE, *READ, "--data-dir", str(data))
    assert ottla(*given, "--topic", "orders").out == "User:alice may read topic orders\n"
    ottla("acl", "add", "--deny", "User:bob", *READ, "--topic", "orders", "--data-dir", str(data))
    ottla(*given, "--topic", "orders", "--topic", "or", "--prefixed")
    ports = free_port(), free_port()
    broker = brokers(data=data, port=ports[0], settings=settings(*ports, USERS))
    mine = [rule("alice", Operation.READ, TOPIC, "orders")]
    mine += [rule("bob", Operation.READ, TOPIC, "orders", Permission.DENY)]
    mine += [rule("alice", Operation.READ, TOPIC, name, kind=PatternType.PREFIXED) for name in ("orders", "or")]
    assert Ruled(*ports).found(ANYTHING) == seen(*mine)
    busy = ottla(*given, "--topic", "more", code=1)
    assert "cannot add access rules: " in busy.err
    assert "in use" in busy.err
    assert broker.stop() == 0


def test_a_name_without_a_place_in_the_tree(ottla: Ottla, tmp_path: Path) -> None:
    done = ottla("acl", "add", *ALICE, *READ, "--group", "a/b", "--data-dir", str(tmp_path / "d"), code=1)
    assert "cannot add access rules: The coordination tree has no place for a pattern called 'a/b'" in done.err


@pytest.mark.java
@pytest.mark.zookeeper
def test_the_first_rules_of_a_cluster(ottla: Ottla, zookeeper: str) -> None:
    """Apache Kafka's tool finds them."""
    ottla("acl", "add", *ALICE, "--consumer", "--topic", "or", "--group", "b", "--prefixed", "--zookeeper", zookeeper)
    properties = ("--authorizer-properties", f"zookeeper.connect={zookeeper}")
    found = tool("2.7.2", "acls", *properties, "--list", "--topic", "or", "--resource-pattern-type", "prefixed")
    for operation in ("READ", "DESCRIBE"):
        assert f"(principal=User:alice, host=*, operation={operation}, permissionType=ALLOW)" in found
