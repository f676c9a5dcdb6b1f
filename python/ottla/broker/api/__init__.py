"""One file per Kafka API, key first: `handle`, plain where the answer is at hand, async where it waits for others.

ApiVersions is computed from these files and the versions that `ottla.wire` declares, so that what is advertised and
what is done cannot drift.
"""
