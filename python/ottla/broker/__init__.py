"""One broker: its APIs, and how its parts are put together. `serve` runs one until it is told to stop."""

from ottla.broker.serve import Started, serve

__all__ = ["Started", "serve"]
