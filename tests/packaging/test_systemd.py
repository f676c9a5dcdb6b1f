"""The unit of systemd: its command and its settings are ones that a broker takes, and systemd understands the rest."""

import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import click
import pytest

from ottla.cli.main import ottla
from ottla.config.broker import BrokerConfig

FOLDER = Path(__file__).parents[2] / "packaging" / "systemd"
UNIT = FOLDER / "ottla.service"
SETTINGS = FOLDER / "server.properties"


@pytest.fixture
def service() -> dict[str, str]:
    unit = ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    return dict(unit["Service"])


def test_the_command_is_one_of_ours(service: dict[str, str]) -> None:
    program, name, *arguments = service["ExecStart"].split()
    assert Path(program).name == "ottla"
    command = ottla.get_command(click.Context(ottla), name)  # type: ignore[attr-defined]
    assert (
        command.make_context(name, arguments).params["file"]
        == f"/etc/{service['ConfigurationDirectory']}/{SETTINGS.name}"
    )


def test_it_waits_for_what_a_broker_says(service: dict[str, str]) -> None:
    assert service["Type"] == "notify"
    assert service["TimeoutStartSec"] == "infinity"
    assert service["User"] == "ottla"
    assert "u ottla " in (FOLDER / "ottla.sysusers").read_text()


def test_the_settings_are_ones_of_ours_and_stay_in_the_directories_of_the_unit(
    service: dict[str, str], tmp_path: Path
) -> None:
    text = SETTINGS.read_text()
    offered = [line for line in text.splitlines() if line.startswith("#") and not line.startswith("# ")]
    assert offered
    every = tmp_path / SETTINGS.name
    every.write_text(text + "\n".join(line.removeprefix("#") for line in offered))
    config = BrokerConfig.load(str(every), {})
    assert config.warnings == []
    home = f"/var/lib/{service['StateDirectory']}"
    assert all(path.startswith(f"{home}/") for path in config.data_directories)
    assert config.get_str("metrics.listener").startswith(f"unix:/run/{service['RuntimeDirectory']}/")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_understands_it_and_finds_little_exposed(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    # Of the program it is only asked whether it is there.
    unit.write_text(UNIT.read_text().replace("/opt/ottla/bin/ottla", shutil.which("true") or "/bin/true"))
    verified = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=True)
    assert verified.stderr == ""
    security = ["systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=20", unit]
    exposed = subprocess.run(security, capture_output=True, text=True)
    assert exposed.returncode == 0, exposed.stdout
