"""The commands that README tells people to type are typed, and its links lead somewhere."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers.ottla import Brokers
from tests.support.readme import PROJECT, README, block
from tests.support.waiting import PATIENCE_S


def test_what_it_looks_like(brokers: Brokers, tmp_path: Path) -> None:
    # As Kafka has it. The doctor warns of brokers that keep all records, as those of other tests do.
    broker = brokers(data=tmp_path / "data", settings={"log.retention.hours": 168})
    shell = block("sh", "topic create").replace(".venv/bin/ottla", f"{sys.executable} -m ottla")
    shell = shell.replace("127.0.0.1:9092", broker.bootstrap)
    if shutil.which("kcat") is None:
        shell = "\n".join(line for line in shell.splitlines() if not line.startswith("kcat"))
    environment = {**os.environ, "OTTLA_BOOTSTRAP": broker.bootstrap}
    done = subprocess.run(
        ["bash", "-euc", shell], capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"key": "alice"') == 2

    code = block("python", "ottla.log")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["0 b'alice' b'3 apples'", "1 b'bob' b'1 pear'", "2 b'alice' b'2 plums'"]


@pytest.mark.parametrize("page", ["README.md", "DEVELOPING.md"])
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)", (PROJECT / page).read_text())
    assert links
    assert [link for link in links if "://" not in link and not (PROJECT / link).exists()] == []


def test_every_page_has_its_place_in_the_order() -> None:
    docs = PROJECT / "docs"
    order = (docs / "README.md").read_text()
    assert "](docs/README.md)" in README
    pages = sorted(page for page in docs.glob("*.md") if page.name != "README.md")
    assert [page.name for page in pages if f"]({page.name})" not in order] == []


def test_commands_exist() -> None:
    """Every `make` target that README and DEVELOPING name is one."""
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    text = README + (PROJECT / "DEVELOPING.md").read_text()
    assert set(re.findall(r"`?make ([a-z-]+)", text)) <= targets | {"do"}
