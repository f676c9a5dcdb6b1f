"""The log as a library: one partition's records in Apache Kafka's files, without a broker.

    from ottla.log import Log

    with Log.open("data/orders-0", mode="a") as log:
        log.append(b"three apples", key=b"alice")
    with Log.open("data/orders-0") as log:
        for record in log:
            print(record.offset, record.key, record.value)

`Log` opens a partition's folder; `verify` looks for damage in one, or in a whole data directory, and `repair` cuts a
log off before it; `compact` keeps the last record of each key. The broker and the command `ottla log` use the same
code.
"""

from ottla._core import AppendInfo
from ottla.log.compact import Compacted, compact
from ottla.log.config import LogConfig
from ottla.log.log import IsolationLevel, Log
from ottla.log.repair import repair
from ottla.log.verify import Damage, Report, verify

__all__ = [
    "AppendInfo",
    "Compacted",
    "Damage",
    "IsolationLevel",
    "Log",
    "LogConfig",
    "Report",
    "compact",
    "repair",
    "verify",
]
