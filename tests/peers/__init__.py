"""Servers that tests start as real processes: Apache Kafka and ZooKeeper (`apache`), our own broker (`ottla`)."""
