import tomllib
from pathlib import Path

import ottla

ROOT = Path(__file__).parents[1]


def test_the_installed_package_is_a_release_build() -> None:
    assert ottla.__version__ == tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["version"]
    assert not ottla._core.DEBUG_BUILD
