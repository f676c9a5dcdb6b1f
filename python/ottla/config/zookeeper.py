"""`zookeeper.connect`, read as ZooKeeper's own client does (`ConnectStringParser`, `PathUtils.validatePath`)."""

from __future__ import annotations

from typing import NamedTuple

DEFAULT_PORT = 2181


class ZooKeeperServers(NamedTuple):
    """The servers as HOST:PORT,HOST:PORT, and the part of their tree that is meant: a path, empty for all of it."""

    hosts: str
    chroot: str

    @classmethod
    def parse(cls, text: str) -> ZooKeeperServers:
        """Blanks around servers, and commas without one, mean nothing; a server without a port has 2181. A slash at the
        chroot's end is dropped, which ZooKeeper's client refuses.

        Raises ValueError for anything else than HOST:PORT,HOST:PORT/chroot.
        """
        try:
            text.encode()
        except UnicodeEncodeError:  # arguments may be any bytes
            raise ValueError(f"{text!r} is not UTF-8") from None
        servers, slash, path = text.partition("/")
        hosts = [_host(server, text) for server in map(str.strip, servers.split(",")) if server]
        if not hosts:
            raise ValueError(f"{text!r} names no server, such as 127.0.0.1:2181/kafka")
        names = path.removesuffix("/").split("/") if path else []
        if path.startswith("/") or any(name in ("", ".", "..") or "\0" in name for name in names):
            raise ValueError(f"{text!r} has a chroot that is no path, such as /kafka")
        return cls(",".join(hosts), slash + "/".join(names) if names else "")


def _host(server: str, text: str) -> str:
    host, _, port = (server, "", "") if server.endswith("]") else server.rpartition(":")
    if not host and not server.startswith(":"):  # there is no colon
        host, port = port, ""
    port = port or str(DEFAULT_PORT)
    if not host or " " in host or not (port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError(f"{text!r} is not HOST:PORT,... such as 127.0.0.1:2181/kafka")
    try:
        host.encode("idna")  # else the look-up would fail, in a thread of the client's
    except UnicodeError:
        raise ValueError(f"{text!r} has a name that no host can have") from None
    return f"{host}:{port}"
