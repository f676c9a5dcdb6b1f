"""The crates of the Rust core: each is the one that was chosen, byte for byte, and none is older than a known fault."""

import tomllib
from pathlib import Path

import pytest

LOCK = tomllib.loads((Path(__file__).parents[1] / "Cargo.lock").read_text())["package"]
OURS = "ottla-core"
#: The first release that is good enough: of rustls by RUSTSEC-2026-0285, of the others as their makers advise.
LEAST = {"aws-lc-sys": (0, 39, 0), "ring": (0, 17, 12), "rustls": (0, 23, 45), "rustls-webpki": (0, 103, 13)}


def test_all_crates_are_from_one_registry_and_have_hashes() -> None:
    others = [crate for crate in LOCK if crate["name"] != OURS]
    (source,) = {crate.get("source") for crate in others}
    assert source.startswith("registry+")
    assert [crate["name"] for crate in others if len(crate.get("checksum", "")) != 64] == []


@pytest.mark.parametrize("name", LEAST)
def test_a_crate_is_not_older_than_a_known_fault(name: str) -> None:
    found = [crate["version"] for crate in LOCK if crate["name"] == name]
    assert found
    for version in found:
        assert tuple(map(int, version.split("."))) >= LEAST[name]
