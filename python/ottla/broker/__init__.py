"""One broker: its APIs, and how its parts are put together. `serve` runs one until it is told to stop."""

from ottla.broker.serve import serve

__all__ = ["serve"]
