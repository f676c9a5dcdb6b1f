"""Sockets under trio: the hub that serves connections.

`Server` waits on the hub (`ottla._core.Hub`) in one task and hands out requests one by one, in the order and under the
limits of the hub.
"""

from ottla._core import Completion, Disconnected, Hub, Request
from ottla.net.server import Handler, Server

__all__ = ["Completion", "Disconnected", "Handler", "Hub", "Request", "Server"]
