"""Kafka's messages: one declarative file per API, and the headers around them. No I/O."""
