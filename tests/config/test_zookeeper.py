"""Forms of `zookeeper.connect`; `tests/coordination/test_zookeeper.py` connects with it."""

import pytest

from ottla.config.zookeeper import ZooKeeperServers


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("a:1", "a:1", ""),
        ("a", "a:2181", ""),
        ("a:", "a:2181", ""),
        ("[::1]:1,[::1]", "[::1]:1,[::1]:2181", ""),
        ("a:1,b:2/kafka", "a:1,b:2", "/kafka"),
        ("a:1/kafka/one", "a:1", "/kafka/one"),
        ("a:1,", "a:1", ""),
        ("a:1,/kafka", "a:1", "/kafka"),
        (" a:1 , b:2 ,, c:3 /kafka", "a:1,b:2,c:3", "/kafka"),
        ("a:1/", "a:1", ""),
        ("a:1/kafka/", "a:1", "/kafka"),
    ],
)
def test_what_zookeepers_client_understands(text: str, hosts: str, chroot: str) -> None:
    assert ZooKeeperServers.parse(text) == (hosts, chroot)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no server"),
        (" , ", "names no server"),
        ("/kafka", "names no server"),
        ("a:x", "is not HOST:PORT"),
        ("a:70000", "is not HOST:PORT"),
        (":2181", "is not HOST:PORT"),
        ("a b:1", "is not HOST:PORT"),
        ("a:1//", "chroot that is no path"),
        ("a:1//kafka", "chroot that is no path"),
        ("a:1/kafka//one", "chroot that is no path"),
        ("a:1/kafka//", "chroot that is no path"),
        ("a:1/kafka/../one", "chroot that is no path"),
        ("a:1/./kafka", "chroot that is no path"),
        ("\udcff:2181", "not UTF-8"),
        (f"{'x' * 70}.y:1", "no host can have"),
    ],
)
def test_what_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        ZooKeeperServers.parse(text)
    assert "\n" not in str(refused.value)
