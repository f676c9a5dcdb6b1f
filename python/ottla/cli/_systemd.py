"""The protocol of sd_notify(3): a datagram to the socket that $NOTIFY_SOCKET names tells the service manager how a
service of `Type=notify` is.
"""

from __future__ import annotations

import os

_TIMEOUT_S = 1.0
"""The manager reads at once; a socket that nobody reads must not hold the broker."""


def tell(*lines: str) -> None:
    """Tells the manager these assignments, such as `READY=1`, if there is one. One that cannot be told is a warning in
    the log.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    import socket

    # A name of Linux's own instead of a file's: "@" stands for its first byte.
    place = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_TIMEOUT_S)
            sender.connect(place)
            sender.send("\n".join(lines).encode())
    except OSError as error:
        import logging

        logging.getLogger("ottla").warning("cannot tell %s %s: %s", address, lines[0], error)
