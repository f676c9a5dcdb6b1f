"""Certificates and keys in files of all kinds, those of Java's keytool among them, and what is said of wrong ones."""

import subprocess
from pathlib import Path

import pytest

from ottla.client import Security
from ottla.client.stores import own, trusted
from ottla.client.tls import context
from tests.peers.apache import need_java
from tests.peers.certificates import Certified, certified
from tests.support.waiting import PATIENCE_S

PASSWORD = "store secret"


@pytest.fixture(scope="module")
def authority() -> Certified:
    return certified("authority")


@pytest.fixture(scope="module")
def client(authority: Certified) -> Certified:
    return certified("client", authority, ["localhost"])


@pytest.fixture(scope="module")
def java_stores(authority: Certified, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with trust stores as keytool makes them: trust.p12 and trust.jks."""
    need_java()
    folder = tmp_path_factory.mktemp("keytool")
    pem = folder / "authority.pem"
    pem.write_text(authority.certificate_pem)
    for kind, name in (("PKCS12", "trust.p12"), ("JKS", "trust.jks")):
        command = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(pem), "-keystore"]
        command += [str(folder / name), "-storetype", kind, "-storepass", PASSWORD]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
    return folder


def security(**settings: str) -> Security:
    """Of settings like ssl.truststore.location, whose dots are underscores here."""
    given = {f"ssl.{name.replace('_', '.')}": value for name, value in settings.items()}
    found = Security.of({"security.protocol": "SSL", **given})
    assert found is not None
    return found


def refusal(found: Security) -> str:
    with pytest.raises(ValueError, match=r"^ssl\.") as caught:
        context(found)
    message = str(caught.value)
    assert "secret" not in message
    return message


@pytest.mark.java
def test_trust_store_of_keytool(java_stores: Path, authority: Certified) -> None:
    path = str(java_stores / "trust.p12")
    # Java's default type, which reads PKCS12 too.
    found = security(truststore_location=path, truststore_type="JKS", truststore_password=PASSWORD)
    assert trusted(found) == [authority.certificate_pem]
    assert context(found).cert_store_stats()["x509_ca"] == 1
    wrong = refusal(security(truststore_location=path, truststore_password="other secret"))
    assert f"{path} cannot be opened with ssl.truststore.password: wrong password" in wrong
    missing = refusal(security(truststore_location=path))
    assert f"{path} is no PEM, and as PKCS12 it needs ssl.truststore.password" in missing


@pytest.mark.java
def test_jks_is_refused_with_what_to_do(java_stores: Path) -> None:
    path = java_stores / "trust.jks"
    message = refusal(security(truststore_location=str(path), truststore_password=PASSWORD))
    command = message.partition("keytool ")[2].split()
    assert command[:3] == ["-importkeystore", "-srckeystore", str(path)]
    made = java_stores / "trust.p12"
    assert command[3:] == ["-destkeystore", str(made), "-deststoretype", "PKCS12"]


def test_own_key_in_pkcs12(client: Certified, authority: Certified, tmp_path: Path) -> None:
    path = client.pkcs12(tmp_path / "client.p12", PASSWORD)
    found = security(keystore_location=str(path), keystore_password=PASSWORD, key_password=PASSWORD)
    text, password, _ = own(found) or ("", "", "")
    assert text == client.key_pem() + client.certificate_pem + authority.certificate_pem
    assert password is None
    context(found)


@pytest.mark.parametrize("password", [None, PASSWORD])
def test_own_key_in_pem(client: Certified, tmp_path: Path, password: str | None) -> None:
    path = tmp_path / "client.pem"
    path.write_text("Für uns\n" + client.certificate_pem + client.key_pem(password))
    more = {} if password is None else {"key_password": password}
    context(security(keystore_type="PEM", keystore_location=str(path), **more))


def test_pem_in_one_line(authority: Certified, client: Certified) -> None:
    line = (authority.certificate_pem + client.certificate_pem).replace("\n", " ")
    found = security(truststore_certificates=line)
    assert trusted(found) == [authority.certificate_pem, client.certificate_pem]
    assert context(found).cert_store_stats()["x509"] == 2


def test_a_file_that_changes_is_read_again(authority: Certified, client: Certified, tmp_path: Path) -> None:
    path = tmp_path / "trusted.pem"
    path.write_text(authority.certificate_pem)
    found = security(truststore_location=str(path))
    first = context(found)
    assert context(found) is first
    path.write_text(authority.certificate_pem + client.certificate_pem)
    assert context(found).cert_store_stats()["x509"] == 2


def test_no_trust_store_is_that_of_the_system() -> None:
    assert trusted(security()) is None
    assert context(security()).check_hostname


def test_refusals(authority: Certified, client: Certified, tmp_path: Path) -> None:
    nowhere, garbage, empty = (str(tmp_path / name) for name in ("nowhere", "garbage", "empty.pem"))
    Path(garbage).write_bytes(b"no certificate at all")
    Path(empty).write_text("-----BEGIN NOTHING-----\n-----END NOTHING-----\n")
    broken = authority.certificate_pem.replace("M", "", 1)
    store = str(client.pkcs12(tmp_path / "client.p12", PASSWORD))
    encrypted = {"keystore_key": client.key_pem(PASSWORD), "keystore_certificate_chain": client.certificate_pem}
    stranger = {"keystore_key": client.key_pem(), "keystore_certificate_chain": authority.certificate_pem}
    for found, message in (
        (security(truststore_location=nowhere), f"ssl.truststore.location: {nowhere} cannot be read: No such file"),
        (security(truststore_location=garbage, truststore_password="secret"), f"{garbage} cannot be opened with ssl.t"),
        (security(truststore_location=empty), f"{empty} has no certificates"),
        (security(truststore_certificates="x"), "ssl.truststore.certificates has no certificates"),
        (security(truststore_certificates=broken), "ssl.truststore.certificates has a certificate that cannot be read"),
        (security(keystore_location=store), f"{store} is no PEM, and as PKCS12 it needs ssl.keystore.password"),
        (security(keystore_location=store, keystore_password="secret 2"), "ssl.keystore.password: wrong password"),
        (security(keystore_location=empty), "must be one private key, with its certificate"),
        (security(**encrypted), "ssl.keystore.key has an encrypted key, and ssl.key.password is missing"),
        (security(**encrypted, key_password="secret 2"), "; is ssl.key.password right?"),
        (security(**stranger), "ssl.keystore.key: key and certificate cannot be used ("),
        (security(cipher_suites="TLS_NO_SUCH"), "ssl.cipher.suites has none that this machine's TLS library knows"),
    ):
        assert message in refusal(found)


def test_suites_by_the_names_of_java() -> None:
    suites = (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_RSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    )
    made = context(security(cipher_suites=",".join(suites)))
    chosen = {each["name"] for each in made.get_ciphers() if each["protocol"] != "TLSv1.3"}
    assert chosen == {"ECDHE-RSA-AES256-GCM-SHA384", "AES128-SHA", "ECDHE-ECDSA-CHACHA20-POLY1305"}
    assert made.maximum_version.name == "TLSv1_2"
    assert context(security(cipher_suites="TLS_AES_256_GCM_SHA384")).minimum_version.name == "TLSv1_3"
