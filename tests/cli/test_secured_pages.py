"""The pages of TLS, SASL and access rules, followed block by block in one folder."""

import json
import re
import subprocess
import time
from pathlib import Path

import jwt
import pytest
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.asymmetric import ec

from ottla.config import properties
from tests.cli.conftest import Ottla
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.support import shown
from tests.support.readme import block
from tests.support.waiting import PATIENCE_S, eventually

ADMIN = "admin's password"


class Reader:
    """Has the files that a reader makes in a folder, with a port that is free."""

    def __init__(self, folder: Path, port: int, shown_port: str) -> None:
        self.folder = folder
        self._places = {shown_port: str(port), "broker.pem": f"{folder}/broker.pem"}
        self._places["authority.pem"] = f"{folder}/authority.pem"

    def put(self, name: str, content: str) -> Path:
        for before, after in self._places.items():
            content = content.replace(before, after)
        path = self.folder / name
        path.write_text(content)
        return path

    def certificates(self) -> None:
        commands = block("sh", "openssl req -x509", "docs/tls.md")
        subprocess.run(["sh", "-ec", commands], cwd=self.folder, check=True, capture_output=True, timeout=PATIENCE_S)

    def typed(self, commands: str) -> list[list[str]]:
        """The commands of a block, after that which starts the broker."""
        (serve, *others) = shown.typed(commands)
        assert serve[:3] == ["serve", "--config", "server.properties"]
        return [self.here(command) for command in others]

    def here(self, command: list[str]) -> list[str]:
        """A command with the reader's files and port."""
        return [self._here(argument) for argument in command]

    def _here(self, argument: str) -> str:
        if (self.folder / argument).is_file():
            return str(self.folder / argument)
        return re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{self._port}", argument)

    @property
    def _port(self) -> str:
        return next(iter(self._places.values()))


def settings(file: Path) -> dict[str, object]:
    return {entry.key: entry.value for entry in properties.read(file)}


def test_tls(brokers: Brokers, ottla: Ottla, tmp_path: Path) -> None:
    port = free_port()
    reader = Reader(tmp_path, port, "9093")
    reader.certificates()
    config = reader.put("server.properties", block("properties", "listeners=SSL://", "docs/tls.md"))
    reader.put("client.properties", block("properties", "security.protocol=SSL\n", "docs/tls.md"))
    brokers(port=port, settings=settings(config))
    (create,) = reader.typed(block("sh", "ottla topic create orders", "docs/tls.md"))
    assert "orders" in ottla(*create).out


@pytest.mark.clients
def test_scram(brokers: Brokers, ottla: Ottla, tmp_path: Path) -> None:
    port = free_port()
    reader = Reader(tmp_path, port, "9094")
    reader.certificates()
    reader.put("admin.password", ADMIN + "\n")
    reader.put("alice.password", "of alice\n")
    data = tmp_path / "data"
    (add,) = shown.typed(block("sh", "ottla user add admin", "docs/sasl.md"))
    here = {"data": str(data), "admin.password": str(tmp_path / "admin.password")}
    ottla(*(here.get(argument, argument) for argument in add))
    config = reader.put("server.properties", block("properties", "listeners=SASL_SSL://", "docs/sasl.md"))
    reader.put("admin.properties", block("properties", "security.protocol=SASL_SSL", "docs/sasl.md"))
    assert ADMIN in config.read_text()
    brokers(data=data, port=port, settings=settings(config))
    alice, listing = reader.typed(block("sh", "ottla user list", "docs/sasl.md"))
    assert ottla(*alice).out == "user alice can come in by SCRAM-SHA-256 and SCRAM-SHA-512\n"
    assert [line.split()[0] for line in ottla(*listing).out.splitlines()[1:]] == ["admin", "alice"]


@pytest.mark.clients
def test_oauth(brokers: Brokers, tmp_path: Path) -> None:
    port = free_port()
    reader = Reader(tmp_path, port, "9094")
    reader.certificates()
    file = reader.put("server.properties", block("properties", "sasl.oauthbearer.jwks.endpoint.url", "docs/oauth.md"))
    key = ec.generate_private_key(ec.SECP256R1())
    public = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [{**public, "kid": "one"}]}))
    between = free_port()
    given = {
        name: str(value).replace("/etc/ottla", str(tmp_path)).replace("9093", str(between))
        for name, value in settings(file).items()
    }
    broker = brokers(port=between, settings=given)
    eventually("it has the keys", lambda: "tokens may be signed by 1 keys" in broker.log.read_text())
    ends_at = time.time() + 600
    token = {"sub": "ann", "iss": "https://login.example", "aud": "kafka", "exp": ends_at}
    client = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.ca.location": str(tmp_path / "authority.pem"),
        "oauth_cb": lambda _: (jwt.encode(token, key, "ES256", headers={"kid": "one"}), ends_at),
    }
    admin = AdminClient(client)
    eventually("it is let in", lambda: (admin.poll(0.1), admin.list_topics(timeout=5))[1].brokers != {})


@pytest.mark.clients
def test_acls(brokers: Brokers, ottla: Ottla, tmp_path: Path) -> None:
    port = free_port()
    reader = Reader(tmp_path, port, "9094")
    reader.certificates()
    reader.put("admin.password", ADMIN + "\n")
    reader.put("alice.password", "of alice\n")
    here = {"data": str(tmp_path / "data")}
    here |= {name: str(tmp_path / name) for name in ("admin.password", "alice.password")}
    (admin,) = shown.typed(block("sh", "ottla user add admin", "docs/sasl.md"))
    first = shown.typed(block("sh", "ottla acl add --allow User:alice", "docs/acls.md"))
    for command in (admin, *first):
        ottla(*(here.get(argument, argument) for argument in command))
    file = block("properties", "listeners=SASL_SSL://", "docs/sasl.md")
    config = reader.put("server.properties", file + block("properties", "super.users=User:admin\n", "docs/acls.md"))
    client = block("properties", "security.protocol=SASL_SSL", "docs/sasl.md")
    reader.put("admin.properties", client)
    alice = reader.put("alice.properties", client.replace(ADMIN, "of alice").replace('"admin"', '"alice"'))
    brokers(data=tmp_path / "data", port=port, settings=settings(config))
    *_, listing = [ottla(*each) for each in reader.typed(block("sh", "ottla acl list", "docs/acls.md"))]
    assert {line.split()[3] for line in listing.out.splitlines()[1:]} == {"User:alice", "User:bob"}
    of_alice = ("--command-config", str(alice), "-b", f"127.0.0.1:{port}")
    ottla("produce", "orders", *of_alice, stdin=b"one\n")
    refused = ottla("consume", "orders", "--from-beginning", "-n", "1", *of_alice, code=1)
    assert "TOPIC_AUTHORIZATION_FAILED" in refused.err
    asked = block("sh", "ottla acl why", "docs/acls.md")
    answers = re.split(r"^\$ .*\n", asked, flags=re.MULTILINE)[1:]
    for command, answer in zip(shown.typed(asked), answers, strict=True):
        assert ottla(*reader.here(command)).out == answer
