"""A real broker inside a program: the same code, files and protocol as `ottla serve`, in a thread of this process.

`ottla.Broker` and `ottla.Cluster` are the ways in.
"""

from ottla.embedded.broker import Broker, BrokerFailed, NotRunning
from ottla.embedded.cluster import Cluster

__all__ = ["Broker", "BrokerFailed", "Cluster", "NotRunning"]
