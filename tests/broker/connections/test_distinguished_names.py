"""Names of certificates, written as Java does it. Java 17 gave these texts."""

import pytest

from ottla.broker.distinguished_names import is_same, written

#: DER, and what `new X500Principal(der).getName()` returns.
WRITTEN = (
    ("3011310f300d06035504030c06636c69656e74", "CN=client"),
    (
        "306a310b3009060355040613024445310f300d06035504080c0642617965726e310c300a06035504070c034f727431133011"
        "060355040a0c0a44756b652c20496e632e31153013060355040b0c0c5365727669636555736572733110300e06035504030c"
        "076b61666b612d31",
        "CN=kafka-1,OU=ServiceUsers,O=Duke\\, Inc.,L=Ort,ST=Bayern,C=DE",
    ),
    (
        "306831133011060a0992268993f22c6401191603636f6d31173015060a0992268993f22c64011916076578616d706c653112"
        "3010060a0992268993f22c6401010c027531310e300c06035504090c0557656720313114301206092a864886f70d01090116"
        "056140622e63",
        "1.2.840.113549.1.9.1=#16056140622e63,STREET=Weg 1,UID=u1,DC=example,DC=com",
    ),
    (
        "303e310b3009060355040c0c024472310b3009060355040513023137310a300806035504040c0153310a3008060355042a0c"
        "0147310a3008060355042e130171",
        "2.5.4.46=#130171,2.5.4.42=#0c0147,2.5.4.4=#0c0153,2.5.4.5=#13023137,2.5.4.12=#0c024472",
    ),
    (
        "3020311e301c06035504030c1520612c623d632b643c653e6623673b6822695c6a20",
        'CN=\\ a\\,b\\=c\\+d\\<e\\>f\\#g\\;h\\"i\\\\j\\ ',
    ),
    ("300d310b300906035504030c022378", "CN=\\#x"),
    ("30123110300e06035504030c07202074776f2020", "CN=\\ \\ two\\ \\ "),
    ("300c310a300806035504030c0120", "CN=\\ "),
    ("301b3119301706035504030c104dc3bc6c6c657220e6b0b420f09f9880", "CN=Müller 水 😀"),
    ("30173115301306035504031e0c004d00fc006c006c00650072", "CN=\\00M\\00�\\00l\\00l\\00e\\00r"),
    ("30123110300e060355040314074dc3bc6c6c6572", "CN=Müller"),
    ("301b3119301706035504030c10746162096c696e650a72657475726e0d", "CN=tab\tline\nreturn\\\r"),
    ("3010310e300c06035504030c056e756c0078", "CN=nul\\00x"),
    ("30223114300806035504030c01613008060355040b0c0162310a3008060355040a0c016f", "O=o,CN=a+OU=b"),
    ("30143112301006092b06010401868d1f070c036f776e", "1.3.6.1.4.1.99999.7=#0c036f776e"),
    ("301c310c300a06035504030c036f6e65310c300a06035504030c0374776f", "CN=two,CN=one"),
    ("30193117301506035504030c0e782a792f7a3a2728293f2d2e405f", "CN=x*y/z:'()?-.@_"),
    ("3000", ""),
    ("300d310b3009060355040303020005", "CN=#03020005"),
    ("300b3109300706035504030c00", "CN="),
    ("300e310c300a06035504030c03fffe41", "CN=��A"),
    ("300c310a300806035504031401e4", "CN=�"),
    ("300c310a30080603550403020105", "CN=#020105"),
    ("300f310d300b06035504031e0400410042", "CN=\\00A\\00B"),
)


@pytest.mark.parametrize(("der", "text"), WRITTEN)
def test_names_are_written_as_java_writes_them(der: str, text: str) -> None:
    assert written(bytes.fromhex(der)) == text


def _name(*values: bytes, tag: int = 0x0C) -> bytes:
    """Common names."""
    parts = b"".join(_tlv(0x31, _tlv(0x30, bytes.fromhex("0603550403") + _tlv(tag, value))) for value in values)
    return _tlv(0x30, parts)


def _tlv(tag: int, content: bytes) -> bytes:
    return bytes([tag, len(content)]) + content


def test_names_are_the_same_but_for_case_and_blanks() -> None:
    assert is_same(_name(b"Kafka  One", b"x"), _name(b" kafka one ", b"X"))
    assert is_same(_name(b"one"), _name(b"ONE", tag=0x13))
    assert not is_same(_name(b"one", b"two"), _name(b"two", b"one"))
    assert not is_same(_name(b"one"), _name(b"one", b"two"))
    # No text: the bytes matter.
    assert not is_same(_name(b"\0A", tag=3), _name(b"\0a", tag=3))
