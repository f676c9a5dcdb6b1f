"""Keeps a directory of this release: `python -m tests.directories.make` writes tests/directories/VERSION.tar.xz.

It has the data directory of a broker that was stopped, and `seen.json`, which is what clients saw of it. Once a release
is out its archive is never made anew.
"""

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from ottla import __version__
from tests.directories import contents
from tests.peers.ottla import Brokers

FOLDER = Path(__file__).parent
SEEN, DATA = "seen.json", "data"


def make(archive: Path) -> None:
    """Fills a broker, stops it, and packs its directory."""
    with tempfile.TemporaryDirectory() as name, Brokers(Path(name)) as brokers:
        folder = Path(name)
        broker = brokers(data=folder / DATA, settings=contents.SETTINGS)
        subprocess.run([sys.executable, "-m", contents.__name__, broker.bootstrap], check=True)
        (folder / SEEN).write_text(json.dumps(contents.seen(broker.bootstrap), indent=1) + "\n")
        broker.stop()
        with tarfile.open(archive, "w:xz") as packed:
            for part in (SEEN, DATA):
                packed.add(folder / part, part, filter=_of_nobody)


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    target = FOLDER / f"{__version__}.tar.xz"
    if target.exists():
        sys.exit(f"{target} is there: a release's directory is made once")
    make(target)
    print(f"{target}: {target.stat().st_size} bytes")
