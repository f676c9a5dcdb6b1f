"""Writes THIRD-PARTY-LICENSES.txt, the licences of the crates that are compiled into a wheel:

    python packaging/licences.py > THIRD-PARTY-LICENSES.txt        (make licences)

The texts are those that the crates bring, from cargo's own copies of them. Where a crate offers a choice, it is taken
under MIT. A wheel takes the file as it is.
"""

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PLATFORM = "x86_64-unknown-linux-gnu"
TEXTS = ("LICENSE*", "COPYING*", "UNLICENSE*")
#: Other people's sources inside crates, which have texts of their own.
INSIDE = {
    "lz4-sys": ["liblz4/lib/LICENSE"],
    "ring": ["third_party/fiat/LICENSE", "src/polyfill/once_cell/LICENSE-MIT"],
    "zstd-sys": ["zstd/LICENSE"],
}
HEAD = """\
The compiled module of Ottla contains the Rust crates below, and Rust's standard library (MIT OR Apache-2.0, The Rust
Project Contributors). Each is listed with its version and its licence; the texts follow.
"""


def compiled() -> list[dict[str, Any]]:
    """The packages whose code is in the module, by name: what the crate needs to run, and so on; no macros."""
    ask = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={PLATFORM}"]
    told = json.loads(subprocess.run(ask, cwd=ROOT, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in told["packages"]}
    needs = {node["id"]: node["deps"] for node in told["resolve"]["nodes"]}
    found: set[str] = set()
    ahead = [told["resolve"]["root"]]
    while ahead:
        for need in needs[ahead.pop()]:
            package = packages[need["pkg"]]
            is_macro = any("proc-macro" in target["kind"] for target in package["targets"])
            runs = any(kind["kind"] is None for kind in need["dep_kinds"])
            if runs and not is_macro and need["pkg"] not in found:
                found.add(need["pkg"])
                ahead.append(need["pkg"])
    return sorted((packages[each] for each in found), key=lambda package: (package["name"], package["version"]))


def texts(package: dict[str, Any]) -> Iterator[str]:
    """The licences that a crate is used under."""
    folder = Path(package["manifest_path"]).parent
    own = sorted({path for pattern in TEXTS for path in folder.glob(pattern)})
    mit = [path for path in own if path.name.upper().endswith("MIT")]
    chosen = mit if mit and " OR " in package["license"] else own
    if not chosen:
        raise SystemExit(f"{package['name']} {package['version']} brings no text of its licence: {folder}")
    for path in [*chosen, *(folder / inside for inside in INSIDE.get(package["name"], []))]:
        yield "\n".join(line.rstrip() for line in path.read_text().strip("\n").splitlines())


def render() -> str:
    """The whole file: the list, and each text once."""
    packages = compiled()
    users: dict[str, list[str]] = defaultdict(list)
    for package in packages:
        for text in dict.fromkeys(texts(package)):
            users[text].append(f"{package['name']} {package['version']}")
    rows = [f"{package['name']} {package['version']}: {package['license']}" for package in packages]
    parts = [HEAD, "\n".join(rows) + "\n"]
    parts += [f"{'=' * 80}\n{', '.join(names)}\n{'=' * 80}\n\n{text}\n" for text, names in users.items()]
    return "\n".join(parts)


if __name__ == "__main__":
    print(render(), end="")
