"""The measuring of this broker beside Apache Kafka: `python benches/compare.py`.

servers      brokers of both kinds, each on a fresh directory, and what their processes use
generators   who makes the load: the Rust one (benches/load), Java's perf tools, librdkafka
frames       requests that are encoded before the run, and what a consumer has to find afterwards
proof        the comparison of what was sent with what can be consumed
scenarios/   what is measured, one file a family
lives        brokers that live through several scenarios, warm
warmup       when a broker is warm
runner       rounds: A B A B
figures      medians, spreads, ratios
targets      what is to be reached, and whether it is
plan         who is measured in which scenario, and how long that takes
report       the table and the JSON; plots the pictures
"""
