"""Stores of listeners with TLS in Java's formats, and those that are refused."""

import subprocess
from pathlib import Path

import pytest

from tests.peers.apache import need_java
from tests.peers.certificates import Certified, certified
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.support.tls import context, is_served, listeners, refused, shown, store
from tests.support.waiting import PATIENCE_S

PASSWORD = "store secret"
HOSTS = ["localhost", "127.0.0.1"]


def keytool(*arguments: object) -> None:
    need_java()
    command = ["keytool", *map(str, arguments), "-storepass", PASSWORD, "-noprompt"]
    subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True)


def trusting(folder: Path, *trusted: Certified, kind: str = "PKCS12") -> Path:
    """A trust store that Java made."""
    path = folder / f"trusted.{kind.lower()}"
    for number, one in enumerate(trusted):
        file = folder / f"{number}.pem"
        file.write_text(one.certificate_pem)
        keytool("-importcert", "-alias", number, "-file", file, "-keystore", path, "-storetype", kind)
    return path


@pytest.mark.java
@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_stores_that_java_made(brokers: Brokers, tmp_path: Path, kind: str) -> None:
    """Java's type JKS, which is the default, opens PKCS12 too. Peers that have signed themselves come in, though they
    say that they are authorities.
    """
    keys, certificate = tmp_path / "keys.p12", tmp_path / "own.pem"
    alias = ("-alias", "own", "-keystore", keys)
    made = ("-genkeypair", "-keyalg", "EC", "-dname", "CN=broker", "-ext", "san=dns:localhost", "-storetype", "PKCS12")
    keytool(*made, *alias)
    keytool("-exportcert", "-rfc", "-file", certificate, *alias)
    authority, peer = certified("authority"), certified("peer")
    plain, port = free_port(), free_port()
    settings = {
        "listeners": listeners(plaintext=plain, ssl=port),
        "ssl.keystore.type": kind,
        "ssl.keystore.location": keys,
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.client.auth": "required",
        "ssl.truststore.type": kind,
        "ssl.truststore.location": trusting(tmp_path, authority, peer),
        "ssl.truststore.password": PASSWORD,
    }
    brokers(port=plain, settings=settings)
    trusted = certificate.read_text()
    for own in (peer, certified("client", authority)):
        assert is_served(port, context(trusted, tmp_path / "client.pem", own))
    for stranger in (certified("peer"), certified("client", certified("authority"))):
        assert not is_served(port, context(trusted, tmp_path / "client.pem", stranger))


def test_pkcs12_with_the_chain(brokers: Brokers, tmp_path: Path) -> None:
    own = certified("broker", certified("authority"), HOSTS)
    plain, port = free_port(), free_port()
    settings = {
        "listeners": listeners(plaintext=plain, ssl=port),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": own.pkcs12(tmp_path / "own.p12", PASSWORD),
        "ssl.keystore.password": PASSWORD,
    }
    brokers(port=plain, settings=settings)
    assert shown(port) == own.certificate_pem


def test_pkcs12_that_cannot_be_opened(brokers: Brokers, tmp_path: Path) -> None:
    own = certified("broker", None, HOSTS).pkcs12(tmp_path / "own.p12", PASSWORD)
    given = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": own}
    said = refused(brokers, **given)
    assert f"ssl.keystore.location={own} is no PEM, and as PKCS12 it needs ssl.keystore.password, which is miss" in said
    said = refused(brokers, **given, **{"ssl.keystore.password": "wrong"})
    assert (
        f"ssl.keystore.location={own} cannot be opened with ssl.keystore.password: wrong password, or neither" in said
    )
    said = refused(brokers, **given, **{"ssl.keystore.password": PASSWORD, "ssl.key.password": "another"})
    assert (
        "ssl.key.password is not ssl.keystore.password: in a store of the type PKCS12 both are one; remove it" in said
    )


def test_types_that_are_others(brokers: Brokers, tmp_path: Path) -> None:
    one = certified("broker", None, HOSTS)
    pem, binary = store(tmp_path / "own.pem", one), one.pkcs12(tmp_path / "own.p12", PASSWORD)
    said = refused(brokers, **{"ssl.keystore.location": pem, "ssl.keystore.type": "JKS"})
    assert f"ssl.keystore.location={pem} is PEM, and ssl.keystore.type is JKS; set ssl.keystore.type=PEM" in said
    said = refused(brokers, **{"ssl.keystore.location": binary, "ssl.keystore.type": "PEM"})
    assert (
        f"ssl.keystore.location={binary} is no PEM, and ssl.keystore.type is PEM; set ssl.keystore.type=PKCS12" in said
    )
    said = refused(brokers, **{"ssl.keystore.location": pem, "ssl.keystore.type": "BCFKS"})
    assert "ssl.keystore.type=BCFKS: Ottla reads stores of the types PEM and PKCS12" in said
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"nothing")
    said = refused(
        brokers, **{"ssl.keystore.location": garbage, "ssl.keystore.password": "x", "ssl.keystore.type": "JKS"}
    )
    assert "wrong password, or neither PKCS12 nor PEM" in said


@pytest.mark.java
def test_jks_is_refused_with_what_to_do(brokers: Brokers, tmp_path: Path) -> None:
    path = trusting(tmp_path, certified("authority"), kind="JKS")
    said = refused(brokers, **{"ssl.keystore.location": path, "ssl.keystore.type": "JKS"})
    command = said.partition("convert it (keytool ")[2].partition(")")[0].split()
    keytool(*command, "-srcstorepass", PASSWORD)
    made = Path(f"{path}.p12")
    assert made.read_bytes().startswith(b"\x30")
    assert "name the new file in ssl.keystore.location and set ssl.keystore.type=PKCS12" in said
