"""A real broker inside a program: the same code, files and protocol as `ottla serve`, in a thread of this process.

`ottla.Broker` and `ottla.Cluster` are the ways in. The other names here are the types of what these give.
"""

from ottla.embedded.broker import Broker, BrokerFailed, NotRunning
from ottla.embedded.cluster import Cluster
from ottla.embedded.disk import DiskFault
from ottla.embedded.faults import Fault, Faults
from ottla.embedded.random_faults import RandomFaults
from ottla.embedded.recording import Recording, SeenRequest

__all__ = [
    "Broker",
    "BrokerFailed",
    "Cluster",
    "DiskFault",
    "Fault",
    "Faults",
    "NotRunning",
    "RandomFaults",
    "Recording",
    "SeenRequest",
]
