"""What can go wrong between a client and a broker, besides what `ottla.errors` has: answers and bytes."""


class ConnectionLost(ConnectionError):
    """The connection ended before the answer came. Whether the request was carried out is unknown."""
