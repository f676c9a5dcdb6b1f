"""A ZooKeeper that knows a user by password (SASL, DIGEST-MD5), and the JAAS file with which others are that user."""

from pathlib import Path

from kazoo.client import KazooClient

from tests.peers.apache import Apache
from tests.peers.ports import free_port
from tests.peers.processes import Server
from tests.support.waiting import PATIENCE_S

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
USER = "kafka"
PASSWORD = "zoo-secret"
#: Names that quoting and encoding would each make another one of, with their passwords.
ODD = {'an "odd" user': "p=a, 'b'\\", "zażółć": "gęślą", "älter": "größe"}


def jaas(user: str = USER, password: str = PASSWORD, module: str = MODULE) -> str:
    """A login module with its options."""
    return f"{module} required username={_quoted(user)} password={_quoted(password)};"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class SecuredZooKeeper:
    """`place` is HOST:PORT. `java_options` make a Java program, or Ottla by KAFKA_OPTS, the user."""

    def __init__(self, apache: Apache, folder: Path, version: str = "3.9.2", *, keeps: bool = True) -> None:
        """One that does not keep nodes for its users lets them in all the same."""
        self._apache = apache
        self._version = version
        provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
        self._settings = {"authProvider.1": provider} if keeps else {}
        self.folder = folder
        self.port = free_port()
        self.place = f"127.0.0.1:{self.port}"
        self.java_options = self.options(f"Client {{ {jaas()} }};")
        self.server = self.start()

    def options(self, text: str) -> str:
        """The option that names a JAAS file with this text, which is made."""
        file = self.folder / f"jaas-{len(list(self.folder.glob('jaas-*')))}.conf"
        file.write_text(text)
        return f"-Djava.security.auth.login.config={file}"

    def start(self, password: str = PASSWORD) -> Server:
        """The server, on its data; to be called again once it was stopped. `password` is the one that USER has."""
        users = {f"user_{name}": given for name, given in {**ODD, USER: password}.items()}
        given = " ".join(f"{_quoted(name)}={_quoted(password)}" for name, password in users.items())
        self.server, _ = self._apache.zookeeper_server(
            self._version,
            port=self.port,
            directory=self.folder / "zookeeper",
            settings=self._settings,
            java_options=self.options(f"Server {{ {MODULE} required {given}; }};"),
        )
        return self.server


def client(place: str) -> KazooClient:
    """A client that is nobody, below the chroot of HOST:PORT/chroot. The caller stops it."""
    found = KazooClient(place)
    found.start(PATIENCE_S)
    return found
