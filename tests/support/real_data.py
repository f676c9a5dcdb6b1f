"""Real web requests, counted by plain Python."""

from datetime import datetime
from pathlib import Path


def second(time: datetime) -> int:
    return round(time.timestamp())


def requests(file: Path) -> list[tuple[str, int, str, int, str]]:
    """Client, second, page, status and agent of each line that is a request."""
    found = []
    for line in file.read_text(errors="surrogateescape").splitlines():
        try:
            before, request, after, *rest = line.split('"')
            time = datetime.strptime(before[before.index("[") + 1 : before.index("]")], "%d/%b/%Y:%H:%M:%S %z")
            page, status = request.split(" ")[1].partition("?")[0], int(after.split()[0])
        except (ValueError, IndexError):
            continue
        found.append((line.split(" ")[0], second(time), page, status, rest[2] if len(rest) > 2 else ""))
    return found
