"""The file of a mirror."""

import re
from pathlib import Path

import pytest

from ottla.config.values import ConfigError
from ottla.mirror.config import load, read
from ottla.mirror.naming import Names

TWO = {"clusters": "A, B", "A.bootstrap.servers": "a1:1, a2:2", "B.bootstrap.servers": "b:1"}
ON = {"A->B.enabled": "true"}


def test_the_usual_file(tmp_path: Path) -> None:
    """As the page about MirrorMaker 2 begins."""
    file = tmp_path / "mm2.properties"
    file.write_text(
        "# two data centres\n"
        "clusters = A, B\n"
        "A.bootstrap.servers = a1:9092, a2:9092\n"
        "B.bootstrap.servers = b1:9092\n"
        "A->B.enabled = true\n"
        "A->B.topics = orders.*, bills\n"
        "B->A.enabled = false\n"
        "replication.factor=1\n"
        "checkpoints.topic.replication.factor=1\n"
        "offset.storage.replication.factor=1\n"
        "tasks.max = 4\n"
        "emit.heartbeats.enabled = false\n"
        "A->B.sync.group.offsets.enabled = true\n"
    )
    config = load(file)
    assert config.clusters["A"].servers == ("a1:9092", "a2:9092")
    (flow,) = config.flows
    assert str(flow) == "A->B"
    taken = [
        topic for topic in ["orders", "orders-2", "bills", "bill", "orders.internal", "__x"] if flow.topics.takes(topic)
    ]
    assert taken == ["orders", "orders-2", "bills"]
    assert flow.groups.takes("billing")
    assert not flow.groups.takes("console-consumer-7")
    assert flow.configs_excluded.takes("min.insync.replicas")
    assert not flow.configs_excluded.takes("retention.ms")
    assert (flow.replication_factor, flow.heartbeats_s, flow.checkpoints_s, flow.sync_offsets_s) == (1, None, 60, 60)
    assert flow.names == Names(aliases=("A", "B"))
    assert not flow.exactly_once


def test_toml_has_the_same_keys(tmp_path: Path) -> None:
    file = tmp_path / "mirror.toml"
    file.write_text(
        'clusters = ["A", "B"]\n'
        "[A]\nbootstrap.servers = 'a:1'\n"
        "[B]\nbootstrap.servers = ['b:1', 'b:2']\nexactly.once.source.support = 'enabled'\n"
        '["A->B"]\nenabled = true\ntopics = ["x", "y"]\nreplication.factor = 3\n'
        'replication.policy.class = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"\n'
    )
    (flow,) = load(file).flows
    assert [topic for topic in "xyz" if flow.topics.takes(topic)] == ["x", "y"]
    assert (flow.replication_factor, flow.exactly_once, flow.names.is_identity) == (3, True, True)


def test_a_cluster_has_the_settings_of_a_client() -> None:
    """Those of its consumer win."""

    secured = {
        "B.security.protocol": "SASL_PLAINTEXT",
        "B.sasl.mechanism": "PLAIN",
        "B.sasl.jaas.config": jaas("u"),
        "B.consumer.sasl.jaas.config": jaas("w"),
    }
    config = read({**TWO, **ON, **secured}, "f")
    assert config.secrets == (jaas("u"), jaas("w"))
    assert config.clusters["A"].security is None
    secured_as = config.clusters["B"].security
    assert secured_as is not None
    assert secured_as.username == "w"


def test_older_names_and_what_holds_for_all_flows() -> None:
    given = {**TWO, **ON, "topics.blacklist": "secret", "A->B.replication.factor": "1", "replication.factor": "9"}
    (flow,) = read({**given, "B->A.enabled": "false"}, "f").flows
    assert not flow.topics.takes("secret")
    assert flow.topics.takes("__x")
    assert flow.replication_factor == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clusters": ""}, "clusters in f: it names no cluster; say `clusters = A, B`"),
        ({"clusters": "A, B, A"}, "clusters in f: A is named twice"),
        ({"A.bootstrap.servers": " "}, "A.bootstrap.servers in f: it is missing"),
        ({"A->B.enabled": "no"}, "A->B.enabled in f: it is true or false, not 'no'"),
        ({"A->B.enabled": "false"}, "enabled in f: no flow is; say `A->B.enabled = true`"),
        ({"A->C.enabled": "true"}, "A->C.enabled in f: C is not one of the clusters"),
        ({"A->A.enabled": "true"}, "A->A.enabled in f: a cluster is not mirrored to itself"),
        ({"A->B.topcis": "x"}, "A->B.topcis in f: there is no such setting; did you mean topics?"),
        ({"sync.topic.config.enabled": "true"}, "there is no such setting; did you mean sync.topic.configs.enabled?"),
        ({"A->B.topics": "(x"}, "A->B.topics in f: '(x' is no regular expression: missing ), unterminated"),
        (
            {"replication.factor": "0"},
            "it is at least 1, or -1 for the brokers' default, not 0",
        ),
        ({"replication.factor": "two"}, "A->B.replication.factor in f: it is a whole number, not 'two'"),
        ({"refresh.topics.interval.seconds": "0"}, "it is at least 1, or -1 for never, not 0"),
        ({"A.consumer.auto.offset.reset": "first"}, "it is earliest or latest or none, not 'first'"),
        (
            {"B.secruity.protocol": "SSL"},
            "B.secruity.protocol in f: there is no such setting; did you",
        ),
        ({"secruity.protocol": "SSL"}, "there is no such setting; did you mean security.protocol?"),
        ({"A": "-> B.topics = x"}, "A in f: a blank ends the name of a setting; write `A->B.topics = ...`"),
        ({"A->B.consumer.ssl.trustore.location": "x"}, "did you mean 'ssl.truststore.location'?"),
        ({"replication.policy.class": "my.Policy"}, "it is DefaultReplicationPolicy or IdentityReplicationPolicy here"),
        ({"offset-syncs.topic.location": "moon"}, "it is source or target, not 'moon'"),
        ({"B.security.protocol": "TLS"}, "B in f: security.protocol is 'TLS'; it is one of PLAINTEXT"),
        ({"B.security.protcol": "SSL"}, "B in f: "),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        read({**TWO, **ON, **change}, "f")
    assert message in str(wrong.value)


def jaas(name: str, password: str = "p") -> str:
    return f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{name}" password="{password}";'


#: As people have them, with what MirrorMaker 2 reads, what it ignores too, and what only Connect has.
OF_OTHERS = """\
clusters = dc.east, dc.west, dc
config.providers = file, env, dir, vault
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.dir.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider
config.providers.vault.class = com.example.Vault
config.providers.file.param.secrets = x
dc.east.bootstrap.servers = e:1
dc.west.bootstrap.servers = ${env:WEST}
dc.bootstrap.servers = ${dir:{path}:servers}
security.protocol = SASL_PLAINTEXT
sasl.mechanism = PLAIN
sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="all" password="${file:{path}/secrets.properties:all}";
dc.west.security.protocol = PLAINTEXT
dc.east.consumer.auto.offset.reset = latest
dc.east.consumer.max.poll.records = 5000
dc.east.producer.client.id = writes
dc.east.offset.storage.replication.factor = 1
dc.east->dc.west.enabled = true
dc.east->dc.west.topics = a
dc.east->dc.west.consumer.client.id = reads
dc.east->dc.west.producer.compression.type = zstd
dc.east->dc.west.sync.topic.acls.enabled = false
dc.west->dc.east.enabled = true
consumer.max.poll.records = 7
producer.linger.ms = 5
admin.timeout.ms = 60000
internal.topic.replication.factor = 1
checkpoints.topic.replication.factor = 2
replication.factor = -1
refresh.topics.interval.seconds = -1
emit.heartbeats.interval.seconds = -1
offset.lag.max = -1
heartbeats.replication.enabled = false
tasks.max = 4
offset.storage.replication.factor = 1
topic.filter.class = com.example.Filter
replication.policy.internal.topic.separator.enabled = true
my.own.note = hello
"""


TUNES = "has no effect: of a client's settings only those of its connections have one"


def test_the_files_that_people_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(OF_OTHERS.replace("{path}", str(tmp_path)))
    (tmp_path / "secrets.properties").write_text("all = quite secret\n")
    (tmp_path / "servers").write_text("c:1")
    monkeypatch.setenv("WEST", "w1:1,w2:1")
    config = load(file)
    assert {alias: each.servers for alias, each in config.clusters.items()} == {
        "dc.east": ("e:1",),
        "dc.west": ("w1:1", "w2:1"),
        "dc": ("c:1",),
    }
    assert config.secrets == (jaas("all", "quite secret"), "quite secret")
    west, east = config.flows
    assert [str(west), str(east)] == ["dc.east->dc.west", "dc.west->dc.east"]
    assert west.topics.takes("a")
    assert west.reads.security is not None
    assert (west.reads.security.username, west.reads.security.password) == ("all", "quite secret")
    assert west.writes.security is None
    assert (west.reads.start, west.reads.client_id) == ("latest", "reads")
    assert (east.reads.start, east.writes.client_id) == ("earliest", "writes")
    assert (west.replication_factor, west.heartbeats_factor, west.checkpoints_factor) == (-1, 1, 2)
    assert (west.refresh_topics_s, west.heartbeats_s, west.checkpoints_s, west.offset_lag_max) == (None, None, 60, 0)
    assert not west.takes_heartbeats
    assert west.names.source("dc.east.orders") == "dc.east"
    unused = [re.sub(f" in {re.escape(str(file))}", "", each) for each in config.unused]
    assert unused == [
        "config.providers.file.param.secrets has no effect: providers have no parameters here",
        f"dc.east.consumer.max.poll.records {TUNES}",
        "dc.east.offset.storage.replication.factor has no effect: it is of Kafka Connect, which is not needed here",
        f"dc.east->dc.west.producer.compression.type {TUNES}",
        "dc.east->dc.west.sync.topic.acls.enabled has no effect: rights are not copied",
        "consumer.max.poll.records has no effect: as in MirrorMaker 2; say it of a cluster, "
        "`dc.east.consumer.max.poll.records`, or a flow",
        "producer.linger.ms has no effect: as in MirrorMaker 2; say it of a cluster, "
        "`dc.east.producer.linger.ms`, or a flow",
        "admin.timeout.ms has no effect: how long is waited is not to be set",
        "tasks.max has no effect: an instance copies all of its share in one task",
        "offset.storage.replication.factor has no effect: it is of Kafka Connect, which is not needed here",
        "topic.filter.class has no effect: it names a Java class, which cannot be loaded here",
        "replication.policy.internal.topic.separator.enabled has no effect: the mirror's own topics have dots in their "
        "names",
        "my.own.note has no effect: it is not known here",
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("${file:/no/such/file:x}", "${file:/no/such/file:x}: cannot read /no/such/file: No such file or directory"),
        ("${file:{path}/secrets:x}", "{path}/secrets has no x"),
        ("${dir:{path}:x}", "cannot read {path}/x: No such file or directory"),
        ("${env:OTTLA_NO_SUCH}", "there is no environment variable OTTLA_NO_SUCH"),
        (
            "${vault:a:b}",
            "${vault:a:b}: provider vault is the Java class x.Vault; here there are ",
        ),
        ("${nothing:a:b}", "provider nothing has no config.providers.nothing.class"),
    ],
)
def test_values_that_are_not_where_they_should_be(tmp_path: Path, value: str, message: str) -> None:
    (tmp_path / "secrets").write_text("y = 1")
    classes = {"file": "a.FileConfigProvider", "dir": "DirectoryConfigProvider", "env": "EnvVarConfigProvider"}
    given = {f"config.providers.{name}.class": kind for name, kind in {**classes, "vault": "x.Vault"}.items()}
    given |= {"config.providers": "file,dir,env,vault,nothing", "A.ssl.key.password": value, **TWO, **ON}
    with pytest.raises(ConfigError) as wrong:
        read({name: text.replace("{path}", str(tmp_path)) for name, text in given.items()}, "f")
    assert str(wrong.value).startswith("A.ssl.key.password in f: ")
    assert message.replace("{path}", str(tmp_path)) in str(wrong.value)
    # What names no provider is text.
    read({**TWO, **ON, "A.ssl.key.password": value}, "f")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for name in ("no.toml", "no.properties"):
        with pytest.raises(ConfigError, match=r"no\..*No such file|cannot be read"):
            load(tmp_path / name)
    broken = tmp_path / "broken.toml"
    broken.write_text("clusters = [")
    with pytest.raises(ConfigError, match=r"broken\.toml: "):
        load(broken)
