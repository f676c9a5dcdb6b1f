"""One file per Kafka API, key first: its versions, and `handle`, plain where the answer is at hand, async where it
waits for others.

ApiVersions is computed from these files, so that what is advertised and what is done cannot drift.
"""
