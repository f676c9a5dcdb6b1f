"""What the pages of docs/ tell people to type: their links lead somewhere, commands exist, and programs run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.main import ottla as command
from tests.peers.ottla import Broker
from tests.support.readme import PROJECT
from tests.support.waiting import PATIENCE_S

PAGES = sorted(path for path in (PROJECT / "docs").glob("**/*.md") if "benchmarks" not in str(path))
NAMES = set(command.list_commands(None))  # type: ignore[arg-type]


def heading(text: str) -> str:
    """The name of a heading in links, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if "://" in link:
            continue
        name, _, section = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        if section:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert section in map(heading, headings), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_commands_exist(page: Path) -> None:
    text = page.read_text()
    shown = re.findall(r"`ottla ([a-z-]+)", text) + re.findall(r"^ottla ([a-z-]+)", text, re.MULTILINE)
    assert set(shown) <= NAMES | {"…"}


def test_each_command_is_documented() -> None:
    text = (PROJECT / "docs" / "operations.md").read_text()
    assert [name for name in sorted(NAMES) if f"`ottla {name}`" not in text] == []


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (PROJECT / "docs" / page).read_text(), re.DOTALL)


def test_the_programs_run(broker: Broker, tmp_path: Path) -> None:
    (log,) = blocks("python.md")
    client, connection, *more = blocks("client.md")
    (group,) = [block for block in more if "group=" in block]

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    (tmp_path / "data").mkdir()
    assert [line.split()[2:] for line in run(log).splitlines()] == [
        ["b'bob'", "b'1", "pear'"],
        ["b'alice'", "b'2", "plums'"],
    ]
    assert run(client.replace("127.0.0.1:9092", broker.bootstrap)) == "0 b'to you' b'hello'\n"
    assert run(connection.replace("127.0.0.1:9092", broker.bootstrap)) == "[0]\n"
    printing = "                print(record.partition, record.offset, record.value)\n"
    assert printing in group
    ending = group.replace(printing, f"{printing}                break\n").replace("127.0.0.1:9092", broker.bootstrap)
    assert run(ending) == "mine now: greetings-0\n0 0 b'hello'\nno longer mine: greetings-0\n"
