"""A real broker inside a program: the same code, files and protocol as `ottla serve`, in a thread of this process.

`ottla.Broker` is the way in.
"""

from ottla.embedded.broker import Broker, BrokerFailed, NotRunning

__all__ = ["Broker", "BrokerFailed", "NotRunning"]
