"""What docs/classic.md shows: its tables are those of the code, its examples run."""

import dataclasses
import re
from typing import Any

import pytest

from ottla.classic import ConsumerConfig, ProducerConfig
from ottla.classic.config import name_of
from tests.classic.conftest import Place
from tests.support.readme import PROJECT, block

TEXT = (PROJECT / "docs" / "classic.md").read_text()


def section(title: str) -> str:
    (found,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE)
    return str(found)


CONSUMER = "`Consumer`: groups that balance themselves in ZooKeeper"


@pytest.mark.parametrize(("title", "config"), [("`Producer`", ProducerConfig), (CONSUMER, ConsumerConfig)])
def test_the_table_of_settings(title: str, config: type[Any]) -> None:
    rows = re.findall(r"^\| `([^`]+)` \|([^|]*)\|([^|]*)\|", section(title), re.MULTILINE)
    said = {name: (aliases.replace("`", "").strip(), default.strip()) for name, aliases, default in rows}
    fields = {name_of(each): each for each in dataclasses.fields(config)}
    assert said == {
        name: (
            ", ".join(each.metadata["aliases"]),
            ""
            if each.default in ("", None)
            else str(each.default).lower()
            if each.type == "bool"
            else str(each.default),
        )
        for name, each in fields.items()
    }


def test_every_promise_has_its_tests() -> None:
    named = re.findall(r"`(test_\w+\.py)::(\w+)`", section("What the documents promise"))
    assert len(named) > 20
    for file, test in named:
        assert f"def {test}(" in (PROJECT / "tests" / "classic" / file).read_text(), test


@pytest.mark.java
@pytest.mark.zookeeper
def test_the_examples_run(ours: Place, capsys: pytest.CaptureFixture[str]) -> None:
    topic = ours.topic(1)
    for text in (
        block("python", "ProducerData", "docs/classic.md"),
        block("python", "SimpleConsumer", "docs/classic.md"),
        block("python", "Consumer.create", "docs/classic.md"),
    ):
        text = text.replace("127.0.0.1:2181", ours.zookeeper).replace("127.0.0.1:9092", ours.bootstrap)
        exec(text.replace("9092", str(ours.port)).replace('"visits"', f'"{topic}"'), {})
    assert capsys.readouterr().out.splitlines() == [
        "0 b'member 7' b'a page'",
        "1 None b'another page'",
        "2 None b'and one more'",
        "3 b'member 7' b'a page'",
        f"{topic} 0 0 b'a page'",
        f"{topic} 0 1 b'another page'",
        f"{topic} 0 2 b'and one more'",
        f"{topic} 0 3 b'a page'",
    ]
