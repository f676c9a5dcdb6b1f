"""Topics are written by a producer and by Spark, and read by Spark."""

from pathlib import Path

import visits
from pyspark.sql import SparkSession

from ottla import Broker
from ottla.client.sync import Cluster, Producer


def arrive(servers: str, topic: str, *lines: str) -> None:
    with Cluster(servers) as cluster, Producer(cluster) as producer:
        for line in lines:
            producer.send(topic, line.encode())


def test_visits_are_counted(spark: SparkSession, ottla_broker: Broker, ottla_topic: str) -> None:
    servers = ottla_broker.bootstrap_servers
    arrive(servers, ottla_topic, "/pears 200", "/plums 200", "/pears 500")
    assert visits.count(spark, servers, ottla_topic) == {"/pears": 2, "/plums": 1}


def test_each_failed_visit_is_copied_once(
    spark: SparkSession, ottla_broker: Broker, ottla_topic: str, tmp_path: Path
) -> None:
    servers, failed = ottla_broker.bootstrap_servers, f"{ottla_topic}-failed"
    ottla_broker.create_topic(failed)
    arrive(servers, ottla_topic, "/pears 200", "/pears 500")
    visits.copy_failed(spark, servers, ottla_topic, failed, tmp_path / "checkpoint")
    arrive(servers, ottla_topic, "/plums 503", "/figs 404")
    with ottla_broker.faults.add("Produce", topic=failed, close="after", times=1) as lost:
        visits.copy_failed(spark, servers, ottla_topic, failed, tmp_path / "checkpoint")
        assert lost.hits == 1
    assert visits.read(spark, servers, failed) == ["/pears 500", "/plums 503"]
