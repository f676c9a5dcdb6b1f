"""Principals by the rules for names in certificates, as Kafka 2.7 gives them, and in a broker."""

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.broker.principals import NoPrincipal, named, rules
from ottla.client import Security
from ottla.wire.headers import request_frame
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.wire.k49_alter_client_quotas import (
    ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.peers.certificates import Certified, certified
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.support.client import Client, batch, connect, values
from tests.support.tls import API_VERSIONS, context, listeners, refused, store
from tests.support.waiting import PATIENCE_S, eventually

#: Rules, the name in a certificate, and what `SslPrincipalMapper` of Kafka 2.7.2 makes of it; None: no rule applies.
MAPPED = (
    ("DEFAULT", "CN=duke,OU=ServiceUsers,O=Org,C=US", "CN=duke,OU=ServiceUsers,O=Org,C=US"),
    (" DEFAULT ", "CN=duke,OU=ServiceUsers,O=Org,C=US", "CN=duke,OU=ServiceUsers,O=Org,C=US"),
    (" DEFAULT ", "CN=Duke\\, Inc.,OU=other,O=x", "CN=Duke\\, Inc.,OU=other,O=x"),
    (" DEFAULT ", "OU=x,CN=a.B", "OU=x,CN=a.B"),
    ("", "CN=duke,OU=ServiceUsers,O=Org,C=US", None),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=duke,OU=ServiceUsers,O=Org,C=US", "duke"),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=Duke\\, Inc.,OU=other,O=x", None),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=MÜLLER İ,OU=ServiceUsers", "MÜLLER İ"),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT", "CN=duke,OU=ServiceUsers,O=Org,C=US", "duke"),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT", "CN=Duke\\, Inc.,OU=other,O=x", "CN=Duke\\, Inc.,OU=other,O=x"),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT", "OU=x,CN=a.B", "OU=x,CN=a.B"),
    (
        "RULE:^CN=(.*?), *OU=(.*?), *O=(.*?), *L=(.*?), *ST=(.*?), *C=(.*?)$/$1@$2/L",
        "CN=duke,OU=ServiceUsers,O=Org,C=US",
        None,
    ),
    (
        "RULE:^CN=(.*?), *OU=(.*?), *O=(.*?), *L=(.*?), *ST=(.*?), *C=(.*?)$/$1@$2/L",
        "CN=duke, OU=SME, O=mycp, L=Fulton, ST=MD, C=US",
        "duke@sme",
    ),
    ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", "CN=duke,OU=ServiceUsers,O=Org,C=US", "duke"),
    ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", "CN=Duke\\, Inc.,OU=other,O=x", "duke"),
    ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", "OU=x,CN=a.B", "a.b"),
    ("RULE:^CN=(.*?),OU=(.*?)(,.*)?$/$1@$4/U,DEFAULT", "CN=duke,OU=ServiceUsers,O=Org,C=US", "DUKE@$4"),
    ("RULE:^CN=(.*?),OU=(.*?)(,.*)?$/$1@$4/U,DEFAULT", "CN=Duke\\, Inc.,OU=other,O=x", "DUKE\\, INC.@$4"),
    ("RULE:^CN=(.*?),OU=(.*?)(,.*)?$/$1@$4/U,DEFAULT", "OU=x,CN=a.B", "OU=x,CN=a.B"),
    ("RULE:^CN=(.*?),OU=(.*?)(,.*)?$/$1$12/", "CN=duke,OU=ServiceUsers,O=Org,C=US", "dukeduke2"),
    ("RULE:^CN=(.*?),OU=(.*?)(,.*)?$/$1$12/", "CN=Duke\\, Inc.,OU=other,O=x", "Duke\\, Inc.Duke\\, Inc.2"),
    ("RULE:^CN=(.*?),OU=(.*?)(,.*)?$/$1$12/", "OU=x,CN=a.B", None),
    (
        "RULE:^CN=([^,]*),OU=[^,]*(,.*)?$/$0:$01/",
        "CN=duke,OU=ServiceUsers,O=Org,C=US",
        "CN=duke,OU=ServiceUsers,O=Org,C=US:duke",
    ),
    ("RULE:^CN=([^,]*),OU=[^,]*(,.*)?$/$0:$01/", "CN=Duke\\, Inc.,OU=other,O=x", None),
    ("RULE:^CN=([^,]*),OU=[^,]*(,.*)?$/$0:$01/", "CN=MÜLLER İ,OU=ServiceUsers", "CN=MÜLLER İ,OU=ServiceUsers:MÜLLER İ"),
    ("RULE:^CN=([^,]*).*$/a\\/b\\$1\\\\$1/", "CN=duke,OU=ServiceUsers,O=Org,C=US", "a/b$1\\duke"),
    ("RULE:^CN=([^,]*).*$/a\\/b\\$1\\\\$1/", "CN=Duke\\, Inc.,OU=other,O=x", "a/b$1\\Duke\\"),
    ("RULE:^CN=([^,]*).*$/a\\/b\\$1\\\\$1/", "OU=x,CN=a.B", None),
    ("RULE:.*/X/", "CN=duke,OU=ServiceUsers,O=Org,C=US", "XX"),
    ("RULE:.*/X/", "CN=Duke\\, Inc.,OU=other,O=x", "XX"),
    ("RULE:.*/X/", "OU=x,CN=a.B", "XX"),
    ("RULE:CN=/X/", "CN=duke,OU=ServiceUsers,O=Org,C=US", None),
    ("RULE:(a)|(CN=.*)/[$1]/", "CN=duke,OU=ServiceUsers,O=Org,C=US", "[]"),
    ("RULE:(a)|(CN=.*)/[$1]/", "CN=Duke\\, Inc.,OU=other,O=x", "[]"),
    ("RULE:(a)|(CN=.*)/[$1]/", "OU=x,CN=a.B", None),
    ("RULE:^CN=([^,]*),.*$/$4/", "CN=duke,OU=ServiceUsers,O=Org,C=US", "$4"),
    ("RULE:^CN=([^,]*),.*$/$4/", "CN=Duke\\, Inc.,OU=other,O=x", "$4"),
    ("RULE:^CN=([^,]*),.*$/$4/", "OU=x,CN=a.B", None),
    ("RULE:^CN=(?<who>[^,]*),.*$/${who}!/", "CN=duke,OU=ServiceUsers,O=Org,C=US", "duke!"),
    ("RULE:^CN=(?<who>[^,]*),.*$/${who}!/", "CN=Duke\\, Inc.,OU=other,O=x", "Duke\\!"),
    ("RULE:^CN=(?<who>[^,]*),.*$/${who}!/", "OU=x,CN=a.B", None),
    ("DEFAULT,RULE:.*/X/", "CN=duke,OU=ServiceUsers,O=Org,C=US", "CN=duke,OU=ServiceUsers,O=Org,C=US"),
    ("DEFAULT,RULE:.*/X/", "CN=Duke\\, Inc.,OU=other,O=x", "CN=Duke\\, Inc.,OU=other,O=x"),
    ("DEFAULT,RULE:.*/X/", "OU=x,CN=a.B", "OU=x,CN=a.B"),
    (
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L , RULE:^CN=(.*?),OU=other.*$/$1/U",
        "CN=duke,OU=ServiceUsers,O=Org,C=US",
        "duke",
    ),
    (
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L , RULE:^CN=(.*?),OU=other.*$/$1/U",
        "CN=Duke\\, Inc.,OU=other,O=x",
        "DUKE\\, INC.",
    ),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L , RULE:^CN=(.*?),OU=other.*$/$1/U", "OU=x,CN=a.B", None),
    ("RULE:^CN=([^,]*)(,.*)?$//", "CN=duke,OU=ServiceUsers,O=Org,C=US", ""),
    ("RULE:^CN=([^,]*)(,.*)?$//", "CN=Duke\\, Inc.,OU=other,O=x", ""),
    ("RULE:^CN=([^,]*)(,.*)?$//", "OU=x,CN=a.B", None),
    ("RULE:^CN=([^,]*)\\,.*$/$1/", "CN=duke,OU=ServiceUsers,O=Org,C=US", "duke"),
    ("RULE:^CN=([^,]*)\\,.*$/$1/", "CN=Duke\\, Inc.,OU=other,O=x", "Duke\\"),
    ("RULE:^CN=([^,]*)\\,.*$/$1/", "OU=x,CN=a.B", None),
    ("RULE:^CN=([^,]*).*/$1\\/$1/U", "CN=duke,OU=ServiceUsers,O=Org,C=US", "DUKE/DUKE"),
    ("RULE:^CN=([^,]*).*/$1\\/$1/U", "CN=Duke\\, Inc.,OU=other,O=x", "DUKE\\/DUKE\\"),
    ("RULE:^CN=([^,]*).*/$1\\/$1/U", "OU=x,CN=a.B", None),
    ("RULE:\\w+=(\\w+).*/$1/", "CN=duke,OU=ServiceUsers,O=Org,C=US", "duke"),
    ("RULE:\\w+=(\\w+).*/$1/", "CN=Duke\\, Inc.,OU=other,O=x", "Duke"),
    ("RULE:\\w+=(\\w+).*/$1/", "OU=x,CN=a.B", "x"),
    ("RULE:^(?i:cn)=(.*?),.*$/$1/", "CN=duke,OU=ServiceUsers,O=Org,C=US", "duke"),
    ("RULE:^(?i:cn)=(.*?),.*$/$1/", "CN=Duke\\, Inc.,OU=other,O=x", "Duke\\"),
    ("RULE:^(?i:cn)=(.*?),.*$/$1/", "OU=x,CN=a.B", None),
    ("RULE:^CN=([^,]*+),.*$/$1/", "CN=duke,OU=ServiceUsers,O=Org,C=US", "duke"),
    ("RULE:^CN=([^,]*+),.*$/$1/", "CN=Duke\\, Inc.,OU=other,O=x", "Duke\\"),
    ("RULE:^CN=([^,]*+),.*$/$1/", "OU=x,CN=a.B", None),
)


@pytest.mark.parametrize(("text", "name", "principal"), MAPPED)
def test_rules_are_those_of_kafka(text: str, name: str, principal: str | None) -> None:
    found = (mapper(name) for mapper in rules(text))
    assert next((one for one in found if one is not None), None) == principal


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("DEFAULTX", "DEFAULTX is no rule"),
        ("DEFAULT,rule:x/y/", "rule:x/y/ is no rule"),
        ("RULE:^CN=(.*?)/$1", "RULE:^CN=(.*?)/$1 is no rule"),
        ("RULE:^CN=(.*?),.*$/$1/LU", "is no rule"),
        ("RULE:^CN=(.*/$1/", "its pattern is not understood: missing ), unterminated subpattern"),
        (r"RULE:^CN=(\p{L}+).*$/$1/", r"its pattern is not understood: bad escape \p"),
        ("RULE:^CN=([a-z&&[^x]]+).*$/$1/", "is a set in another"),
        (r"RULE:^CN=([\\[a]+).*$/$1/", "is a set in another"),
        ("RULE:^CN=[^,]*,.*$/$1/", "its replacement is not possible: $1 is no group of the pattern"),
        ("RULE:^CN=([^,]*),.*$/$x/", "its replacement is not possible: $ has no meaning there"),
        ("RULE:^CN=([^,]*),.*$/${x}/", "its replacement is not possible: ${x} is no group of the pattern"),
    ],
)
def test_rules_that_are_none(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        rules(text)
    assert words in str(caught.value)


@pytest.mark.parametrize("der", [b"", b"0", b"0\x05abc", b"0\x061\x040\x02\x06\x00", b"0\x061\x040\x02\x06\xff"])
def test_bytes_that_are_no_name_name_nobody(der: bytes) -> None:
    with pytest.raises(NoPrincipal, match="the name in the client's certificate is not one"):
        named(der, "DEFAULT")


def test_ends_of_lines_are_no_characters_of_names() -> None:
    """As in Java; in Python, a dot is any of these but the first."""
    (mapper,) = rules("RULE:^CN=(.*),O=x$/$1/")
    for end in "\n\r\x85\u2028\u2029":
        assert mapper(f"CN=admin{end}y,O=x") is None
    assert mapper("CN=admin,O=x") == "admin"


# --- in a broker ---

PRODUCED = ProduceRequest(
    acks=1,
    timeout_ms=1000,
    topics=[TopicProduceData(name="leased", partitions=[PartitionProduceData(records=batch(b"no"))])],
)
FETCHED = FetchRequest(
    replica_id=-1,
    max_wait_ms=0,
    min_bytes=0,
    topics=[FetchTopic(topic="leased", partitions=[FetchPartition(fetch_offset=0, partition_max_bytes=1000)])],
)
RULES = "RULE:^CN=client-(.*)$/$1/U"


@dataclass(frozen=True)
class Named:
    """A broker whose listener SSL has rules, and whose listener ANY has none and asks for no certificate."""

    broker: Broker
    folder: Path
    authority: Certified
    port: int
    any_port: int

    def security(self, name: str) -> Security:
        own = store(self.folder / f"{name}.pem", certified(name, self.authority))
        keys = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(own)}
        return self.trusting(keys)

    def trusting(self, keys: dict[str, str]) -> Security:
        trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.authority.certificate_pem}
        found = Security.of({"security.protocol": "SSL", **trusted, **keys})
        assert found is not None
        return found


@pytest.fixture(scope="module")
def broker_with_rules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Named]:
    folder = tmp_path_factory.mktemp("principals")
    authority = certified("authority")
    trusted = folder / "trusted.pem"
    trusted.write_text(authority.certificate_pem)
    plain, port, any_port = free_port(), free_port(), free_port()
    settings = {
        "listeners": listeners(plaintext=plain, ssl=port, any=any_port),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,ANY:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store(folder / "broker.pem", certified("broker", authority, ["127.0.0.1"])),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trusted,
        "ssl.client.auth": "requested",
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.ssl.ssl.principal.mapping.rules": RULES,
    }
    with Brokers(folder) as brokers:
        yield Named(brokers(port=plain, settings=settings), folder, authority, port, any_port)


def _throttled(client: Client) -> bool:
    return client.produce("t", batch(b"x" * 30_000)).throttle_time_ms > 0


def test_quotas_know_clients_by_their_certificates(broker_with_rules: Named) -> None:
    """A quota of each name, and who is slowed down by it."""
    here = broker_with_rules
    with connect(here.broker) as admin:
        admin.create("t")
        for user, port, security in (
            ("ONE", here.port, here.security("client-one")),
            ("CN=client-one", here.any_port, here.security("client-one")),
            ("ANONYMOUS", here.any_port, here.trusting({})),
        ):
            with Client.connect("127.0.0.1", port, "test", security=security) as client:
                assert not _throttled(client)
                set_quota(admin, user, 10_000.0)
                eventually("it is throttled", lambda client=client: _throttled(client))  # type: ignore[misc]
                set_quota(admin, user, None)
                eventually("it is free", lambda client=client: not _throttled(client))  # type: ignore[misc]


def set_quota(admin: Client, user: str, rate: float | None) -> None:
    op = OpData(key="producer_byte_rate", value=rate or 0.0, remove=rate is None)
    entry = EntryData(entity=[EntityData(entity_type="user", entity_name=user)], ops=[op])
    (row,) = admin.call(ALTER_CLIENT_QUOTAS, AlterClientQuotasRequest(entries=[entry])).entries
    assert row.error_code == 0, row.error_message


def test_whom_no_rule_names_is_served_by_nobody(broker_with_rules: Named) -> None:
    """Neither in Python nor under leases, which the other client has."""
    here = broker_with_rules
    with connect(here.broker) as other:
        other.create("leased")
        for _ in range(3):
            other.produce("leased", batch(b"value"))
            other.fetch("leased")
        own = context(here.authority.certificate_pem, here.folder / "own.pem", certified("stranger", here.authority))
        for frame in (
            request_frame(FETCH.key, 11, 0, "test", FETCH.encode_request(11, FETCHED)),
            request_frame(PRODUCE.key, 8, 0, "test", PRODUCE.encode_request(8, PRODUCED)),
        ):
            with (
                socket.create_connection(("127.0.0.1", here.port), PATIENCE_S) as plain,
                own.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
            ):
                connection.sendall(frame)
                assert not is_heard(connection)
        assert len(values(other.fetch("leased"))) == 3
    words = "no rule of ssl.principal.mapping.rules applies to the name CN=stranger in the client's certificate"
    eventually("it says so", lambda: words in here.broker.log.read_text(), facts=here.broker.log.read_text)


def test_a_session_that_goes_on_has_the_same_name(broker_with_rules: Named) -> None:
    here = broker_with_rules
    for name, is_good in (("client-two", True), ("stranger", False)):
        own = context(here.authority.certificate_pem, here.folder / "own.pem", certified(name, here.authority))
        own.maximum_version = ssl.TLSVersion.TLSv1_2
        session = None
        for is_again in (False, True):
            with (
                socket.create_connection(("127.0.0.1", here.port), PATIENCE_S) as plain,
                own.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as connection,
            ):
                assert connection.session_reused == is_again
                session = connection.session
                connection.sendall(API_VERSIONS)
                assert is_heard(connection) == is_good


def is_heard(connection: ssl.SSLSocket) -> bool:
    try:
        return connection.recv(1) != b""
    except OSError:
        return False


def test_a_broker_does_not_start_with_rules_that_are_none(brokers: Brokers, tmp_path: Path) -> None:
    keys = store(tmp_path / "own.pem", certified("broker"))
    given = {"ssl.keystore.type": "PEM", "ssl.keystore.location": keys}
    said = refused(brokers, **given, **{"ssl.principal.mapping.rules": "RULE:(/x/"})
    assert "ssl.principal.mapping.rules: RULE:(/x/: its pattern is not understood" in said
