"""The table of docs/clients.md: which client passed which cells. Printed by every run, written by `make clients`."""

from pathlib import Path

import pytest

from tests.compat.matrix import ACKS, CLIENTS, CODECS, Matrix

MATRIX = pytest.StashKey[Matrix]()
DOCUMENT = Path(__file__).parents[2] / "docs" / "clients.md"
START, END = "<!-- the table: written by `make clients` -->", "<!-- end of the table -->"

# Row -> how many cells a client must pass for a tick; kcat has neither administration nor transactions.
ROWS: dict[str, int] = {
    **{f"produce {codec}, acks 0, 1, all": len(ACKS) for codec in CODECS},
    "consume from earliest": len(CLIENTS),
    "consume from latest": 1,
    "consume from an offset": 1,
    "consume from a timestamp": 1,
    "idempotent producer, answers lost": 1,
    "transactions": 1,
    "null keys, empty and null values, headers": 1,
    "1 MB messages": 1,
    "2,000 partitions in one topic": 1,
    "a group: one member, two, another one": 1,
    "a static member comes back": 1,
    "topics and configurations": 1,
}
ABSENT = {("kcat", "topics and configurations"), ("kcat", "transactions")}


def render(passed: dict[tuple[str, str], int], versions: dict[str, str]) -> str:
    """Markdown: a row per subject, a column per client; `3 of 9` where only some cells passed."""
    clients = [client for client in CLIENTS if client.name in versions]
    lines = ["| | " + " | ".join(client.name for client in clients) + " |", "|---|" + "---|" * len(clients)]
    for row, wanted in ROWS.items():
        cells = []
        for client in clients:
            count = passed.get((client.name, row), 0)
            if (client.name, row) in ABSENT:
                cells.append("–")
            else:
                cells.append("✓" if count >= wanted else f"{count} of {wanted}" if count else "✗")
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    lines.append("")
    exact = ", ".join(f"{client.name.split(' ')[0]} {versions[client.name]}" for client in clients)
    lines.append(f"Versions: {exact}.")
    return "\n".join(lines)


def committed() -> str:
    """The table as it stands in docs/clients.md."""
    return DOCUMENT.read_text().partition(START)[2].partition(END)[0].strip()


def parsed(text: str) -> dict[tuple[str, str], str]:
    """(client, row) -> what its cell says."""
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    if not lines:
        return {}
    clients = lines[0][1:]
    return {(client, row): cell for row, *cells in lines[2:] for client, cell in zip(clients, cells, strict=True)}


def write(text: str) -> None:
    before, _, rest = DOCUMENT.read_text().partition(START)
    after = rest.partition(END)[2]
    DOCUMENT.write_text(f"{before}{START}\n{text}\n{END}{after}")
