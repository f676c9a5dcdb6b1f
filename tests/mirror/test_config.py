"""The file of a mirror."""

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
    assert flow.names == Names()
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

    def jaas(name: str) -> str:
        return f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{name}" password="p";'

    secured = {
        "B.security.protocol": "SASL_PLAINTEXT",
        "B.sasl.mechanism": "PLAIN",
        "B.sasl.jaas.config": jaas("u"),
        "B.consumer.sasl.jaas.config": jaas("w"),
    }
    config = read({**TWO, **ON, **secured}, "f")
    assert config.secrets == [jaas("u"), jaas("w")]
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
        ({"replication.factor": "0"}, "A->B.replication.factor in f: it is at least 1, not 0"),
        ({"replication.factor": "two"}, "A->B.replication.factor in f: it is a whole number, not 'two'"),
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


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for name in ("no.toml", "no.properties"):
        with pytest.raises(ConfigError, match=r"no\..*No such file|cannot be read"):
            load(tmp_path / name)
    broken = tmp_path / "broken.toml"
    broken.write_text("clusters = [")
    with pytest.raises(ConfigError, match=r"broken\.toml: "):
        load(broken)
