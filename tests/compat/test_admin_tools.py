"""Kafka's tools for quotas, elections and reassignments, as administrators use them on one broker."""

import json
import re
from pathlib import Path

import pytest

from tests.peers.apache import tool
from tests.peers.ottla import Brokers
from tests.support.lanes import judged_by

pytestmark = pytest.mark.java


@pytest.mark.parametrize("version", judged_by(["2.7.2", "3.9.2"], ["3.9.2"]))
@pytest.mark.judge
def test_quotas_elections_and_reassignments(brokers: Brokers, tmp_path: Path, version: str) -> None:
    broker = brokers(settings={"num.partitions": 2})
    server = ("--bootstrap-server", broker.bootstrap)
    tool(version, "topics", *server, "--create", "--topic", "moved", "--partitions", "2")

    user = ("--entity-type", "users", "--entity-name", "Zoë/1", "--entity-type", "clients", "--entity-default")
    tool(version, "configs", *server, *user, "--alter", "--add-config", "producer_byte_rate=1024,request_percentage=50")
    printed = tool(version, "configs", *server, *user, "--describe")
    assert re.search(r"user.*Zoë/1.*default client", printed), printed
    assert "producer_byte_rate=1024.0" in printed, printed
    assert "request_percentage=50.0" in printed, printed

    elected = tool(version, "leader-election", *server, "--election-type", "preferred", "--all-topic-partitions")
    assert "Error" not in elected, elected

    plan = tmp_path / "plan.json"
    rows = [{"topic": "moved", "partition": index, "replicas": [broker.id]} for index in range(2)]
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    moving = ("reassign-partitions", *server, "--reassignment-json-file", str(plan))
    printed = tool(version, *moving, "--execute")
    assert "Successfully started partition reassignments" in printed, printed
    printed = tool(version, *moving, "--verify")
    assert len(re.findall(r"Reassignment of partition moved-\d is complete", printed)) == 2, printed


@pytest.mark.judge
def test_tools_of_2_7_that_write_to_zookeeper(brokers: Brokers, zookeeper: str, tmp_path: Path) -> None:
    broker = brokers(zookeeper=zookeeper, broker_id=3)
    tool("2.7.2", "topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "moved")
    tree = ("--zookeeper", zookeeper)
    entity = ("--entity-type", "clients", "--entity-name", "slow one")
    tool("2.7.2", "configs", *tree, *entity, "--alter", "--add-config", "consumer_byte_rate=77")
    printed = tool("2.7.2", "configs", "--bootstrap-server", broker.bootstrap, *entity, "--describe")
    assert "consumer_byte_rate=77.0" in printed, printed
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [3]}]}))
    moving = ("reassign-partitions", *tree, "--reassignment-json-file", str(plan))
    tool("2.7.2", *moving, "--execute")
    printed = tool("2.7.2", *moving, "--verify")
    assert "Reassignment of partition moved-0 is complete" in printed, printed
