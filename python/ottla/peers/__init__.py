"""How a broker reaches the others.

Every connection that a broker's Python opens to another broker is opened by a `Dialer`: those of the controller, of
transaction markers, of a controlled shutdown, and those of `Peers`, which keep one connection to each broker for
questions about replicas. Followers fetch by connections of their own, in Rust: `Fetchers` makes them. What such
connections have in common (their name, that versions are not negotiated, later TLS and SASL) is decided here alone.
"""

from ottla.peers.calls import Address, Peers
from ottla.peers.dialing import Dialer
from ottla.peers.fetchers import Fetchers

__all__ = ["Address", "Dialer", "Fetchers", "Peers"]
