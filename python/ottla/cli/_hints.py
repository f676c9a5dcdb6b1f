"""What `ottla serve --hints` says when the broker serves: how to produce and consume, in one screen."""

from __future__ import annotations

import os
import shutil
import sys

HINTS = """\
A broker is serving at {address}; its data is in {directory}. Ctrl-C stops it.
In another terminal:

  ottla                      {ottla} topic create greetings --partitions 3{at}
                             echo hello | {ottla} produce greetings{at}
                             {ottla} consume greetings --from-beginning --until-end{at}

  kcat                       echo hello | kcat -b {address} -t greetings -P
                             kcat -b {address} -t greetings -C -e

  Python, any Kafka client   from confluent_kafka import Producer
                             producer = Producer({{"bootstrap.servers": "{address}"}})
                             producer.produce("greetings", key="to you", value="hello")
                             producer.flush()

  Spark                      from ottla.spark import session
                             session().read.format("ottla").option("subscribe", "greetings") \\
                                 .option("kafka.bootstrap.servers", "{address}").load().show()

Everything it can be told: {ottla} serve --help
"""

HERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
"""Where a client on this machine goes for a broker that listens at every address."""
DEFAULT = "127.0.0.1:9092"


def hints(address: str, directory: str, ottla: str = "ottla") -> str:
    """The text for a broker that listens at HOST:PORT and keeps its data in a directory; `ottla` is how the command
    was called.
    """
    host, _, port = address.rpartition(":")
    reached = f"{HERE.get(host, host)}:{port}"
    at = "" if reached == DEFAULT else f" -b {reached}"
    return HINTS.format(address=reached, directory=directory, ottla=ottla, at=at)


def called() -> str:
    """How this process's command was called, as one would type it again."""
    name = sys.argv[0]
    if os.path.basename(name) == "__main__.py":
        return "python -m ottla"
    found = shutil.which("ottla")
    return "ottla" if found is not None and os.path.samefile(found, name) else name
