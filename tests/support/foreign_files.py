"""Files of other programs under the name of a segment, and what a crash may leave there."""

import gzip
from pathlib import Path

FOREIGN = {
    "text": b"some text, which is no log. " * 9,
    "gzip": gzip.compress(bytes(range(256)) * 9, mtime=0),
    "sqlite": b"SQLite format 3\0\x10\0\x02\x02\0\x40\x20\x20" + bytes(500),
}
#: Contents of a file that a crash may leave.
TORN = {"empty": b"", "short": b"\0\0\0", "zeros": bytes(300)}


def folder_with(tmp_path: Path, data: bytes) -> tuple[Path, Path]:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    file = folder / f"{0:020}.log"
    file.write_bytes(data)
    return folder, file
